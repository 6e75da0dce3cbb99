"""`stopwav.analyse`: operators, kernels, idle time and memory of exported traces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from stopwav.errors import StopwavError, suggestion
from stopwav.profiling.operators import Kernel, Operator, OperatorSums, kernels_of
from stopwav.profiling.trace_file import BrokenTrace, TraceFile, trace_files
from stopwav.profiling.trace_spans import STEP, TraceSpans, busy_ns

# About the width of a screen in pixels: of the points that share one, the highest is kept.
TIMELINE_POINTS = 1000

Order = Literal["own", "total", "calls", "name"]
ORDERS: tuple[Order, ...] = ("own", "total", "calls", "name")
Row = TypeVar("Row", Operator, Kernel)


@dataclass(frozen=True)
class DeviceUse:
    """The busy time of one device in one trace, and the span from its first kernel's start to its last one's end."""

    file: str
    device: str
    busy_s: float
    span_s: float

    @property
    def idle_share(self) -> float:
        """The share of that span in which nothing ran on the device."""
        return 1 - self.busy_s / self.span_s if self.span_s else 0.0


@dataclass(frozen=True)
class MemoryTimeline:
    """Bytes allocated on one device in one trace: (seconds since the trace's first event, bytes), and the peak."""

    file: str
    device: str
    peak_bytes: int
    peak_at_s: float
    points: tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class SkippedTrace:
    """A file that was skipped, and the reason."""

    file: str
    reason: str


@dataclass(frozen=True)
class TraceAnalysis:
    """The analysis of traces; operators by own time and kernels by total time, longest first.

    `operators` are the spans on the host and `kernels` the work on the devices; `launches` is the device time again, by
    the operators that launched it. Stages (of a grid's call, or modules of a step) and Python functions are separate
    tracks over the operators: the same time seen again, not added to theirs. `steps` counts torch.profiler's marks of
    steps. Times under a profiler show which part is large, not how long it takes without one.
    """

    folder: str
    files: tuple[str, ...]
    skipped: tuple[SkippedTrace, ...]
    operators: tuple[Operator, ...]
    kernels: tuple[Kernel, ...]
    devices: tuple[DeviceUse, ...]
    memory: tuple[MemoryTimeline, ...]
    notes: tuple[str, ...] = ()
    stages: tuple[Operator, ...] = ()
    functions: tuple[Operator, ...] = ()
    launches: tuple[Operator, ...] = ()

    @property
    def steps(self) -> int:
        """The number of steps that torch.profiler marked."""
        return self.count(STEP)

    @property
    def idle_share(self) -> float | None:
        """The share of all devices' spans in which they were idle, as a ratio of sums; None without kernels."""
        span_s = sum(device.span_s for device in self.devices)
        return 1 - sum(device.busy_s for device in self.devices) / span_s if span_s else None

    @property
    def tables(self) -> dict[str, tuple[Operator | Kernel, ...]]:
        """The tables of times by name, those that have rows."""
        tables: dict[str, tuple[Operator | Kernel, ...]] = {
            "operators": self.operators,
            "stages": self.stages,
            "functions": self.functions,
            "kernels": self.kernels,
            "launches": self.launches,
        }
        return {name: rows for name, rows in tables.items() if rows}

    def count(self, name: str) -> int:
        """Return how many spans on the host have that name."""
        rows = (*self.operators, *self.stages, *self.functions)
        return sum(row.calls for row in rows if row.name == name)

    def to_json(self) -> dict[str, Any]:
        """Return the analysis as `--json` prints it."""
        fields = {**asdict(self), "steps": self.steps, "idle_share": self.idle_share}
        for kernel in fields["kernels"]:
            kernel["self_s"] = kernel["total_s"]
        return fields

    def __str__(self) -> str:
        from stopwav.profiling.trace_document import analysis_document
        from stopwav.report.terminal import document_text

        return document_text(analysis_document(self))


def analyse(trace_dir: str | Path, *more: str | Path, sort: Order = "own", report: bool = True) -> TraceAnalysis:
    """Analyse the Chrome traces (`.json`, `.json.gz`) of torch.profiler, stopwav or other tools: files, or folders.

    A file that is empty, truncated, corrupt or not a trace is named and skipped. A table goes to standard error unless
    `report` is off. `sort` orders the tables by `own` or `total` time, `calls` or `name`.
    """
    check_order(sort)
    traces: dict[str, TraceSpans] = {}
    skipped: list[SkippedTrace] = []
    for place in (trace_dir, *more):
        folder = Path(place)
        for path in trace_files(folder, "analyse"):
            name = str(path.relative_to(folder)) if folder.is_dir() and not more else str(path)
            try:
                traces[name] = read_spans(TraceFile(path))
            except BrokenTrace as error:
                skipped.append(SkippedTrace(name, str(error)))
    places = ", ".join(map(str, (trace_dir, *more)))
    if not traces:
        first = f"{skipped[0].file}: {skipped[0].reason}" if skipped else "no .json or .json.gz file"
        raise StopwavError(f"analyse: no trace to read in {places!r} ({first}); export one with profile_steps(trace=…)")
    analysis = _analysis(places, traces, tuple(skipped), sort)
    if report:
        from stopwav.profiling.trace_document import analysis_document
        from stopwav.report.terminal import print_aside

        print_aside(analysis_document(analysis))
    return analysis


def analyse_file(path: Path) -> TraceAnalysis:
    """Return the analysis of one trace; a broken one is an error."""
    try:
        return _analysis(str(path), {str(path): read_spans(TraceFile(path))}, (), "own")
    except BrokenTrace as error:
        raise StopwavError(f"{path}: {error}; give another trace") from error


def check_order(sort: str) -> None:
    """Raise unless tables can be sorted by that."""
    if sort not in ORDERS:
        raise StopwavError(f"sort {sort!r}: {suggestion(sort, ORDERS)}")


def read_spans(file: TraceFile) -> TraceSpans:
    """Return the spans of a trace; raise BrokenTrace where it is broken or has none."""
    trace = TraceSpans()
    trace.add_all(file.events())
    trace.unterminated = file.unterminated
    if trace.empty:
        raise BrokenTrace("no events: it has neither spans nor memory events, so nothing was recorded")
    return trace


def _analysis(
    places: str, traces: dict[str, TraceSpans], skipped: tuple[SkippedTrace, ...], sort: Order
) -> TraceAnalysis:
    sums, stages, functions = OperatorSums(), OperatorSums(), OperatorSums()
    for trace in traces.values():
        sums.add(trace, trace.threads)
        stages.add(trace, trace.stage_tracks)
        functions.add(trace, trace.python_tracks)
    return TraceAnalysis(
        folder=places,
        files=tuple(traces),
        skipped=skipped,
        operators=_sorted(sums.operators(), sort),
        kernels=_sorted(kernels_of(traces.values()), sort),
        devices=tuple(_device_use(traces)),
        memory=tuple(_timelines(traces)),
        notes=tuple(_notes(traces, sums.overlapping)),
        stages=_sorted(stages.operators(), sort),
        functions=_sorted(functions.operators(), sort),
        launches=_sorted(sums.launches(), sort),
    )


def _sorted(rows: Sequence[Row], sort: Order) -> tuple[Row, ...]:
    """Return the rows with the largest first, those as large by name."""
    by_name = sorted(rows, key=lambda row: (row.name, row.kind))
    if sort == "name":
        return tuple(by_name)
    field = {"own": "self_s", "total": "total_s", "calls": "calls"}[sort]
    return tuple(sorted(by_name, key=lambda row: -getattr(row, field)))


def _device_use(traces: Mapping[str, TraceSpans]) -> Iterator[DeviceUse]:
    for file, trace in traces.items():
        for place, track in trace.devices.items():
            busy, span = busy_ns(track)
            yield DeviceUse(file, trace.device_label(*place), busy / 1e9, span / 1e9)


def _timelines(traces: Mapping[str, TraceSpans]) -> Iterator[MemoryTimeline]:
    for file, trace in traces.items():
        for place in dict.fromkeys((device, process) for (process, _), device in trace.memory):
            # Every thread of the process that allocated there.
            moments = sorted(
                moment
                for ((process, _), device), memory in trace.memory.items()
                if (device, process) == place
                for moment in zip(memory.times, memory.totals, strict=True)
            )
            points = [((time_ns - trace.first_ns) / 1e9, total) for time_ns, total in moments]
            peak_at_s, peak = max(points, key=lambda point: point[1])
            yield MemoryTimeline(file, trace.device_label(*place), peak, peak_at_s, tuple(_thinned(points)))


def _thinned(points: list[tuple[float, int]]) -> Iterator[tuple[float, int]]:
    """Yield all points where they are few, else the highest of each group of neighbours."""
    size = -(-len(points) // TIMELINE_POINTS)
    for first in range(0, len(points), size):
        yield max(points[first : first + size], key=lambda point: point[1])


def _notes(traces: Mapping[str, TraceSpans], overlapping: int) -> Iterator[str]:
    if overlapping:
        yield f"{overlapping} spans overlap others of their thread instead of being nested: their own times overlap"
    for file, trace in traces.items():
        if trace.unusable:
            yield f"{file}: {trace.unusable} events without a valid time were left out"
        if trace.unmatched:
            yield f"{file}: {trace.unmatched} spans never end and were left out"
        if trace.unterminated:
            yield f"{file}: the list of events has no closing bracket; the program that wrote it may have been killed"
