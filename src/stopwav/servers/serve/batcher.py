"""The chunks that wait for a worker, gathered into batches for an engine that advances many streams in one call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stopwav.servers.serve.failure import StreamFailure
from stopwav.servers.serve.host import FailedCall, RejectedAudio


@dataclass(frozen=True)
class Batches:
    """How many chunks a batch has at most, 1 for none, and how long the first of them waits for others."""

    most: int = 1
    wait_s: float = 0.0


@dataclass(frozen=True)
class _Waiting:
    """A chunk of a stream, or its end (None), since when it waits, and who waits for its hypotheses."""

    number: int
    data: bytes | None
    since_s: float
    answer: asyncio.Future[Any]


class Batcher:
    """Gathers chunks until `max_batch` wait or the first one has waited for `max_wait_s`; then one call takes them.

    While a call runs, the next batch gathers: under load batches follow each other without a pause.
    """

    def __init__(
        self,
        call: Callable[[Sequence[tuple[int, bytes | None]]], Awaitable[Sequence[Any]]],
        max_batch: int,
        max_wait_s: float,
    ) -> None:
        self._call, self._max_batch, self._max_wait_s = call, max_batch, max_wait_s
        self._waiting: list[_Waiting] = []
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def advance(self, number: int, data: bytes | None) -> Any:
        """Return the hypotheses of a chunk of a stream, or of its end; raise StreamFailure where there are none."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(number, data, loop.time(), loop.create_future())
        self._waiting.append(waiting)
        if len(self._waiting) >= self._max_batch:
            self._full.set()
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())
        value = await waiting.answer
        if isinstance(value, RejectedAudio):
            raise StreamFailure(value.reason, value.message)
        if isinstance(value, FailedCall):
            raise StreamFailure("error", value.message)
        return value

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            left_s = self._waiting[0].since_s + self._max_wait_s - loop.time()
            if left_s > 0 and len(self._waiting) < self._max_batch:
                self._full.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._full.wait(), left_s)
            await self._advance(self._take())

    def _take(self) -> list[_Waiting]:
        """Take the next batch: the chunks that wait longest, of each stream one."""
        batch: dict[int, _Waiting] = {}
        later = []
        for waiting in self._waiting:
            if waiting.number in batch or len(batch) == self._max_batch:
                later.append(waiting)
            else:
                batch[waiting.number] = waiting
        self._waiting = later
        return list(batch.values())

    async def _advance(self, batch: Sequence[_Waiting]) -> None:
        try:
            values = await self._call([(waiting.number, waiting.data) for waiting in batch])
        except Exception as failure:  # whoever waits must not wait for ever
            for waiting in batch:
                if not waiting.answer.done():
                    waiting.answer.set_exception(failure)
            return
        for waiting, value in zip(batch, values, strict=True):
            # A client that went away waits for nothing.
            if not waiting.answer.done():
                waiting.answer.set_result(value)
