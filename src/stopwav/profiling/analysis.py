"""`stopwav.analyse`: operators, kernels, idle time and memory of exported traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.profiling.trace_spans import BrokenTrace, TraceSpans, Track, busy_us, own_times, read_events

# About the width of a screen in pixels: of the points that share one, the highest is kept.
TIMELINE_POINTS = 1000


@dataclass(frozen=True)
class Operator:
    """The host time of the spans of one name: their own time, and their total time (recursion counted once)."""

    name: str
    kind: str
    calls: int
    self_s: float
    total_s: float


@dataclass(frozen=True)
class Kernel:
    """The device time of one kernel, copy or fill."""

    name: str
    kind: str
    calls: int
    total_s: float


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
    """The analysis of the traces in a folder; operators by own time and kernels by total time, longest first.

    Stages (of a grid's call, or modules of a step) are a separate track over the operators: the same time seen again,
    not added to theirs. Times under a profiler show which part is large, not how long it takes without one.
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

    @property
    def idle_share(self) -> float | None:
        """The share of all devices' spans in which they were idle, as a ratio of sums; None without kernels."""
        span_s = sum(device.span_s for device in self.devices)
        return 1 - sum(device.busy_s for device in self.devices) / span_s if span_s else None

    def __str__(self) -> str:
        from stopwav.profiling.tables import trace_sheet
        from stopwav.report.terminal import sheet_text

        return sheet_text(trace_sheet(self))


def analyse(trace_dir: str | Path, *, report: bool = True) -> TraceAnalysis:
    """Analyse the Chrome traces (`.json`, `.json.gz`) of torch.profiler or stopwav in a folder, or one file.

    A file that is empty, truncated, corrupt or not a trace is named and skipped. A table goes to standard error unless
    `report` is off.
    """
    folder = Path(trace_dir)
    traces: dict[str, TraceSpans] = {}
    skipped: list[SkippedTrace] = []
    for path in _trace_files(folder):
        name = path.name if path == folder else str(path.relative_to(folder))
        trace = TraceSpans()
        try:
            trace.add_all(read_events(path))
        except BrokenTrace as error:
            skipped.append(SkippedTrace(name, str(error)))
        else:
            traces[name] = trace
    if not traces:
        first = f"{skipped[0].file}: {skipped[0].reason}" if skipped else "no .json or .json.gz file"
        raise StopwavError(
            f"analyse: no trace to read in {str(folder)!r} ({first}); export one with profile_steps(trace=…)"
        )
    analysis = _analysis(str(folder), traces, tuple(skipped))
    if report:
        from stopwav.profiling.tables import trace_sheet
        from stopwav.report.terminal import print_sheet

        print_sheet(trace_sheet(analysis))
    return analysis


def _trace_files(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise StopwavError(f"analyse: {str(folder)!r} does not exist; give a folder of traces, or one trace")
    return sorted(path for path in folder.rglob("*") if path.name.endswith((".json", ".json.gz")) and path.is_file())


def _analysis(folder: str, traces: dict[str, TraceSpans], skipped: tuple[SkippedTrace, ...]) -> TraceAnalysis:
    operators, overlapping = _operators((trace, trace.threads.values()) for trace in traces.values())
    stages, _ = _operators((trace, trace.stage_tracks.values()) for trace in traces.values())
    return TraceAnalysis(
        folder=folder,
        files=tuple(traces),
        skipped=skipped,
        operators=operators,
        kernels=_kernels(traces.values()),
        devices=tuple(_device_use(traces)),
        memory=tuple(_timelines(traces)),
        notes=tuple(_notes(traces, overlapping)),
        stages=stages,
    )


def _operators(traces: Iterable[tuple[TraceSpans, Iterable[Track]]]) -> tuple[tuple[Operator, ...], int]:
    """Return all operators of these tracks, and how many spans overlap others instead of being nested in them."""
    sums: dict[tuple[str, str], list[float]] = {}
    overlapping = 0
    for trace, tracks in traces:
        keys = list(trace.names)
        for track in tracks:
            for own in own_times(track):
                total = sums.setdefault(keys[own.name], [0, 0.0, 0.0])
                total[0] += 1
                total[1] += own.self_us / 1e6
                total[2] += own.length_us / 1e6 if own.outermost else 0.0
                overlapping += own.overlapping
    operators = [
        Operator(name, kind, int(calls), self_s, total_s) for (name, kind), (calls, self_s, total_s) in sums.items()
    ]
    return tuple(sorted(operators, key=lambda operator: -operator.self_s)), overlapping


def _kernels(traces: Iterable[TraceSpans]) -> tuple[Kernel, ...]:
    sums: dict[tuple[str, str], list[float]] = {}
    for trace in traces:
        keys = list(trace.names)
        for track in trace.devices.values():
            for name, length_us in zip(track.names, track.lengths, strict=True):
                total = sums.setdefault(keys[name], [0, 0.0])
                total[0] += 1
                total[1] += length_us / 1e6
    kernels = [Kernel(name, kind, int(calls), total_s) for (name, kind), (calls, total_s) in sums.items()]
    return tuple(sorted(kernels, key=lambda kernel: -kernel.total_s))


def _device_use(traces: Mapping[str, TraceSpans]) -> Iterator[DeviceUse]:
    for file, trace in traces.items():
        for device, track in trace.devices.items():
            busy, span = busy_us(track)
            yield DeviceUse(file, device, busy / 1e6, span / 1e6)


def _timelines(traces: Mapping[str, TraceSpans]) -> Iterator[MemoryTimeline]:
    for file, trace in traces.items():
        for device, (times, totals) in trace.memory.items():
            order = sorted(range(len(times)), key=times.__getitem__)
            points = [((times[index] - trace.first_us) / 1e6, round(totals[index])) for index in order]
            peak_at_s, peak = max(points, key=lambda point: point[1])
            yield MemoryTimeline(file, device, peak, peak_at_s, tuple(_thinned(points)))


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
