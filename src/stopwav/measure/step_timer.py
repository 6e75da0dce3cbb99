"""When each row of a step was at work: wall time, and on CUDA the device's own, without waiting for it in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any


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
        self._cuda = device.startswith("cuda")
        self._device, self._now_ns = device, now_ns
        self._marks: list[tuple[str, str, int, Any]] = []
        # Events are made once and used again: making one takes as long as recording it.
        self._events: list[Any] = []
        self._used = 0

    def begin(self) -> None:
        """Begin a step; what is under way on the device is waited for."""
        self._marks.clear()
        self._used = 0
        self._wait()
        self.mark("(rest)", "rest")

    def mark(self, row: str, phase: str) -> None:
        """Note that a row is at work from now on."""
        self._marks.append((row, phase, self._now_ns(), self._event() if self._cuda else None))

    def end(self) -> StepTime:
        """End the step, wait for the device, and add up."""
        last = self._event() if self._cuda else None
        self._wait()
        end_ns = self._now_ns()
        sums: dict[tuple[str, str], list[float]] = {}
        following = [*self._marks[1:], ("", "", end_ns, last)]
        for (row, phase, start_ns, event), (_, _, stop_ns, next_event) in zip(self._marks, following, strict=True):
            part = sums.setdefault((row, phase), [0.0, 0.0])
            part[0] += (stop_ns - start_ns) / 1e9
            part[1] += event.elapsed_time(next_event) / 1e3 if self._cuda else 0.0
        parts = {key: RowTime(wall, device if self._cuda else None) for key, (wall, device) in sums.items()}
        device_s = sum(one.device_s or 0.0 for one in parts.values()) if self._cuda else None
        return StepTime((end_ns - self._marks[0][2]) / 1e9, device_s, parts)

    @property
    def marks(self) -> int:
        """How many moments were noted in the step."""
        return len(self._marks)

    def _event(self) -> Any:
        import torch

        if self._used == len(self._events):
            self._events.append(torch.cuda.Event(enable_timing=True))
        event = self._events[self._used]
        self._used += 1
        event.record()
        return event

    def _wait(self) -> None:
        if self._cuda:
            import torch

            torch.cuda.synchronize(self._device)
