"""`stopwav diff`: what changed from one saved run to another, engine by engine and metric by metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import UNTRAINED, Record
from stopwav.stats import DEFAULT_THRESHOLD
from stopwav.stats.change import Change, Question, answer_all, ask_errors, ask_nothing, ask_ratio
from stopwav.studies.diff.comparable import engines_of, obstacles, remarks, visible
from stopwav.studies.latency.comparable import (
    METRIC_NAMES,
    METRICS,
    WER,
    Missing,
    Side,
    errors_by_utterance,
    side_of,
    values_by_round,
)

Run = Record | Path | str


@dataclass(frozen=True)
class Cell:
    """One engine of both runs: its changes, on how many utterances they rest, and which ones b lost."""

    name: str
    changes: tuple[Change, ...]
    utterances: int
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diff:
    """What changed from run a to run b; `forced` says what was against comparing them, where that was overridden."""

    a: Path
    b: Path
    study: str
    cells: tuple[Cell, ...]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    forced: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The comparison as `--json` prints it."""
        return {
            "study": self.study,
            "a": str(self.a),
            "b": str(self.b),
            "forced": list(self.forced),
            "remarks": list(self.remarks),
            "only_a": list(self.only_a),
            "only_b": list(self.only_b),
            "results": [
                {
                    "name": cell.name,
                    "utterances": cell.utterances,
                    "lost": list(cell.lost),
                    "changes": [change.to_json() for change in cell.changes],
                }
                for cell in self.cells
            ],
        }


def diff(
    a: Run,
    b: Run,
    *,
    threshold: float = DEFAULT_THRESHOLD,
    thresholds: Mapping[str, float] | None = None,
    force: bool = False,
) -> Diff:
    """What changed from run `a` to run `b`, with one confidence of 95 % for all verdicts together.

    `threshold` is the relative change that is of no concern; `thresholds` names metrics for which it is another one.
    Raises where the runs cannot be compared, unless `force` is given.
    """
    limits = limits_by_metric(threshold, thresholds)
    before, after = (read_run(run, ("latency", "grid")) for run in (a, b))
    if before.header.study != after.header.study:
        raise StopwavError(
            f"{before.path}: a run of {before.header.study!r}; {after.path}: a run of {after.header.study!r}; "
            "compare runs of the same study"
        )
    if before.header.study == "grid":
        from stopwav.studies.grid.comparable import grid_diff

        return grid_diff(before, after, limits, force)
    in_a, in_b = engines_of(before), engines_of(after)
    shared = [name for name in in_a if name in in_b]
    forced = check_comparable(before, after, shared, force)
    if not shared:
        raise StopwavError(
            f"{before.path} and {after.path} have no engine in common: "
            f"{visible(_listed(in_a))} against {visible(_listed(in_b))}; name the engine the same way in both runs"
        )
    sides = {name: (side_of(before, name), side_of(after, name)) for name in shared}
    cells = _cells(sides, limits)
    return Diff(
        a=before.path,
        b=after.path,
        study=before.header.study,
        cells=cells,
        only_a=tuple(name for name in in_a if name not in in_b),
        only_b=tuple(name for name in in_b if name not in in_a),
        forced=forced,
        remarks=(*remarks(before, after), *_remarks_on_cells(sides, cells)),
    )


def read_run(run: Run, studies: Sequence[str] = ("latency",)) -> Record:
    """The run in a file, or the one that is given, of one of these studies."""
    record = run if isinstance(run, Record) else Record.read(Path(run))
    if record.header.study not in studies:
        can = " and ".join(map(repr, studies))
        raise StopwavError(f"{record.path}: a run of {record.header.study!r}; only runs of {can} can be taken here")
    return record


def check_comparable(a: Record, b: Record, names: Sequence[str], force: bool) -> tuple[str, ...]:
    """What is against comparing the runs, where `force` overrides it; without, that is an error."""
    against = obstacles(a, b, names)
    if against and not force:
        raise StopwavError(
            f"{b.path} cannot be compared with {a.path}: {'; '.join(against)}; "
            "measure both the same way, or add --force to compare them all the same"
        )
    return tuple(against)


