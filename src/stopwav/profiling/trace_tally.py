"""What the events of one trace add up to."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable
from typing import Any

from stopwav.profiling.lane import Lane
from stopwav.profiling.trace_file import Event

# What runs on a device, by the categories of torch.profiler's traces, now and in older versions.
DEVICE_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
# Spans that lie over the others instead of among them: the profiler's own window, annotations drawn on the device.
DRAWN_OVER = frozenset({"trace", "gpu_user_annotation", "overhead"})
# Tracks that stopwav draws beside the threads, over the same time: the stages of a grid's call, the modules of a step.
DRAWN_TRACKS = frozenset({"stages", "modules"})
# c10's numbers of device types.
_DEVICE_TYPES = {0: "cpu", 1: "cuda", 6: "hip", 12: "xpu", 13: "mps"}
# Each step has a name of its own; together they are one line.
_STEP = re.compile(r"ProfilerStep\s*#\d+")


class TraceTally:
    """The spans of each thread, drawn track and device, and the memory of each device, as a trace tells them."""

    def __init__(self) -> None:
        self.threads: dict[tuple[str, str], Lane] = {}
        self.tracks: dict[tuple[str, str], Lane] = {}
        self.devices: dict[str, Lane] = {}
        self.memory: dict[str, tuple[array[float], array[float]]] = {}
        self.names: dict[tuple[str, str], int] = {}
        self.first_us = math.inf
        self.unusable = 0
        self._begun: dict[tuple[str, str], list[tuple[float, int]]] = {}

    @property
    def unmatched(self) -> int:
        """Spans that began and never ended."""
        return sum(map(len, self._begun.values()))

    def add_all(self, events: Iterable[Event]) -> None:
        """Count every event; those without a time that makes sense are counted as unusable."""
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
            self.devices.setdefault(device, Lane()).add(start_us, length_us, name)
        else:
            thread = _thread(event)
            lanes = self.tracks if thread[1] in DRAWN_TRACKS else self.threads
            lanes.setdefault(thread, Lane()).add(start_us, length_us, name)

    def _add_end(self, event: Event, at_us: float) -> None:
        """A span in two events: its begin waits for the next end in its thread."""
        waiting = self._begun.setdefault(_thread(event), [])
        if event["ph"] == "B":
            self.first_us = min(self.first_us, at_us)
            waiting.append((at_us, self._name_of(event, str(event.get("cat", "")).lower())))
        elif waiting and at_us >= waiting[-1][0]:
            start_us, name = waiting.pop()
            self.threads.setdefault(_thread(event), Lane()).add(start_us, at_us - start_us, name)
        else:
            self.unusable += 1

    def _add_memory(self, arguments: dict[str, Any], at_us: float) -> None:
        total = _number(arguments.get("Total Allocated"))
        kind = arguments.get("Device Type")
        if total is None or not isinstance(kind, int):
            self.unusable += 1
            return
        number = arguments.get("Device Id", -1)
        name = _DEVICE_TYPES.get(kind, f"device type {kind}")
        device = name if number == -1 or name == "cpu" else f"{name}:{number}"
        moments, totals = self.memory.setdefault(device, (array("d"), array("d")))
        self.first_us = min(self.first_us, at_us)
        moments.append(at_us)
        totals.append(total)

    def _name_of(self, event: Event, category: str) -> int:
        name = _STEP.sub("ProfilerStep", str(event.get("name", "")))
        return self.names.setdefault((name, category), len(self.names))


def _thread(event: Event) -> tuple[str, str]:
    return str(event.get("pid", "")), str(event.get("tid", ""))


def _arguments(event: Event) -> dict[str, Any]:
    found = event.get("args")
    return found if isinstance(found, dict) else {}


def _number(value: object) -> float | None:
    """The value as a finite float, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
