"""The tables of analysed traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stopwav.profiling.analysis import Operator, TraceAnalysis
from stopwav.report.numbers import DASH, format_bytes
from stopwav.report.sheet import Section, Sheet, format_seconds

# What a screen holds: the rest is in the analysis, and its sum in the last line.
LISTED = 15
# A mangled kernel's name may take a page; its beginning tells it apart.
LONGEST_NAME = 60


def trace_sheet(found: TraceAnalysis) -> Sheet:
    """The sheet: operators and stages by their own time, kernels, devices and their idle share, memory."""
    return Sheet(tuple(_sections(found)), tuple(_notes(found)))


def _sections(found: TraceAnalysis) -> Iterator[Section]:
    count = f"{len(found.files)} trace{'' if len(found.files) == 1 else 's'}"
    title = f"{found.folder}: {count}, {len(found.skipped)} skipped"
    headings = ("calls", "own time", "share", "with what is inside")
    yield title, ("operator", "kind", *headings), _operator_rows(found.operators)
    if found.stages:
        yield "", ("stage", "kind", *headings), _operator_rows(found.stages)
    if found.kernels:
        yield "", ("kernel", "kind", "calls", "total", "share"), _kernel_rows(found)
    if found.devices:
        rows = [
            (
                f"{one.device} in {one.file}",
                format_seconds(one.busy_s),
                format_seconds(one.span_s),
                f"{one.idle_share:.1%}",
            )
            for one in found.devices
        ]
        yield "", ("device", "busy", "first to last kernel", "idle"), rows
    if found.memory:
        memory = [
            (f"{one.device} in {one.file}", format_bytes(one.peak_bytes), format_seconds(one.peak_at_s))
            for one in found.memory
        ]
        yield "", ("memory", "peak", "at"), memory


def _operator_rows(operators: Sequence[Operator]) -> Sequence[Sequence[str]]:
    whole_s = sum(one.self_s for one in operators)
    rows: list[tuple[str, ...]] = [
        (_cut(one.name), one.kind, str(one.calls), *_time_and_share(one.self_s, whole_s), format_seconds(one.total_s))
        for one in operators[:LISTED]
    ]
    if rest := operators[LISTED:]:
        others = (str(sum(one.calls for one in rest)), *_time_and_share(sum(one.self_s for one in rest), whole_s))
        rows.append((f"{len(rest)} others", "", *others, ""))
    return rows


def _kernel_rows(found: TraceAnalysis) -> Sequence[Sequence[str]]:
    whole_s = sum(one.total_s for one in found.kernels)
    rows: list[tuple[str, ...]] = [
        (_cut(one.name), one.kind, str(one.calls), *_time_and_share(one.total_s, whole_s))
        for one in found.kernels[:LISTED]
    ]
    if rest := found.kernels[LISTED:]:
        others = (str(sum(one.calls for one in rest)), *_time_and_share(sum(one.total_s for one in rest), whole_s))
        rows.append((f"{len(rest)} others", "", *others))
    return rows


def _time_and_share(seconds: float, whole_s: float) -> tuple[str, str]:
    return format_seconds(seconds), f"{seconds / whole_s:.1%}" if whole_s else DASH


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…"


def _notes(found: TraceAnalysis) -> Iterator[str]:
    if not found.devices:
        yield f"{DASH}  idle share: no kernel in these traces"
    if not found.memory:
        yield f"{DASH}  memory: no [memory] events in these traces; torch.profiler writes them with profile_memory=True"
    for one in found.skipped:
        yield f"!  skipped {one.file}: {one.reason}"
    for note in found.notes:
        yield f"!  {note}"
    yield "   Times under a profiler say which part is large, not how long it takes without one."
