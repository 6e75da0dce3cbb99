"""A load run as a document: the capacity in words, the levels as a table, and what they rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stopwav.record import Result
from stopwav.report.document import (
    Block,
    Cell,
    Column,
    Detail,
    Document,
    Figures,
    Lines,
    Note,
    Row,
    Section,
    Source,
    Table,
    in_detail,
)
from stopwav.report.text import counted, format_bytes, format_interval, format_number, format_value, listed, missing
from stopwav.stats import Estimate
from stopwav.studies.load.definitions import DEFINITIONS
from stopwav.studies.load.pairs import CapacityVerdicts
from stopwav.studies.load.spec import LoadSpec
from stopwav.studies.study import StudyRun

SOAK = "How it changes while the level is held"
FAULTY = "Faulty sessions, and how they ended"
VERDICTS = {"holds": "holds", "fails": "does not hold", "unstable": "unstable", "invalid": "invalid"}


def load_document(run: StudyRun, detail: Detail) -> Document:
    """Return the document of a run."""
    spec = LoadSpec.model_validate(run.record.header.spec)
    targets = [result for result in run.results if result.kind == "target"]
    levels = [result for result in run.results if result.kind == "level"]
    verdicts = run.extras.get("verdicts")
    findings = [load_finding(target, levels, spec) for target in targets]
    if isinstance(verdicts, CapacityVerdicts):
        findings += [_verdict_text(verdicts.base, item.target, item.verdict) for item in verdicts.verdicts]
    return Document(
        title=f"Load on {listed([target.name for target in targets])}",
        blocks=tuple(_page(spec, targets, levels) if detail.page else _text(spec, targets, levels)),
        findings=tuple(findings),
        record=run.record,
        warned=tuple(run.results),
        measured=tuple(result for result in run.results if result.metrics),
        doubts=DEFINITIONS.doubts,
    )


def load_finding(target: Result, levels: Sequence[Result], spec: LoadSpec) -> str:
    """Return the capacity in words."""
    capacity = target.metrics["capacity"]
    own = [level for level in levels if level.params["target"] == target.name and level.metrics]
    objective = spec.objective
    if capacity.value is None:
        reasons = (warning.message for warning in target.warnings if warning.code.startswith("level-"))
        return f"{target.name}: {next(reasons, capacity.note)}"
    name = objective.name or "the objective"
    if capacity.value == 0:
        fewest = min((_streams(level) for level in own), default=1)
        carries = "carries no stream" if fewest == 1 else f"was not seen to carry {fewest} streams or fewer"
        return f"{target.name} {carries} under {name}: {_why_not(own)}"
    most = counted(int(capacity.value), "stream")
    if capacity.code == "at-least":
        return f"{target.name} carries {most} under {name}, and more were not tried"
    if capacity.low is None or capacity.high is None:
        return f"{target.name} carries {most} under {name}; {capacity.note}, which a larger --budget would show"
    sure = f"surely {capacity.low:.0f}" if capacity.low else "not yet surely any"
    return f"{target.name} carries {most} under {name}: {sure}, and surely not {capacity.high + 1:.0f}"


def _why_not(levels: Sequence[Result]) -> str:
    first = min(levels, key=lambda level: _streams(level), default=None)
    if first is None:
        return "no level was measured"
    conditions: Any = first.params.get("conditions", {})
    reason = first.params.get("verdict")
    broken = [text for text, side in conditions.items() if side != "below"]
    at = f"with {counted(_streams(first), 'stream')}"
    return f"{at} it is {reason}" if reason in ("unstable", "invalid") else f"{at} not {', '.join(broken)}"


def _streams(level: Result) -> int:
    return int(str(level.params["streams"]))


def _verdict_text(base: str, target: str, verdict: str) -> str:
    if verdict in ("more", "fewer"):
        return f"{target} carries {verdict} streams than {base}"
    return f"{target} and {base}: capacity {verdict}"


def _text(spec: LoadSpec, targets: Sequence[Result], levels: Sequence[Result]) -> Iterator[Block]:
    yield Note(_settings(spec, levels), quiet=False)
    for target in targets:
        own = [level for level in levels if level.params["target"] == target.name]
        if own:
            yield _levels(own, spec, target.name if len(targets) > 1 else "", page=False)
    yield from in_detail([_note(spec)])
    if slopes := _slopes(spec, levels):
        yield Lines(SOAK, slopes)
    if reasons := _reasons(levels):
        yield Lines("Sessions that failed", reasons)
    if faulty := _faulty(levels):
        yield Lines(FAULTY, faulty)


def _page(spec: LoadSpec, targets: Sequence[Result], levels: Sequence[Result]) -> Iterator[Block]:
    yield Section("At a glance", (_capacities(targets), Note(f"objective: {spec.objective.text}")))
    yield Section("Latency over streams", (Figures((("curve-*",),)),))
    for target in targets:
        own = [level for level in levels if level.params["target"] == target.name]
        if own:
            yield Section(f"The levels of {target.name}", (_levels(own, spec, "", page=True), _note(spec)))
    yield Section("What the wait consists of", (Figures((("waits-*",),)),))
    yield Section("Sessions over time", (Figures((("sessions-*",), ("memory-*",))),))
    if slopes := _slopes(spec, levels):
        yield Section(SOAK, (Lines("", slopes),))
    if reasons := _reasons(levels):
        yield Section("Sessions that failed", (Lines("", reasons),))
    if faulty := _faulty(levels):
        yield Section(FAULTY, (Lines("", faulty),))


def _settings(spec: LoadSpec, levels: Sequence[Result]) -> str:
    sessions = sum(int(level.metrics["sessions"].value or 0) for level in levels if "sessions" in level.metrics)
    pace = "virtual pace, one worker" if spec.pace == "virtual" else _served(spec)
    measured = f"{counted(len(levels), 'level')}, {counted(sessions, 'session')}"
    return f"objective {spec.objective.text}; {measured}, {pace}; [95 % CI]"


def _served(spec: LoadSpec) -> str:
    from stopwav.servers.registry import is_server

    ours = [target for target in spec.targets if not is_server(target)]
    return f"real pace, {counted(spec.workers, 'worker')} of serve" if ours else "real pace"


def _note(spec: LoadSpec) -> Note:
    sure = "open: more sessions are needed to be sure"
    client = (
        "" if spec.pace == "virtual" else "; a level is invalid if this client was late (P99 over 5 ms, or 50 ms once)"
    )
    return Note(f"{sure}; unstable: latency still rises at the end{client}")


def _capacities(targets: Sequence[Result]) -> Table:
    rows = []
    for index, target in enumerate(targets):
        estimate = target.metrics["capacity"]
        cells = (
            Cell(target.name),
            _cell(target, "capacity", decimals=0),
            Cell(estimate.note if estimate.low is None else ""),
        )
        rows.append(Row(cells, colour=index, status="" if target.status == "ok" else target.status))
    return Table((Column("target", "left"), Column("capacity, streams"), Column("", "left", fold=True)), tuple(rows))


def _columns(spec: LoadSpec, levels: Sequence[Result], page: bool) -> dict[str, str]:
    """The metrics that the table of levels shows, by their headings: what the objective limits first."""
    limited = [condition for condition in spec.objective.conditions if condition.percentile is not None]
    # A terminal has room for half of them: what is beyond the limit says more than a percentile that few sessions have.
    wanted = [name for item in limited for name in (f"{item.family}_p50", item.over_metric)]
    wanted += [item.metric for item in limited] if page else []
    wanted += ["word_latency_p50", *(("word_latency_p95", "committed_latency_p50") if page else ())]
    # Of a language without spaces, the first has no value.
    wanted += ["wer", "cer"] if page else [_rate(levels)]
    # What never happened needs no column.
    wanted += ["unfinished"] if page else []
    wanted += ["failed"] if page or any(_is_positive(level, "failed") for level in levels) else []
    wanted += ["rtf"] if spec.pace == "virtual" else ["server_cores", *(("server_bytes",) if page else ())]
    if spec.soak_s is not None:
        wanted += ["latency_slope", "memory_slope"]
    shown = [name for name in dict.fromkeys(wanted) if any(_is_said(level.metrics.get(name)) for level in levels)]
    headings = {name: _heading(name) for name in shown}
    if len(limited) == 1 and limited[0].over_metric in headings:
        headings[limited[0].over_metric] = "beyond limit, %"
    return headings


def _rate(levels: Sequence[Result]) -> str:
    return "wer" if any(_is_said(level.metrics.get("wer")) for level in levels) else "cer"


def _is_positive(level: Result, metric: str) -> bool:
    estimate = level.metrics.get(metric)
    return estimate is not None and bool(estimate.value)


def _is_said(estimate: Estimate | None) -> bool:
    return estimate is not None and estimate.value is not None


def _heading(metric: str) -> str:
    definition = DEFINITIONS.find(metric)
    assert definition is not None
    if metric == "rtf" or (definition.headline and not definition.percentiles):
        return definition.headline or "RTF"
    units = {"s": "s" if definition.scale == 1 else "ms", "B": "", "B/s": ""}
    unit = "%" if definition.scale == 100 else units.get(definition.unit, definition.unit)
    return DEFINITIONS.short_title(metric) + (f", {unit}" if unit else "")


def _levels(levels: Sequence[Result], spec: LoadSpec, title: str, *, page: bool) -> Table:
    columns = _columns(spec, levels, page)
    rows = []
    for level in sorted(levels, key=lambda level: (_streams(level), bool(level.params["faults"]))):
        verdict = str(level.params.get("verdict", level.status))
        sure = "" if level.params.get("sure") or verdict not in ("holds", "fails") else " (open)"
        name = f"{level.params['streams']}{' + faults' if level.params['faults'] else ''}"
        cells = [
            Cell(name),
            *(_cell(level, metric) for metric in columns),
            Cell(f"{VERDICTS.get(verdict, verdict)}{sure}"),
        ]
        rows.append(Row(tuple(cells), status="" if level.status == "ok" else level.status))
    headings = (
        Column("streams", "left"),
        *(Column(heading) for heading in columns.values()),
        Column("objective", "left", fold=True),
    )
    return Table(headings, tuple(rows), title=title, sortable=True)


def _cell(result: Result, metric: str, decimals: int | None = None) -> Cell:
    estimate = result.metrics.get(metric) or Estimate(None, note=f"not measured: {result.status}")
    definition = DEFINITIONS.find(metric)
    assert definition is not None
    source = Source(result.name, metric, estimate, definition.scale)
    if estimate.value is None:
        return Cell(missing(estimate), source=source)
    if estimate.unit == "B":
        return Cell(format_bytes(estimate.value), source=source)
    if estimate.unit == "B/s":
        return Cell(f"{format_bytes(estimate.value)}/s", source=source)
    shown = (definition.scale, definition.decimals if decimals is None else decimals)
    return Cell(format_interval(estimate, *shown), format_value(estimate, *shown), source)


def _reasons(levels: Sequence[Result]) -> tuple[str, ...]:
    return tuple(
        f"{level.name}: {warning.message}"
        for level in levels
        for warning in level.warnings
        if warning.code.startswith("session-")
    )


def _slopes(spec: LoadSpec, levels: Sequence[Result]) -> tuple[str, ...]:
    """Return, for each level that was held, how memory and latency change per hour, with their intervals."""
    if spec.soak_s is None:
        return ()
    per_hour: tuple[tuple[str, str, Callable[[float], str]], ...] = (
        ("memory_slope", "server memory", lambda value: format_bytes(3600 * value)),
        ("latency_slope", "latency", lambda value: f"{format_number(3600 * value, 2)} s"),
    )
    return tuple(
        f"{level.name}: {noun} {_change(level.metrics[metric], text)}"
        for level in levels
        for metric, noun, text in per_hour
        if metric in level.metrics
    )


def _change(slope: Estimate, text: Callable[[float], str]) -> str:
    if slope.value is None or slope.low is None or slope.high is None:
        return f"unknown: {slope.note}"
    verb = "rises" if slope.low > 0 else "falls" if slope.high < 0 else "is not shown to change"
    return f"{verb}: {text(slope.value)} per hour [{text(slope.low)} to {text(slope.high)}]"


def _faulty(levels: Sequence[Result]) -> tuple[str, ...]:
    endings: list[tuple[str, Any]] = [(level.name, level.params.get("faulty_sessions")) for level in levels]
    return tuple(
        f"{name}: " + ", ".join(f"{count} × {ending}" for ending, count in counts.items())
        for name, counts in endings
        if counts
    )
