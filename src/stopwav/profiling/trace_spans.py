"""The spans of one trace file: those of each thread and device as a track, with the times that follow from nesting."""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

# Traces are written in steps of a nanosecond: a span that ends after its parent by up to ten of them is rounding.
ROUNDING_US = 0.01
# Work on a device, by the categories of torch.profiler's traces, now and in older versions.
DEVICE_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
# Spans drawn over the others instead of among them: the profiler's own window, annotations on the device.
DRAWN_OVER = frozenset({"trace", "gpu_user_annotation", "overhead"})
# Tracks that stopwav adds over the same time as the threads: the stages of a grid's call, the modules of a step.
STAGE_TRACKS = frozenset({"stages", "modules"})
# c10's numbers of device types.
_DEVICE_TYPES = {0: "cpu", 1: "cuda", 6: "hip", 12: "xpu", 13: "mps"}
# Each step has a different name; together they are one line.
_STEP = re.compile(r"ProfilerStep\s*#\d+")


@dataclass
class Track:
    """The spans of a thread or device: starts and lengths in microseconds, and a number for the name; 24 bytes each."""

    starts: array[float] = field(default_factory=lambda: array("d"))
    lengths: array[float] = field(default_factory=lambda: array("d"))
    names: array[int] = field(default_factory=lambda: array("q"))

    def add(self, start_us: float, length_us: float, name: int) -> None:
        """Add one span."""
        self.starts.append(start_us)
        self.lengths.append(length_us)
        self.names.append(name)


@dataclass(frozen=True)
class OwnTime:
    """The own time of one span: its length minus that of the spans nested in it."""

    name: int
    self_us: float
    length_us: float
    outermost: bool  # not inside a span of the same name
    overlapping: bool  # begins inside another span and ends after it


def own_times(track: Track) -> Iterator[OwnTime]:
    """Yield each span's own time. From a child that ends after its parent, only the part inside is subtracted."""
    import numpy as np

    starts, lengths = np.frombuffer(track.starts), np.frombuffer(track.lengths)
    own = lengths.copy()
    order = np.lexsort((-lengths, starts))  # of spans that begin together the longer is outside
    open_spans: list[tuple[float, int, int]] = []  # end, position, name
    facts: list[tuple[int, bool, bool]] = []
    for position in order.tolist():
        start, name = track.starts[position], track.names[position]
        end = start + track.lengths[position]
        while open_spans and open_spans[-1][0] <= start:
            open_spans.pop()
        overlapping = False
        if open_spans:
            parent_end, parent, _ = open_spans[-1]
            own[parent] -= min(end, parent_end) - start
            overlapping = end > parent_end + ROUNDING_US
        facts.append((position, all(other != name for _, _, other in open_spans), overlapping))
        open_spans.append((end, position, name))
    for position, outermost, overlapping in facts:
        self_us = max(0.0, float(own[position]))
        yield OwnTime(track.names[position], self_us, track.lengths[position], outermost, overlapping)


def busy_us(track: Track) -> tuple[float, float]:
    """Return the time in which at least one span was open, and the time from the first start to the last end."""
    import numpy as np

    starts, lengths = np.frombuffer(track.starts), np.frombuffer(track.lengths)
    order = np.argsort(starts, kind="stable")
    starts, latest_ends = starts[order], np.maximum.accumulate((starts + lengths)[order])
    span = float(latest_ends[-1] - starts[0])
    gaps = float(np.maximum(starts[1:] - latest_ends[:-1], 0.0).sum())
    return span - gaps, span


class TraceSpans:
    """The spans of each thread, stage track and device of a trace, and the memory of each device."""

    def __init__(self) -> None:
        self.threads: dict[tuple[str, str], Track] = {}
        self.stage_tracks: dict[tuple[str, str], Track] = {}
        self.devices: dict[str, Track] = {}
        self.memory: dict[str, tuple[array[float], array[float]]] = {}
        self.names: dict[tuple[str, str], int] = {}
        self.first_us = math.inf
        self.unusable = 0
        self._begun: dict[tuple[str, str], list[tuple[float, int]]] = {}

    @property
    def unmatched(self) -> int:
        """The number of spans that began and never ended."""
        return sum(map(len, self._begun.values()))

    def add_all(self, events: Iterable[Event]) -> None:
        """Add every event; those without a valid time are counted as unusable."""
        for event in events:
            phase = event.get("ph")
            if phase in ("X", "B", "E", "i", "I"):
                start_us = _number(event.get("ts"))
                if start_us is None:
                    self.unusable += 1
                elif phase == "X":
                    self._add_span(event, start_us, _number(event.get("dur", 0)))
                elif phase in ("B", "E"):
                    self._add_end(event, start_us)
                elif event.get("name") == "[memory]":
                    self._add_memory(_arguments(event), start_us)

    def _add_span(self, event: Event, start_us: float, length_us: float | None) -> None:
        category = str(event.get("cat", "")).lower()
        if category in DRAWN_OVER:
            return
        if length_us is None or length_us < 0:
            self.unusable += 1
            return
        self.first_us = min(self.first_us, start_us)
        if category.removeprefix("gpu_") in ("memcpy", "memset"):
            category = f"gpu_{category.removeprefix('gpu_')}"
        name = self._name_of(event, category)
        if category in DEVICE_WORK:
            device = str(_arguments(event).get("device", event.get("pid", "")))
            self.devices.setdefault(device, Track()).add(start_us, length_us, name)
        else:
            thread = _thread(event)
            tracks = self.stage_tracks if thread[1] in STAGE_TRACKS else self.threads
            tracks.setdefault(thread, Track()).add(start_us, length_us, name)

    def _add_end(self, event: Event, time_us: float) -> None:
        """Add one of the two events of a span: a begin waits for the next end in its thread."""
        begun = self._begun.setdefault(_thread(event), [])
        if event["ph"] == "B":
            self.first_us = min(self.first_us, time_us)
            begun.append((time_us, self._name_of(event, str(event.get("cat", "")).lower())))
        elif begun and time_us >= begun[-1][0]:
            start_us, name = begun.pop()
            self.threads.setdefault(_thread(event), Track()).add(start_us, time_us - start_us, name)
        else:
            self.unusable += 1

    def _add_memory(self, arguments: dict[str, Any], time_us: float) -> None:
        total = _number(arguments.get("Total Allocated"))
        kind = arguments.get("Device Type")
        if total is None or not isinstance(kind, int):
            self.unusable += 1
            return
        number = arguments.get("Device Id", -1)
        name = _DEVICE_TYPES.get(kind, f"device type {kind}")
        device = name if number == -1 or name == "cpu" else f"{name}:{number}"
        times, totals = self.memory.setdefault(device, (array("d"), array("d")))
        self.first_us = min(self.first_us, time_us)
        times.append(time_us)
        totals.append(total)

    def _name_of(self, event: Event, category: str) -> int:
        name = _STEP.sub("ProfilerStep", str(event.get("name", "")))
        return self.names.setdefault((name, category), len(self.names))


