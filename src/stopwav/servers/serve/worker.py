"""A worker: the engine in a process of its own, and the one thread of the server that talks to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from stopwav.measure.process import FreshProcess, Outcome
from stopwav.servers.serve.batcher import Batcher, Batches
from stopwav.servers.serve.failure import StreamEnd, StreamFailure
from stopwav.servers.serve.host import EngineFacts, RejectedAudio, StreamHost

# Models of gigabytes from a slow disk take minutes.
LOAD_LIMIT_S = 600.0
# A batch that takes this long is no longer work: the engine hangs.
BATCH_LIMIT_S = 60.0


class EngineWorker:
    """One process with the engine. Its calls run one after the other, in the order in which they were asked."""

    def __init__(
        self, engine: str, on_death: Callable[[EngineWorker, Outcome], None], batches: Batches | None = None
    ) -> None:
        self._engine, self._on_death, self._batches = engine, on_death, batches or Batches()
        self._batcher: Batcher | None = None
        # The kernel ends the process with the thread that started it, so the thread lives as long as the worker.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stopwav-worker")
        self._process: FreshProcess | None = None
        self._exit_descriptor: int | None = None
        self.up = False

    async def start(self) -> EngineFacts:
        """Start the process, load the engine and return its description; raise StreamFailure where it fails."""
        self._process = FreshProcess(StreamHost, self._engine)
        outcome = await self._run(self._process.start, LOAD_LIMIT_S)
        if outcome.ok:
            outcome = await self._run(self._process.call, "describe", time_limit_s=LOAD_LIMIT_S)
        if not outcome.ok:
            self._process.close()
            raise _failure(outcome)
        facts: EngineFacts = outcome.value
        self._batcher = self._make_batcher() if facts.batching and self._batches.most > 1 else None
        self.up = True
        self._watch(facts.pid)
        return facts

    async def call(self, method: str, *arguments: object, time_limit_s: float) -> Any:
        """Return what a method of the host returns; raise StreamFailure where it fails or the process dies."""
        process = self._process
        if not self.up or process is None:
            raise StreamFailure("crashed", "the worker of this stream is gone")
        outcome = await self._run(process.call, method, *arguments, time_limit_s=time_limit_s)
        if outcome.ok and not isinstance(outcome.value, RejectedAudio):
            return outcome.value
        if outcome.ok:
            raise StreamFailure(outcome.value.reason, outcome.value.message)
        if outcome.status != "error" and process is self._process:
            self._bury(outcome)
        raise _failure(outcome)

    async def advance(self, number: int, data: bytes | None, time_limit_s: float) -> Any:
        """Return the hypotheses of a chunk of a stream, or of its end (None): with others, if the engine can."""
        if self._batcher is not None:
            return await self._batcher.advance(number, data)
        if data is None:
            return await self.call("finish", number, time_limit_s=time_limit_s)
        return await self.call("push", number, data, time_limit_s=time_limit_s)

    def _make_batcher(self) -> Batcher:
        async def advance_all(calls: Sequence[tuple[int, bytes | None]]) -> Sequence[Any]:
            answers: Sequence[Any] = await self.call("advance_all", calls, time_limit_s=BATCH_LIMIT_S)
            return answers

        return Batcher(advance_all, self._batches.most, self._batches.wait_s)

    async def close(self) -> None:
        """End the process, whatever it is doing, and the thread."""
        self.up = False
        self._unwatch()
        if self._process is not None:
            # A call that waits for an answer sees the process end.
            await asyncio.to_thread(self._process.close)
        self._thread.shutdown(wait=False)

    async def _run(self, function: Callable[..., Outcome], *arguments: object, **named: Any) -> Outcome:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, lambda: function(*arguments, **named))
        except (AttributeError, AssertionError, OSError, RuntimeError):  # the process was closed under the call
            return Outcome("crashed", message="the worker was closed")

    def _bury(self, outcome: Outcome) -> None:
        """Take note that the process died, once."""
        if self.up:
            self.up = False
            self._unwatch()
            assert self._process is not None
            self._process.close()
            self._on_death(self, outcome)

    def _watch(self, pid: int) -> None:
        """Have the end of the process noticed when nobody asks it anything; where that is not supported, later."""
        if not hasattr(os, "pidfd_open"):
            return
        with contextlib.suppress(OSError):
            self._exit_descriptor = os.pidfd_open(pid)
            asyncio.get_running_loop().add_reader(self._exit_descriptor, self._exited)

    def _unwatch(self) -> None:
        if self._exit_descriptor is not None:
            asyncio.get_running_loop().remove_reader(self._exit_descriptor)
            os.close(self._exit_descriptor)
            self._exit_descriptor = None

    def _exited(self) -> None:
        self._unwatch()
        self._check = asyncio.ensure_future(self._ask_how_it_ended())

    async def _ask_how_it_ended(self) -> None:
        with contextlib.suppress(StreamFailure):
            await self.call("describe", time_limit_s=LOAD_LIMIT_S)


def _failure(outcome: Outcome) -> StreamFailure:
    reasons: dict[str, StreamEnd] = {"oom": "oom", "timeout": "timeout", "crashed": "crashed"}
    return StreamFailure(reasons.get(outcome.status, "error"), outcome.message)
