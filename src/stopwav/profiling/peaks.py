"""Peak memory of passages that nest or overlap: they share the process's one high-water mark and never lose a peak."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Protocol

from stopwav.measure.memory import PROC, host_resident_bytes, lifetime_peak_bytes, reset_mark, status_bytes
from stopwav.profiling.fork_lock import ForkLock


@dataclass(frozen=True)
class Peak:
    """The most bytes in use during a passage, those in use before it, and whether nothing higher can have been missed.

    The mark is the process's: what other threads took meanwhile is in it.
    """

    peak_bytes: int
    baseline_bytes: int
    exact: bool

    @property
    def over_baseline_bytes(self) -> int:
        """What the passage needed on top of what was there."""
        return self.peak_bytes - self.baseline_bytes


class Mark(Protocol):
    """A high-water mark: of resident memory, or of an allocator."""

    def now_bytes(self) -> int: ...

    def peak_bytes(self) -> int: ...

    def reset(self) -> bool: ...


class HostMark:
    """The kernel's mark of resident memory; where it cannot be reset, that of the process's whole life."""

    def now_bytes(self) -> int:
        """What is resident now."""
        return host_resident_bytes()

    def peak_bytes(self) -> int:
        """The most since the reset, or since the process began."""
        return status_bytes(PROC, "VmHWM") or lifetime_peak_bytes()

    def reset(self) -> bool:
        """Whether the mark was set back to now."""
        return reset_mark(PROC)


@dataclass(frozen=True)
class AllocatorMark:
    """PyTorch's own mark of what tensors take on a CUDA device."""

    device: str

    def now_bytes(self) -> int:
        """What tensors take now."""
        import torch

        return int(torch.cuda.memory_allocated(self.device))

    def peak_bytes(self) -> int:
        """The most since the reset."""
        import torch

        return int(torch.cuda.max_memory_allocated(self.device))

    def reset(self) -> bool:
        """True: the allocator's mark can always be set back."""
        import torch

        torch.cuda.reset_peak_memory_stats(self.device)
        return True


@dataclass(eq=False)
class _Open:
    """A passage under way: what was there before, the most seen so far, and the mark's height if it was not reset."""

    baseline_bytes: int
    highest_bytes: int
    unreset_bytes: int | None


class Peaks:
    """The passages under way over one mark."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self._lock = ForkLock()
        self._open: list[_Open] = []

    def begin(self) -> _Open:
        """A passage that begins now; those under way keep what the mark showed before it is reset."""
        with self._lock:
            self._keep()
            was_reset = self._mark.reset()
            now = self._mark.now_bytes()
            passage = _Open(now, now, None if was_reset else self._mark.peak_bytes())
            self._open.append(passage)
            return passage

    def end(self, passage: _Open) -> Peak:
        """The peak of a passage that ends now."""
        with self._lock:
            self._keep()
            self._open.remove(passage)
            if passage.unreset_bytes is None:
                return Peak(passage.highest_bytes, passage.baseline_bytes, exact=True)
            lifetime = self._mark.peak_bytes()
            if lifetime > passage.unreset_bytes:  # raised during this passage: the peak is this very height
                return Peak(lifetime, passage.baseline_bytes, exact=True)
            return Peak(max(passage.highest_bytes, self._mark.now_bytes()), passage.baseline_bytes, exact=False)

    def _keep(self) -> None:
        """Nothing, but every passage under way knows the mark's height from here on."""
        marked = [passage for passage in self._open if passage.unreset_bytes is None]
        if marked:
            height = self._mark.peak_bytes()
            for passage in marked:
                passage.highest_bytes = max(passage.highest_bytes, height)


HOST = Peaks(HostMark())


@cache
def allocator_peaks(device: str) -> Peaks:
    """The passages under way over the allocator of one device."""
    return Peaks(AllocatorMark(device))
