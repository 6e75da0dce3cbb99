"""The outcome of a gate, of conditions and of a baseline as a document."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from stopwav.report.document import Cell, Column, Document, Note, Row, Table
from stopwav.report.text import DASH, counted, format_bytes, format_interval
from stopwav.stats import rule_text
from stopwav.studies.budget import time_text
from stopwav.studies.definition import Definitions
from stopwav.studies.diff.baseline import Baseline, BaselineComparison
from stopwav.studies.diff.condition import ConditionOutcome
from stopwav.studies.diff.document import HOLM, changes_document, unpaired_text
from stopwav.studies.diff.gate import Gate, RaceFacts
from stopwav.studies.diff.requirements import Requirements
from stopwav.studies.study import find_study

_REQUIREMENT_COLUMNS = (
    Column("condition", "left", fold=True, least=20),
    Column("result", "left", fold=True),
    Column("value [95 % CI]"),
    Column("outcome", "left", fold=True),
)
_UNMET = {"fails": "failed", "absent": "failed, as a number is missing", "undecided": "undecided"}
_BY_INTERVAL = "a condition holds where the whole 95 % interval does, and fails where none of it does"
# A real-time factor may be as small as a hundredth, and its limit too.
MOST_DECIMALS = 4


def gate_document(gate: Gate) -> Document:
    """Return the comparison with the baseline, whether the run holds against it, and which conditions are violated."""
    diff = gate.diff
    places: tuple[Note, ...] = (
        Note(f"a, the baseline: {diff.a}", quiet=False),
        Note(f"b, the run: {diff.b}", quiet=False),
    )
    if gate.race is not None:
        places = (
            Note(f"a, the baseline: {gate.race.base}", quiet=False),
            Note(f"b, the change: {gate.race.change}", quiet=False),
            Note(f"run file: {diff.b} ({gate.race.extent})", quiet=False),
        )
    outcome = "passed" if gate.passed else "failed"
    told = (f"stopwav gate: {outcome}", *_conditions(gate))
    return changes_document(f"gate {outcome}", diff, places, told, _method(gate))


def requirements_document(requirements: Requirements) -> Document:
    """Return each condition with the numbers that it is judged by, and whether all hold."""
    definitions = find_study(requirements.study).definitions
    rows = [
        (
            judged.condition.text,
            judged.name or DASH,
            _measured(judged, definitions),
            judged.outcome if judged.outcome in ("holds", "fails") else f"{judged.outcome}: {judged.reason}",
        )
        for judged in requirements.outcomes
    ]
    table = Table(_REQUIREMENT_COLUMNS, tuple(Row(tuple(map(Cell, row))) for row in rows))
    outcome = "passed" if requirements.passed else _UNMET[requirements.outcome]
    return Document(
        f"gate {outcome}",
        (Note(f"the run: {requirements.run}", quiet=False), table, Note(_BY_INTERVAL)),
        findings=(f"stopwav gate: {outcome}",),
    )


def _measured(judged: ConditionOutcome, definitions: Definitions) -> str:
    """The number with its interval; a share in percent, as tables show it."""
    estimate, definition = judged.estimate, definitions.find(judged.condition.limit.metric)
    if estimate.value is None:
        return DASH
    if estimate.unit == "B":
        return format_bytes(estimate.value)
    is_share = definition is not None and definition.is_share
    scale, unit = (100.0, "%") if is_share else (1.0, estimate.unit)
    return f"{format_interval(estimate, scale, _most_decimals(estimate.value * scale))} {unit}".rstrip()


def _most_decimals(number: float) -> int:
    """Enough to tell a number of microseconds from nothing: three digits of it."""
    return max(MOST_DECIMALS, 2 - math.floor(math.log10(abs(number)))) if number else MOST_DECIMALS


def _method(gate: Gate) -> str:
    if gate.race is None:
        return unpaired_text(gate.diff)
    how = f"paired by round: a and b took turns in one run; log round values, {rule_text(gate.diff.rule)}"
    return f"{how} (WER, CER: by utterance); {HOLM}"


def baseline_document(compared: BaselineComparison) -> Document:
    """Return the gate of a run and its baseline; without one, what there is none of."""
    if compared.gate is not None:
        return gate_document(compared.gate)
    return Document("gate: no baseline", findings=("stopwav gate: no baseline", compared.reason))


def baselines_document(baselines: Sequence[Baseline], folder: str, here: str) -> Document:
    """Return the baselines of a folder, a row each; `here` is the fingerprint of this machine."""
    rows = [
        Row(
            (
                Cell(baseline.name),
                Cell(baseline.study),
                Cell(f"{baseline.machine}{' (this one)' if baseline.machine == here else ''}"),
                Cell(baseline.cpu),
                Cell(baseline.started[:16].replace("T", " ")),
                Cell(str(baseline.path)),
            )
        )
        for baseline in baselines
    ]
    headings = ("name", "study", "machine", "processor", "started, UTC", "run file")
    table = Table(tuple(Column(heading, "left", fold=True) for heading in headings), tuple(rows))
    return Document(f"Baselines in {folder}", (table,) if rows else (Note("none", quiet=False),))


def _conditions(gate: Gate) -> Iterator[str]:
    """The violated conditions, the number of undecided verdicts, and the conditions asked for."""
    definitions = find_study(gate.diff.study).definitions
    for failure in gate.failures:
        about = definitions.short_title(failure.metric) if failure.metric else failure.message
        yield f"{failure.condition}, {about}: {failure.name}"
    if gate.undecided:
        verb = "is" if len(gate.undecided) == 1 else "are"
        yield f"{len(gate.undecided)} {verb} undecided, which never fails"
    if gate.race is not None and gate.race.open:
        yield f"open: {', '.join(gate.race.open)}; {_remedy(gate.race)}"
    yield f"fails on {', '.join(gate.fail_on)}"


def _remedy(race: RaceFacts) -> str:
    """What should decide the conditions that are open."""
    if race.more_rounds is None:
        return "more rounds would not decide: a larger --threshold, or more utterances"
    rounds = counted(race.more_rounds, "more round")
    if race.more_s is None or race.total_s is None:
        return f"{rounds} should decide"
    return f"{rounds}, about {time_text(race.more_s)} more, should decide: --resume --budget {_budget(race.total_s)}"


def _budget(seconds: float) -> str:
    """A time that --budget takes, rounded up: whole minutes, below one of them tens of seconds."""
    return f"{10 * math.ceil(seconds / 10)}s" if seconds <= 60 else f"{math.ceil(seconds / 60)}min"
