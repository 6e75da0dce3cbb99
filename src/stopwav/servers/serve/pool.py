"""All workers: which one a new stream goes to, what happens to the streams of one that died, and its restart."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

from stopwav.errors import StopwavError
from stopwav.measure.process import Outcome
from stopwav.servers.serve.batcher import Batches
from stopwav.servers.serve.engine_stream import EngineStream
from stopwav.servers.serve.failure import StreamFailure, StreamRefused
from stopwav.servers.serve.host import EngineFacts
from stopwav.servers.serve.worker import EngineWorker

# An engine that no longer loads is tried again, less and less often: a full disk or memory may be free again.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0


class WorkerPool:
    """The workers and the open streams of each."""

    def __init__(
        self,
        engine: str,
        workers: int,
        max_streams: int,
        on_restart: Callable[[], None],
        report: Callable[[str], None],
        batches: Batches | None = None,
    ) -> None:
        self._max_streams = max_streams
        self._on_restart, self._report = on_restart, report
        self._streams: dict[EngineWorker, dict[int, EngineStream]] = {
            EngineWorker(engine, self._on_death, batches): {} for _ in range(workers)
        }
        self._numbers = itertools.count(1)
        self._background: set[asyncio.Task[None]] = set()
        self.draining = False

    async def start(self) -> EngineFacts:
        """Load the engine in all workers and return its description; raise StopwavError where it does not load."""
        loads = [asyncio.ensure_future(worker.start()) for worker in self._streams]
        try:
            facts = [await load for load in loads]
        except StreamFailure as failure:
            for load in loads:
                load.cancel()
            await asyncio.gather(*loads, return_exceptions=True)
            raise StopwavError(f"the engine did not load: {failure}") from None
        return facts[0]

    @property
    def workers_up(self) -> int:
        """How many workers take streams."""
        return sum(worker.up for worker in self._streams)

    @property
    def open_streams(self) -> int:
        """How many streams there are."""
        return sum(map(len, self._streams.values()))

    def reserve(self) -> EngineStream:
        """Return a new stream on the worker that has the fewest; raise StreamRefused where there is no place."""
        if self.draining:
            raise StreamRefused("draining", "the server is ending and accepts no new streams")
        up = [worker for worker in self._streams if worker.up]
        if not up:
            raise StreamRefused("restarting", "no worker is up; they are being restarted, so try again soon")
        worker = min(up, key=lambda worker: len(self._streams[worker]))
        if len(self._streams[worker]) >= self._max_streams:
            raise StreamRefused("full", f"all {self.open_streams} streams are in use; try again later")
        number = next(self._numbers)
        stream = EngineStream(number, worker, lambda: self._release(worker, number))
        self._streams[worker][number] = stream
        return stream

    async def drain(self, limit_s: float) -> None:
        """Accept no more streams, give the open ones this long, then end them; wait until they are gone."""
        self.draining = True
        await self._until_empty(limit_s)
        for stream in self._all_streams():
            stream.end_with(StreamFailure("drained", "the server is ending"))
        # They only have to send a last message now.
        await self._until_empty(2.0)

    async def close(self) -> None:
        """End all workers, whatever they are doing."""
        self.draining = True
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*(worker.close() for worker in self._streams))
        await asyncio.gather(*self._background, return_exceptions=True)

    def _all_streams(self) -> list[EngineStream]:
        return [stream for streams in self._streams.values() for stream in streams.values()]

    async def _until_empty(self, limit_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self.open_streams:
                    await asyncio.sleep(0.02)

    def _release(self, worker: EngineWorker, number: int) -> None:
        """Free the place of a stream: at once where the worker knows nothing of it, otherwise once it forgot it.

        Not before: clients that come and go faster than the worker forgets them would fill its queue.
        """
        stream = self._streams[worker].get(number)
        if stream is None:
            return
        # Once the server ends, nobody waits for a worker that may be busy for long: it is ended too.
        given_up = self.draining and stream.ended.done()
        if stream.opened and worker.up and not given_up:
            self._spawn(self._forget(worker, number))
        else:
            del self._streams[worker][number]

    async def _forget(self, worker: EngineWorker, number: int) -> None:
        try:
            with contextlib.suppress(StreamFailure):
                await worker.call("drop", number, time_limit_s=60.0)
        finally:
            self._streams[worker].pop(number, None)

    def _on_death(self, worker: EngineWorker, outcome: Outcome) -> None:
        """End the streams of a worker that died, and of no other, and start it again."""
        self._report(f"a worker ended ({outcome.message}) with {len(self._streams[worker])} streams; restarting it")
        for stream in self._streams[worker].values():
            stream.end_with(StreamFailure("crashed", "the worker of this stream ended; connect again"))
        self._on_restart()
        self._spawn(self._restart(worker))

    async def _restart(self, worker: EngineWorker) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                await worker.start()
                return
            except StreamFailure as failure:
                self._report(f"a worker did not start again ({failure}); the next attempt is in {pause_s:g} s")
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
