"""Peak memory of calls that nest or overlap: they share the process's one high-water mark and never lose a peak."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Protocol

from stopwav.measure.memory import PROC, host_resident_bytes, lifetime_peak_bytes, reset_mark, status_bytes


class ForkLock:
    """A reentrant lock: the garbage collector and signal handlers may call profiled code in the middle of counting.

    A fork copies a lock as it is, even one held by a thread that the child does not have, so the child gets a new one.
    """

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):  # Windows has no fork
            os.register_at_fork(after_in_child=self._renew)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def _renew(self) -> None:
        self._lock = threading.RLock()


@dataclass(frozen=True)
class Peak:
    """The most bytes in use during a call, those in use before it, and whether that is exact or a lower bound.

    The mark is the process's, so memory that other threads took during the call is included.
    """

    peak_bytes: int
    baseline_bytes: int
    exact: bool

    @property
    def over_baseline_bytes(self) -> int:
        """The peak minus the baseline."""
        return self.peak_bytes - self.baseline_bytes


class Mark(Protocol):
    """A high-water mark: of resident memory, or of an allocator."""

    def now_bytes(self) -> int: ...

    def peak_bytes(self) -> int: ...

    def reset(self) -> bool: ...


class HostMark:
    """The kernel's mark of resident memory; where it cannot be reset, the lifetime peak of the process."""

    def now_bytes(self) -> int:
        """Return the resident memory now."""
        return host_resident_bytes()

    def peak_bytes(self) -> int:
        """Return the peak since the reset, or since the process began."""
        return status_bytes(PROC, "VmHWM") or lifetime_peak_bytes()

    def reset(self) -> bool:
        """Reset the mark to now, and return whether that worked."""
        return reset_mark(PROC)


@dataclass(frozen=True)
class AllocatorMark:
    """PyTorch's mark of the memory of tensors on a CUDA device."""

    device: str

    def now_bytes(self) -> int:
        """Return the memory of tensors now."""
        import torch

        return int(torch.cuda.memory_allocated(self.device))

    def peak_bytes(self) -> int:
        """Return the peak since the reset."""
        import torch

        return int(torch.cuda.max_memory_allocated(self.device))

    def reset(self) -> bool:
        """Reset the mark to now, which always works."""
        import torch

        torch.cuda.reset_peak_memory_stats(self.device)
        return True


@dataclass(eq=False)
class _OpenPeak:
    """A call that has not ended: its baseline, its highest peak so far, and the mark if it could not be reset."""

    baseline_bytes: int
    highest_bytes: int
    unreset_bytes: int | None


class Peaks:
    """The open calls over one mark."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self._lock = ForkLock()
        self._open: list[_OpenPeak] = []

    def begin(self) -> _OpenPeak:
        """Begin a call; the open ones keep what the mark showed before it is reset."""
        with self._lock:
            self._update_open()
            was_reset = self._mark.reset()
            now = self._mark.now_bytes()
            call = _OpenPeak(now, now, None if was_reset else self._mark.peak_bytes())
            self._open.append(call)
            return call

    def end(self, call: _OpenPeak) -> Peak:
        """End a call and return its peak."""
        with self._lock:
            self._update_open()
            self._open.remove(call)
            if call.unreset_bytes is None:
                return Peak(call.highest_bytes, call.baseline_bytes, exact=True)
            lifetime = self._mark.peak_bytes()
            if lifetime > call.unreset_bytes:  # raised during this call, so this is its peak
                return Peak(lifetime, call.baseline_bytes, exact=True)
            return Peak(max(call.highest_bytes, self._mark.now_bytes()), call.baseline_bytes, exact=False)

    def _update_open(self) -> None:
        """Update the highest peak of every open call from the mark."""
        calls = [call for call in self._open if call.unreset_bytes is None]
        if calls:
            height = self._mark.peak_bytes()
            for call in calls:
                call.highest_bytes = max(call.highest_bytes, height)


HOST = Peaks(HostMark())


@cache
def allocator_peaks(device: str) -> Peaks:
    """Return the open calls over the allocator of one device."""
    return Peaks(AllocatorMark(device))
