"""The spans of one trace: those of each thread and device as a track, with the times that follow from nesting."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stopwav.profiling.trace_file import Event, time_ns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Traces are written in steps of a nanosecond: a span that ends after its parent by up to ten of them is rounding.
ROUNDING_NS = 10
# Work on a device, by the categories of torch.profiler's traces, now and in older versions.
DEVICE_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
# Spans drawn over the others instead of among them: the profiler's own window, annotations on the device.
DRAWN_OVER = frozenset({"trace", "gpu_user_annotation", "overhead"})
# Tracks that stopwav adds over the same time as the threads: the stages of a grid's call, the modules of a step.
STAGE_TRACKS = frozenset({"stages", "modules"})
# Python functions, which torch.profiler records with stacks: over the operators of their thread, the same time again.
PYTHON = "python_function"
# An operator that only calls another overload of itself is one call, as in torch.profiler's own table.
OPERATOR = "cpu_op"
# c10's numbers of device types.
_DEVICE_TYPES = {0: "cpu", 1: "cuda", 6: "hip", 12: "xpu", 13: "mps"}
# Each step has a different name; together they are one line.
STEP = "ProfilerStep"
_STEP = re.compile(r"ProfilerStep\s*#\d+")

Thread = tuple[str, str]


def _integers() -> array[int]:
    return array("q")


@dataclass
class Track:
    """The spans of a thread or device: starts and lengths in nanoseconds, a number for the name, and the id by which
    kernels name the span that launched them (0 for none); 32 bytes each."""

    starts: array[int] = field(default_factory=_integers)
    lengths: array[int] = field(default_factory=_integers)
    names: array[int] = field(default_factory=_integers)
    ids: array[int] = field(default_factory=_integers)

    def add(self, start_ns: int, length_ns: int, name: int, number: int = 0) -> None:
        """Add one span."""
        self.starts.append(start_ns)
        self.lengths.append(length_ns)
        self.names.append(name)
        self.ids.append(number)


@dataclass(frozen=True)
class Nesting:
    """How the spans of a track are nested, span by span in the track's order.

    The own time is the length minus that of the spans nested in it; from a child that ends after its parent, only the
    part inside is subtracted. `order` lists the spans by start, parents before their children.
    """

    order: list[int]
    parents: list[int]  # -1 where there is none
    own_ns: list[int]
    outermost: list[bool]  # not inside a span of the same name
    overlapping: int  # spans that begin inside another span and end after it

    def only_repeats(self, names: array[int]) -> list[bool]:
        """Return for each span whether it is the only child of a span of the same name."""
        children = Counter(self.parents)
        return [
            parent >= 0 and children[parent] == 1 and names[parent] == names[position]
            for position, parent in enumerate(self.parents)
        ]

    def with_nested(self, own: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return an amount of each span together with that of all spans nested in it."""
        total = own.copy()
        for position in reversed(self.order):
            if self.parents[position] >= 0:
                total[self.parents[position]] += total[position]
        return total

    def innermost(self, track: Track, times: array[int]) -> list[int]:
        """Return for each time the innermost span that was open then, or -1."""
        from bisect import bisect_right

        starts = [track.starts[position] for position in self.order]
        spans = []
        for time in times:
            index = bisect_right(starts, time) - 1
            position = self.order[index] if index >= 0 else -1
            while position >= 0 and track.starts[position] + track.lengths[position] < time:
                position = self.parents[position]
            spans.append(position)
        return spans


def nesting(track: Track) -> Nesting:
    """Return how the spans of a track are nested."""
    import numpy as np

    starts, lengths = (np.frombuffer(values, dtype=np.int64) for values in (track.starts, track.lengths))
    order = np.lexsort((-lengths, starts)).tolist()  # of spans that begin together the longer is outside
    own, parents, outermost = list(track.lengths), [-1] * len(order), [True] * len(order)
    overlapping = 0
    open_spans: list[tuple[int, int]] = []  # end, position
    open_names: Counter[int] = Counter()
    for position in order:
        start, name = track.starts[position], track.names[position]
        end = start + track.lengths[position]
        while open_spans and open_spans[-1][0] <= start:
            open_names[track.names[open_spans.pop()[1]]] -= 1
        if open_spans:
            parent_end, parent = open_spans[-1]
            parents[position] = parent
            own[parent] -= min(end, parent_end) - start
            overlapping += end > parent_end + ROUNDING_NS
            outermost[position] = not open_names[name]
        open_names[name] += 1
        open_spans.append((end, position))
    return Nesting(order, parents, [max(0, length) for length in own], outermost, overlapping)


def busy_ns(track: Track) -> tuple[int, int]:
    """Return the time in which at least one span was open, and the time from the first start to the last end."""
    import numpy as np

    starts, lengths = (np.frombuffer(values, dtype=np.int64) for values in (track.starts, track.lengths))
    order = np.argsort(starts, kind="stable")
    starts, latest_ends = starts[order], np.maximum.accumulate((starts + lengths)[order])
    span = int(latest_ends[-1] - starts[0])
    gaps = int(np.maximum(starts[1:] - latest_ends[:-1], 0).sum())
    return span - gaps, span


@dataclass
class MemoryEvents:
    """Allocations and releases: when, how many bytes (a release is negative), and the total that was then allocated."""

    times: array[int] = field(default_factory=_integers)
    sizes: array[int] = field(default_factory=_integers)
    totals: array[int] = field(default_factory=_integers)


