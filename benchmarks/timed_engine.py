"""An engine that writes down how long its own calls take: what serving it adds is what is left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from stopwav.engines.protocol import Session
from stopwav.engines.registry import make_streaming
from stopwav.speech.events import Hypothesis


class TimedEngine:
    """The named engine. The seconds of every call that gave a text are a line of the log."""

    def __init__(self, engine: str, log: str) -> None:
        self._engine, self._log = make_streaming(engine), Path(log)
        self.info = self._engine.info

    def open(self) -> TimedSession:
        """Return a new stream of the engine."""
        return TimedSession(self._engine.open(), self._log)


class TimedSession:
    """A stream of the engine, which writes its log when it is over and nobody waits."""

    def __init__(self, session: Session, log: Path) -> None:
        self._session, self._log, self._calls_s = session, log, list[float]()

    def push(self, samples: NDArray[np.float32]) -> Sequence[Hypothesis]:
        """Return the texts of the engine."""
        begin_ns = perf_counter_ns()
        texts = self._session.push(samples)
        if texts:
            self._calls_s.append((perf_counter_ns() - begin_ns) / 1e9)
        return texts

    def finish(self) -> Sequence[Hypothesis]:
        """Return the final texts of the engine."""
        with self._log.open("a", encoding="utf-8") as log:
            log.writelines(f"{seconds}\n" for seconds in self._calls_s)
        return self._session.finish()