def limits_by_metric(threshold: float, thresholds: Mapping[str, float] | None = None) -> dict[str, float]:
    """The threshold of every metric."""
    for name, value in {"threshold": threshold, **(thresholds or {})}.items():
        if not (math.isfinite(value) and value >= 0):
            raise StopwavError(f"threshold {value} of {name}: must be 0 or more, such as 0.01 for 1 %")
    unknown = [name for name in thresholds or {} if name not in METRIC_NAMES]
    if unknown:
        raise StopwavError(f"threshold for {unknown[0]!r}: no such metric here; there are {', '.join(METRIC_NAMES)}")
    return {name: (thresholds or {}).get(name, threshold) for name in METRIC_NAMES}


def _cells(sides: Mapping[str, tuple[Side, Side]], limits: Mapping[str, float]) -> tuple[Cell, ...]:
    """One cell per engine; all their questions are decided together."""
    common = {name: common_utterances(*pair) for name, pair in sides.items()}
    asked = {name: _questions(*pair, common[name], limits) for name, pair in sides.items()}
    answers = iter(answer_all([question for questions in asked.values() for question in questions]))
    return tuple(
        Cell(
            name,
            tuple(next(answers) for _ in asked[name]),
            len(common[name]),
            tuple(sorted(a.sound - b.sound)),
        )
        for name, (a, b) in sides.items()
    )


def common_utterances(a: Side, b: Side) -> list[str]:
    """The utterances that went well in every round of both sides, with the same transcript, in a's order."""
    sound = a.sound & b.sound
    return [name for name in a.utterances if name in sound and a.utterances[name].text == b.utterances[name].text]


def _questions(a: Side, b: Side, utterances: Sequence[str], limits: Mapping[str, float]) -> list[Question]:
    """What to ask of one engine; nothing where it has no utterance on both sides."""
    if not utterances:
        return []
    chosen = set(utterances)
    questions = []
    for metric in METRICS:
        limit = limits[metric.name]
        values_a, values_b = (values_by_round(side, metric, chosen) for side in (a, b))
        if isinstance(values_a, Missing):
            questions.append(ask_nothing(metric.name, metric.unit, limit, values_a.reason))
        elif isinstance(values_b, Missing):
            questions.append(ask_nothing(metric.name, metric.unit, limit, values_b.reason))
        else:
            questions.append(ask_ratio(metric.name, metric.unit, metric.sort, values_a, values_b, limit))
    return [*questions, ask_wer(a, b, utterances, limits[WER])]


def ask_wer(a: Side, b: Side, utterances: Sequence[str], limit: float) -> Question:
    """The question whether the word error rate is another, paired by utterance."""
    if a.untrained or b.untrained:
        return ask_nothing(WER, "", limit, UNTRAINED)
    errors_a, words = errors_by_utterance(a, utterances)
    errors_b, _ = errors_by_utterance(b, utterances)
    return ask_errors(WER, errors_a, errors_b, words, limit)


def _remarks_on_cells(sides: Mapping[str, tuple[Side, Side]], cells: Sequence[Cell]) -> list[str]:
    """What of each engine could not be used."""
    found = []
    for cell in cells:
        a, b = sides[cell.name]
        for which, side in (("a", a), ("b", b)):
            if side.torn:
                found.append(
                    f"{cell.name}: {side.torn} unfinished of {side.torn + len(side.rounds)} rounds left out of {which}"
                )
        if not cell.changes:
            found.append(f"{cell.name}: no utterance went well in every round of both runs, so nothing is compared")
        elif cell.lost:
            found.append(f"{cell.name}: b lost {_listed(cell.lost)}; the comparison is without")
        gained = sorted(b.sound - a.sound)
        if gained:
            found.append(f"{cell.name}: a lost {_listed(gained)}; the comparison is without")
    return found


def _listed(names: Sequence[str]) -> str:
    """The first few of many names."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more if names else "none"
