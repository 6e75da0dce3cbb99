"""Operators and kernels: the spans of one name added up over the tracks of traces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stopwav.profiling.trace_spans import OPERATOR, Nesting, Thread, TraceSpans, Track, nesting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Name = tuple[str, str]  # with the kind


@dataclass(frozen=True)
class Operator:
    """The time of the spans of one name: their own time, and their total time (recursion counted once).

    `host_bytes` and `device_bytes` are what was allocated in their own time, less what was released.
    """

    name: str
    kind: str
    calls: int
    self_s: float
    total_s: float
    host_bytes: int = 0
    device_bytes: int = 0


@dataclass(frozen=True)
class Kernel:
    """The device time of one kernel, copy or fill."""

    name: str
    kind: str
    calls: int
    total_s: float

    @property
    def self_s(self) -> float:
        """Its own time, which is all of it: nothing is nested in a kernel."""
        return self.total_s


class OperatorSums:
    """The sums over the spans of each name, track by track."""

    def __init__(self) -> None:
        # Calls, own and total nanoseconds, bytes on host and devices, own and total nanoseconds on devices.
        self._sums: dict[Name, NDArray[np.float64]] = {}
        # Spans that overlap others instead of being nested in them.
        self.overlapping = 0

    def add(self, trace: TraceSpans, tracks: Mapping[Thread, Track]) -> None:
        """Add the spans of some tracks of a trace."""
        import numpy as np

        keys = list(trace.names)
        operators = np.array([kind == OPERATOR for _, kind in keys], dtype=bool)
        launched = _launched(trace)
        for thread, track in tracks.items():
            nest = nesting(track)
            self.overlapping += nest.overlapping
            names, lengths = (np.frombuffer(values, dtype=np.int64) for values in (track.names, track.lengths))
            outermost = np.array(nest.outermost)
            repeats = np.array(nest.only_repeats(track.names)) & operators[names]
            on_device = _device_ns(track, launched)
            columns = [~repeats, nest.own_ns, lengths * outermost, *_allocated(trace, thread, track, nest)]
            columns += [on_device, nest.with_nested(on_device) * outermost if on_device.any() else on_device]
            sums = np.array([np.bincount(names, weights=column, minlength=len(keys)) for column in columns]).T
            for number in np.unique(names).tolist():
                self._sums[keys[number]] = self._sums.get(keys[number], 0) + sums[number]

    def operators(self) -> list[Operator]:
        """Return the operators with their time on the host."""
        return [
            Operator(*key, int(calls), own / 1e9, total / 1e9, int(host), int(device))
            for key, (calls, own, total, host, device, _, _) in self._rows()
        ]

    def launches(self) -> list[Operator]:
        """Return the operators that launched work on devices, with its time there."""
        return [
            Operator(*key, int(calls), own / 1e9, total / 1e9) for key, (calls, *_, own, total) in self._rows() if total
        ]

    def _rows(self) -> Iterator[tuple[Name, list[float]]]:
        return ((key, sums.tolist()) for key, sums in self._sums.items())


def kernels_of(traces: Iterable[TraceSpans]) -> list[Kernel]:
    """Return the work on devices by name."""
    sums: dict[Name, list[int]] = {}
    for trace in traces:
        keys = list(trace.names)
        for track in trace.devices.values():
            for name, length_ns in zip(track.names, track.lengths, strict=True):
                total = sums.setdefault(keys[name], [0, 0])
                total[0] += 1
                total[1] += length_ns
    return [Kernel(*key, calls, total_ns / 1e9) for key, (calls, total_ns) in sums.items()]


def _launched(trace: TraceSpans) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the ids under which work was launched on devices, in order, and the nanoseconds that it took there."""
    import numpy as np

    tracks = [track for track in trace.devices.values() if any(track.ids)]
    if not tracks:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    ids = np.concatenate([np.frombuffer(track.ids, dtype=np.int64) for track in tracks])
    lengths = np.concatenate([np.frombuffer(track.lengths, dtype=np.int64) for track in tracks])
    unique, inverse = np.unique(ids, return_inverse=True)
    return unique[unique != 0], np.bincount(inverse, weights=lengths)[unique != 0]


def _device_ns(track: Track, launched: tuple[NDArray[np.int64], NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return for each span how long the work that it launched itself took on devices."""
    import numpy as np

    known, nanoseconds = launched
    ids = np.frombuffer(track.ids, dtype=np.int64)
    if not known.size:
        return np.zeros(ids.size)
    places = np.minimum(np.searchsorted(known, ids), known.size - 1)
    return np.where(known[places] == ids, nanoseconds[places], 0.0)


def _allocated(
    trace: TraceSpans, thread: Thread, track: Track, nest: Nesting
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return for each span the bytes that it allocated itself, less those released: on the host, and on devices."""
    import numpy as np

    host, devices = np.zeros(len(track.names)), np.zeros(len(track.names))
    for (owner, device), memory in trace.memory.items():
        if owner == thread:
            spans = np.array(nest.innermost(track, memory.times))
            sizes = np.frombuffer(memory.sizes, dtype=np.int64)
            np.add.at(host if device == "cpu" else devices, spans[spans >= 0], sizes[spans >= 0])
    return host, devices
