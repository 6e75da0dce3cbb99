"""When each row of a step was at work: wall time, and on CUDA the device's own, without waiting for it in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from stopwav.measure.cuda_events import CudaEvents, device_index


@dataclass(frozen=True)
class RowTime:
    """Seconds in which a row itself was at work, by the wall and by the device: `None` where there is none."""

    wall_s: float
    device_s: float | None


@dataclass(frozen=True)
class StepTime:
    """A step: its time, and that of each row in each phase; they add up to it."""

    wall_s: float
    device_s: float | None
    parts: dict[tuple[str, str], RowTime]

    def phase(self, name: str) -> RowTime:
        """What a phase took."""
        parts = [one for (_, phase), one in self.parts.items() if phase == name]
        device_s = None if self.device_s is None else sum(one.device_s or 0.0 for one in parts)
        return RowTime(sum(one.wall_s for one in parts), device_s)


class StepTimer:
    """A list of moments, each with the row that is at work from then on. `mark` is a watch's sink."""

    def __init__(self, device: str = "cpu", now_ns: Callable[[], int] = perf_counter_ns) -> None:
        self._events = CudaEvents(device_index(device)) if device.startswith("cuda") else None
        self._now_ns = now_ns
        self._marks: list[tuple[str, str, int, Any]] = []

    def begin(self) -> None:
        """Begin a step; what is under way on the device is waited for."""
        self._marks.clear()
        if self._events:
            self._events.begin()
        self.mark("(rest)", "rest")

    def mark(self, row: str, phase: str) -> None:
        """Note that a row is at work from now on."""
        self._marks.append((row, phase, self._now_ns(), self._events.record() if self._events else None))

    def end(self) -> StepTime:
        """End the step, wait for the device, and add up."""
        last = self._events.end() if self._events else None
        end_ns = self._now_ns()
        sums: dict[tuple[str, str], list[float]] = {}
        following = [*self._marks[1:], ("", "", end_ns, last)]
        for (row, phase, start_ns, event), (_, _, stop_ns, next_event) in zip(self._marks, following, strict=True):
            part = sums.setdefault((row, phase), [0.0, 0.0])
            part[0] += (stop_ns - start_ns) / 1e9
            part[1] += event.elapsed_time(next_event) / 1e3 if self._events else 0.0
        parts = {key: RowTime(wall, device if self._events else None) for key, (wall, device) in sums.items()}
        device_s = sum(one.device_s or 0.0 for one in parts.values()) if self._events else None
        return StepTime((end_ns - self._marks[0][2]) / 1e9, device_s, parts)