def _thread(event: Event) -> tuple[str, str]:
    return str(event.get("pid", "")), str(event.get("tid", ""))


def _arguments(event: Event) -> dict[str, Any]:
    arguments = event.get("args")
    return arguments if isinstance(arguments, dict) else {}


def _number(value: object) -> float | None:
    """Return the value as a finite float, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


Event = dict[str, Any]

# Characters read at a time: many events, and little memory.
CHUNK_CHARS = 1 << 20
# No event is that long: one that has not ended by then is broken, and would otherwise read the rest of the file.
LONGEST_EVENT_CHARS = 1 << 24

_LIST = re.compile(r'"traceEvents"\s*:\s*\[')
# Longer than the key with its colon and bracket, so that one cut in two by a chunk's end is still found.
_KEPT_CHARS = 256
_BETWEEN = re.compile(r"[\s,]*")


class BrokenTrace(Exception):
    """The reason why a file is skipped: it is empty, truncated, corrupt, or not a trace."""


def read_events(path: Path) -> Iterator[Event]:
    """Yield the events of one file in order; raise BrokenTrace, possibly after some of them, if it is broken."""
    try:
        if path.stat().st_size == 0:
            raise BrokenTrace("empty")
        with _open(path) as text:
            yield from _events(text)
    except EOFError as error:
        raise BrokenTrace("truncated: the compressed data end too early") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise BrokenTrace(f"corrupt: {error}") from error
    except OSError as error:
        raise BrokenTrace(f"cannot be read: {error.strerror or error}") from error


def _open(path: Path) -> TextIO:
    # A byte that is not UTF-8 is part of some name; the rest of the trace is fine.
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open(encoding="utf-8", errors="replace")


def _events(text: TextIO) -> Iterator[Event]:
    buffer, bare = _find_list(text)
    decoder = json.JSONDecoder()
    position = 0
    while True:
        position = _BETWEEN.match(buffer, position).end()  # type: ignore[union-attr]  # always matches
        if buffer[position : position + 1] == "]":
            _check_end(buffer[position + 1 :], text, bare)
            return
        event = None
        if buffer[position : position + 1] not in ("{", ""):
            raise BrokenTrace(f"corrupt: {buffer[position : position + 20]!r} where an event should begin")
        try:
            if position < len(buffer):
                event, position = decoder.raw_decode(buffer, position)
        except (ValueError, RecursionError) as error:
            if not isinstance(error, json.JSONDecodeError | RecursionError):  # a number of thousands of digits
                raise BrokenTrace(f"corrupt: {error}") from error
            if len(buffer) - position > LONGEST_EVENT_CHARS:
                raise BrokenTrace("corrupt: an event that does not end") from error
        if event is not None:
            if bare and "ph" not in event:
                raise BrokenTrace("not a trace: a list of something else")
            yield event
            continue
        more = text.read(CHUNK_CHARS)
        if not more:
            raise BrokenTrace("truncated or corrupt: the list of events does not end")
        buffer, position = buffer[position:] + more, 0


def _find_list(text: TextIO) -> tuple[str, bool]:
    """Return the text after the opening bracket of the list of events, and whether the list is the whole file."""
    buffer = text.read(CHUNK_CHARS).lstrip("\ufeff \t\r\n")
    if not buffer:
        raise BrokenTrace("empty")
    if buffer.startswith("["):
        return buffer[1:], True
    if not buffer.startswith("{"):
        raise BrokenTrace("not a trace: not JSON")
    while not (match := _LIST.search(buffer)):
        more = text.read(CHUNK_CHARS)
        if not more:
            raise BrokenTrace("not a trace: it has no list of traceEvents")
        buffer = buffer[-_KEPT_CHARS:] + more
    return buffer[match.end() :], False


def _check_end(rest: str, text: TextIO, bare: bool) -> None:
    """Raise unless the file continues to its proper end after the list of events."""
    rest += text.read()
    try:
        json.loads(f"[]{rest}" if bare else f'{{"traceEvents": []{rest}')
    except (ValueError, RecursionError) as error:
        raise BrokenTrace("truncated or corrupt: it does not end properly after the list of events") from error
