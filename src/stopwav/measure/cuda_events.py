"""Events on a CUDA device: when it came to each mark, as the device saw it, without waiting for it in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class CudaEvents:
    """Events of one call or step, recorded as cheaply as PyTorch allows: the device may have to wait for the host."""

    def __init__(self, index: int) -> None:
        import torch

        self._cuda = torch.cuda
        self._index = index
        # Making an event takes as long as recording it, so they are used again; as does making an object for a stream.
        self._made: list[Any] = []
        self._used = 0
        self._raw_stream_of: Callable[[int], int] = torch._C._cuda_getCurrentRawStream
        self._raw_stream: int | None = None
        self._stream: Any = None

    def begin(self) -> None:
        """Wait for the device; events of the last call may be used again."""
        self._cuda.synchronize(self._index)
        self._used = 0

    def record(self) -> Any:
        """An event after what the stream at work was given until now."""
        if self._used == len(self._made):
            self._made.append(self._cuda.Event(enable_timing=True))
        event = self._made[self._used]
        self._used += 1
        raw_stream = self._raw_stream_of(self._index)
        if raw_stream != self._raw_stream:
            self._raw_stream, self._stream = raw_stream, self._cuda.current_stream(self._index)
        event.record(self._stream)
        return event

    def mark(self) -> int:
        """The place of an event recorded now, among those of the call."""
        place = self._used
        self.record()
        return place

    def times_ns(self) -> list[int]:
        """When the device came to each event of the call, since the first; it must have come to them all."""
        return [round(1e6 * self._made[0].elapsed_time(event)) for event in self._made[: self._used]]

    def end(self) -> Any:
        """An event after all of the call, when the device has done it."""
        event = self.record()
        self._cuda.synchronize(self._index)
        return event


def device_index(device: str) -> int:
    """The number of a CUDA device; that of the current one where the name has none."""
    import torch

    index = torch.device(device).index
    return torch.cuda.current_device() if index is None else index


# Those of calls that are over. A call may time another inside it, so that each has its own while it lasts.
_idle: dict[int, list[CudaEvents]] = {}


@contextmanager
def borrowed_events(device: str) -> Iterator[CudaEvents]:
    """Events for one call on the device, made once and used again."""
    index = device_index(device)
    idle = _idle.setdefault(index, [])
    try:
        events = idle.pop()
    except IndexError:
        events = CudaEvents(index)
    try:
        yield events
    finally:
        idle.append(events)
