"""One stream in a worker, as the protocols see it: chunks in, hypotheses out, and an end that may come at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from stopwav.servers.serve.failure import StreamFailure
from stopwav.servers.serve.intake import SAMPLE_BYTES, SampleFormat
from stopwav.servers.serve.worker import EngineWorker
from stopwav.speech.events import Hypothesis

# A message may hold minutes of audio. It is pushed in pieces of this length, so that other streams wait for one only.
LONGEST_PIECE_S = 1.0
# A piece that takes this long is no longer work: the engine hangs.
PIECE_LIMIT_S = 60.0
# An offline engine gets up to 25 minutes of audio at once, on machines that may need a good part of that.
WHOLE_LIMIT_S = 1_500.0


class EngineStream:
    """A place in a worker. The worker is told of it with the first audio."""

    def __init__(self, number: int, worker: EngineWorker, release: Callable[[], None]) -> None:
        self._number, self._worker = number, worker
        self.release = release
        # Whether the worker knows the stream.
        self.opened = False
        self.ended: asyncio.Future[StreamFailure] = asyncio.get_running_loop().create_future()

    def end_with(self, failure: StreamFailure) -> None:
        """Have the protocol end the stream, also while it waits for the client."""
        if not self.ended.done():
            self.ended.set_result(failure)

    async def push(self, data: bytes, sample_format: SampleFormat, rate_hz: int) -> list[Hypothesis]:
        """Return the hypotheses that this audio made visible; all pieces of a stream have one format and rate."""
        if not self.opened:
            await self._call("open", sample_format, rate_hz)
        size = int(LONGEST_PIECE_S * rate_hz) * SAMPLE_BYTES[sample_format]
        hypotheses: list[Hypothesis] = []
        for begin in range(0, len(data), size):
            hypotheses += await self._advance(data[begin : begin + size], PIECE_LIMIT_S)
        return hypotheses

    async def finish(self) -> Sequence[Hypothesis]:
        """Return the hypotheses of the end of the audio. The stream may begin again after it."""
        if not self.opened:
            return [Hypothesis("")]
        hypotheses: Sequence[Hypothesis] = await self._advance(None, WHOLE_LIMIT_S)
        self.opened = False
        return hypotheses

    async def load_file(self, data: bytes) -> float:
        """Begin with a whole file, and return its seconds."""
        seconds: float = await self._call("load_file", data)
        return seconds

    async def advance(self) -> list[Hypothesis] | None:
        """Push the next chunk of the file, and return its hypotheses; None once all of it was pushed."""
        hypotheses: list[Hypothesis] | None = await self._call("advance")
        return hypotheses

    async def transcribe(self) -> str:
        """Return the text of the file, recognised as a whole."""
        text: str = await self._call("transcribe", time_limit_s=WHOLE_LIMIT_S)
        self.opened = False
        return text

    async def _advance(self, data: bytes | None, time_limit_s: float) -> Any:
        return await self._wait_for(self._worker.advance(self._number, data, time_limit_s))

    async def _call(self, method: str, *arguments: object, time_limit_s: float = PIECE_LIMIT_S) -> Any:
        return await self._wait_for(self._worker.call(method, self._number, *arguments, time_limit_s=time_limit_s))

    async def _wait_for(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Wait for the worker; the end of the stream is noticed also while it works."""
        self.opened = True
        call = asyncio.ensure_future(work)
        try:
            await asyncio.wait({call, self.ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not call.done():
                # It is in the worker's queue; what comes of it is no longer wanted.
                call.add_done_callback(_ignore_result)
        if not call.done():
            raise self.ended.result()
        return call.result()


def _ignore_result(call: asyncio.Future[Any]) -> None:
    if not call.cancelled():
        call.exception()
