"""`stopwav.analyse`: what exported traces say about operators, kernels, idle time and memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.profiling.lane import Lane, busy_us, own_times
from stopwav.profiling.trace_file import BrokenTrace, read_events
from stopwav.profiling.trace_tally import TraceTally

# A screen is about that wide: more points could not be told apart. Of those that share one, the highest is kept.
TIMELINE_POINTS = 1000


@dataclass(frozen=True)
class Operator:
    """What the spans of one name took on the host: their own time, and their whole time (nested in itself once)."""

    name: str
    kind: str
    calls: int
    self_s: float
    total_s: float


@dataclass(frozen=True)
class Kernel:
    """What one kernel, copy or fill took on the devices."""

    name: str
    kind: str
    calls: int
    total_s: float


@dataclass(frozen=True)
class DeviceUse:
    """How long one device of one trace worked, between the start of its first kernel and the end of its last."""

    file: str
    device: str
    busy_s: float
    span_s: float

    @property
    def idle_share(self) -> float:
        """The share of that span in which nothing ran on it."""
        return 1 - self.busy_s / self.span_s if self.span_s else 0.0


@dataclass(frozen=True)
class MemoryTimeline:
    """Bytes allocated on one device of one trace: (seconds since the trace's first event, bytes), and the highest."""

    file: str
    device: str
    peak_bytes: int
    peak_at_s: float
    points: tuple[tuple[float, int], ...]


@dataclass(frozen=True)
class SkippedTrace:
    """A file that was left out, and why."""

    file: str
    reason: str


@dataclass(frozen=True)
class TraceAnalysis:
    """What the traces of a folder say; operators by their own time and kernels by theirs, longest first.

    Stages (of a grid's call, or modules of a step) lie over the operators on a track of their own: the same time seen
    again, and no part of theirs. Times under a profiler say which part is large, not how long it takes without one.
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
        span_s = sum(one.span_s for one in self.devices)
        return 1 - sum(one.busy_s for one in self.devices) / span_s if span_s else None

    def __str__(self) -> str:
        from stopwav.profiling.trace_sheet import trace_sheet
        from stopwav.report.sheet import sheet_text

        return sheet_text(trace_sheet(self))


def analyse(trace_dir: str | Path, *, report: bool = True) -> TraceAnalysis:
    """What the Chrome traces (`.json`, `.json.gz`) below a folder, or in one file, say; torch.profiler's or stopwav's.

    A file that is empty, torn, corrupt or no trace is named and left out. A table goes to standard error unless
    `report` is off.
    """
    folder = Path(trace_dir)
    tallies: dict[str, TraceTally] = {}
    skipped: list[SkippedTrace] = []
    for path in _trace_files(folder):
        name = path.name if path == folder else str(path.relative_to(folder))
        tally = TraceTally()
        try:
            tally.add_all(read_events(path))
        except BrokenTrace as error:
            skipped.append(SkippedTrace(name, str(error)))
        else:
            tallies[name] = tally
    if not tallies:
        first = f"{skipped[0].file}: {skipped[0].reason}" if skipped else "no .json or .json.gz file"
        raise StopwavError(
            f"analyse: no trace to read in {str(folder)!r} ({first}); export one with profile_steps(trace=…)"
        )
    found = _analysis(str(folder), tallies, tuple(skipped))
    if report:
        from stopwav.profiling.trace_sheet import trace_sheet
        from stopwav.report.sheet import print_sheet

        print_sheet(trace_sheet(found))
    return found


def _trace_files(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise StopwavError(f"analyse: {str(folder)!r} is not there; give a folder of traces, or one trace")
    return sorted(path for path in folder.rglob("*") if path.name.endswith((".json", ".json.gz")) and path.is_file())


def _analysis(folder: str, tallies: dict[str, TraceTally], skipped: tuple[SkippedTrace, ...]) -> TraceAnalysis:
    operators, astray = _operators((tally, tally.threads.values()) for tally in tallies.values())
    stages, _ = _operators((tally, tally.tracks.values()) for tally in tallies.values())
    return TraceAnalysis(
        folder=folder,
        files=tuple(tallies),
        skipped=skipped,
        operators=operators,
        kernels=_kernels(tallies.values()),
        devices=tuple(_device_use(tallies)),
        memory=tuple(_timelines(tallies)),
        notes=tuple(_notes(tallies, astray)),
        stages=stages,
    )


def _operators(tallies: Iterable[tuple[TraceTally, Iterable[Lane]]]) -> tuple[tuple[Operator, ...], int]:
    """All operators in these lanes, and how many spans lie across others instead of inside them."""
    sums: dict[tuple[str, str], list[float]] = {}
    astray = 0
    for tally, lanes in tallies:
        keys = list(tally.names)
        for lane in lanes:
            for own in own_times(lane):
                total = sums.setdefault(keys[own.name], [0, 0.0, 0.0])
                total[0] += 1
                total[1] += own.self_us / 1e6
                total[2] += own.length_us / 1e6 if own.outermost else 0.0
                astray += own.astray
    found = [
        Operator(name, kind, int(calls), self_s, total_s) for (name, kind), (calls, self_s, total_s) in sums.items()
    ]
    return tuple(sorted(found, key=lambda one: -one.self_s)), astray


def _kernels(tallies: Iterable[TraceTally]) -> tuple[Kernel, ...]:
    sums: dict[tuple[str, str], list[float]] = {}
    for tally in tallies:
        keys = list(tally.names)
        for lane in tally.devices.values():
            for name, length_us in zip(lane.names, lane.lengths, strict=True):
                total = sums.setdefault(keys[name], [0, 0.0])
                total[0] += 1
                total[1] += length_us / 1e6
    found = [Kernel(name, kind, int(calls), total_s) for (name, kind), (calls, total_s) in sums.items()]
    return tuple(sorted(found, key=lambda one: -one.total_s))


def _device_use(tallies: Mapping[str, TraceTally]) -> Iterator[DeviceUse]:
    for file, tally in tallies.items():
        for device, lane in tally.devices.items():
            busy, span = busy_us(lane)
            yield DeviceUse(file, device, busy / 1e6, span / 1e6)


def _timelines(tallies: Mapping[str, TraceTally]) -> Iterator[MemoryTimeline]:
    for file, tally in tallies.items():
        for device, (moments, totals) in tally.memory.items():
            order = sorted(range(len(moments)), key=moments.__getitem__)
            points = [((moments[at] - tally.first_us) / 1e6, round(totals[at])) for at in order]
            at_s, peak = max(points, key=lambda point: point[1])
            yield MemoryTimeline(file, device, peak, at_s, tuple(_thinned(points)))


def _thinned(points: list[tuple[float, int]]) -> Iterator[tuple[float, int]]:
    """All points where they are few, else the highest of each stretch of as many neighbours."""
    stretch = -(-len(points) // TIMELINE_POINTS)
    for first in range(0, len(points), stretch):
        yield max(points[first : first + stretch], key=lambda point: point[1])


def _notes(tallies: Mapping[str, TraceTally], astray: int) -> Iterator[str]:
    if astray:
        yield f"{astray} spans lie across others of their thread instead of inside them: their own times overlap"
    for file, tally in tallies.items():
        if tally.unusable:
            yield f"{file}: {tally.unusable} events without a time that makes sense were left out"
        if tally.unmatched:
            yield f"{file}: {tally.unmatched} spans never end and were left out"