class TraceSpans:
    """The spans of each thread, stage track and device of a trace, and the memory of each device."""

    def __init__(self) -> None:
        self.threads: dict[Thread, Track] = {}
        self.python_tracks: dict[Thread, Track] = {}
        self.stage_tracks: dict[Thread, Track] = {}
        # By device and process: in a merged trace several have a device of the same number.
        self.devices: dict[tuple[str, str], Track] = {}
        # By the thread that allocated and the device.
        self.memory: dict[tuple[Thread, str], MemoryEvents] = {}
        self.names: dict[tuple[str, str], int] = {}
        self.processes: dict[str, str] = {}
        self.first_ns: float = math.inf
        self.unusable = 0
        self.unterminated = False
        self._begun: dict[Thread, list[tuple[int, Event]]] = {}

    @property
    def unmatched(self) -> int:
        """The number of spans that began and never ended."""
        return sum(map(len, self._begun.values()))

    @property
    def empty(self) -> bool:
        """Whether nothing that can be analysed was in the trace."""
        return not (self.threads or self.python_tracks or self.stage_tracks or self.devices or self.memory)

    def add_all(self, events: Iterable[Event]) -> None:
        """Add every event; those without a valid time are counted as unusable."""
        for event in events:
            phase = event.get("ph")
            if phase in ("X", "B", "E", "i", "I"):
                start_ns = time_ns(event.get("ts"))
                if start_ns is None:
                    self.unusable += 1
                elif phase == "X":
                    self._add_span(event, start_ns, time_ns(event.get("dur", 0)))
                elif phase in ("B", "E"):
                    self._add_end(event, start_ns)
                elif event.get("name") == "[memory]":
                    self._add_memory(event, start_ns)
            elif phase == "M" and event.get("name") == "process_name":
                self.processes[str(event.get("pid", ""))] = str(_arguments(event).get("name", ""))

    def device_label(self, device: str, process: str) -> str:
        """Return the device, with its process where several processes have one of that name."""
        owners = {pid for name, pid in self.devices if name == device}
        owners |= {thread[0] for thread, name in self.memory if name == device}
        return device if len(owners) < 2 else f"{device} of {self.processes.get(process) or process}"

    def _add_span(self, event: Event, start_ns: int, length_ns: int | None) -> None:
        category = str(event.get("cat", "")).lower()
        if category in DRAWN_OVER:
            return
        if length_ns is None or length_ns < 0:
            self.unusable += 1
            return
        self.first_ns = min(self.first_ns, start_ns)
        if category.removeprefix("gpu_") in ("memcpy", "memset"):
            category = f"gpu_{category.removeprefix('gpu_')}"
        name, arguments = self._name_of(event, category), _arguments(event)
        number = _launch_id(arguments)
        if category in DEVICE_WORK:
            process = str(event.get("pid", ""))
            device = str(arguments.get("device", process))
            self.devices.setdefault((device, process), Track()).add(start_ns, length_ns, name, number)
            return
        thread = _thread(event)
        tracks = self.python_tracks if category == PYTHON else self.threads
        tracks = self.stage_tracks if thread[1] in STAGE_TRACKS else tracks
        # Calls of the runtime have the id of the operator that made them.
        number = 0 if "correlation" in arguments else number
        tracks.setdefault(thread, Track()).add(start_ns, length_ns, name, number)

    def _add_end(self, event: Event, time_ns: int) -> None:
        """Add one of the two events of a span: a begin waits for the next end in its thread."""
        begun = self._begun.setdefault(_thread(event), [])
        if event["ph"] == "B":
            begun.append((time_ns, event))
        elif begun and time_ns >= begun[-1][0]:
            start_ns, first = begun.pop()
            self._add_span(first, start_ns, time_ns - start_ns)
        else:
            self.unusable += 1

    def _add_memory(self, event: Event, time_ns: int) -> None:
        arguments = _arguments(event)
        total, size = (_whole(arguments.get(key, 0)) for key in ("Total Allocated", "Bytes"))
        kind = arguments.get("Device Type")
        if total is None or size is None or not isinstance(kind, int):
            self.unusable += 1
            return
        number = arguments.get("Device Id", -1)
        name = _DEVICE_TYPES.get(kind, f"device type {kind}")
        device = name if number == -1 or name == "cpu" else f"{name}:{number}"
        memory = self.memory.setdefault((_thread(event), device), MemoryEvents())
        self.first_ns = min(self.first_ns, time_ns)
        memory.times.append(time_ns)
        memory.sizes.append(size)
        memory.totals.append(total)

    def _name_of(self, event: Event, category: str) -> int:
        name = _STEP.sub(STEP, str(event.get("name", "")))
        return self.names.setdefault((name, category), len(self.names))


def _thread(event: Event) -> Thread:
    return str(event.get("pid", "")), str(event.get("tid", ""))


def _arguments(event: Event) -> dict[str, Any]:
    arguments = event.get("args")
    return arguments if isinstance(arguments, dict) else {}


def _launch_id(arguments: dict[str, Any]) -> int:
    """Return the id that an operator and the kernels it launched share; 0 for none."""
    number = _whole(arguments.get("External id", arguments.get("external id", 0)))
    return number or 0


def _whole(value: object) -> int | None:
    """Return the value as a whole number of 64 bits, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not -(2**63) < value < 2**63:
        return None
    return round(value)
