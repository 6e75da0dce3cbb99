"""A scripted engine: busy for given times, it returns given texts. It checks the instrument and is not a recogniser."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stopwav.engines.protocol import DEFAULT_CHUNK_S, EngineInfo
from stopwav.errors import StopwavError
from stopwav.measure.stages import stage
from stopwav.speech.audio import Audio
from stopwav.speech.events import Hypothesis


class Fake:
    """Takes `service_ms` per chunk (a list is repeated) and shows `partials` one per chunk, then `final`.

    With `tell` it shows instead how many nanoseconds each chunk took by its own clock: a busy machine cannot keep to a
    script, and the real times are the truth to compare with.
    A batch takes `service_ms` per utterance, or, if given, `batch_ms` + the sum over its utterances of
    `second_ms` · d + `square_ms` · d², with d their seconds; it then holds `mb_per_s` megabytes for each second.
    The script is a JSON file with these keys (`fake:script.json`), or the options of the same names.
    """

    def __init__(
        self,
        source: str | None = None,
        service_ms: float | Sequence[float] = 1.0,
        finish_ms: float = 0.0,
        partials: Sequence[str | None] = (),
        final: str = "",
        chunk_s: float = DEFAULT_CHUNK_S,
        lookahead_s: float = 0.0,
        tell: bool = False,
        batch_ms: float = 0.0,
        second_ms: float = 0.0,
        square_ms: float = 0.0,
        mb_per_s: float = 0.0,
    ) -> None:
        script = _read_script(source) if source else {}
        times = script.get("service_ms", service_ms)
        self.service_s = [time_ms / 1e3 for time_ms in (times if isinstance(times, Sequence) else [times])]
        self.finish_s = float(script.get("finish_ms", finish_ms)) / 1e3
        self.partials = list(script.get("partials", partials))
        self.final = str(script.get("final", final))
        self.tell = bool(script.get("tell", tell))
        batch = (("batch_ms", batch_ms), ("second_ms", second_ms), ("square_ms", square_ms), ("mb_per_s", mb_per_s))
        self.batch_costs = tuple(float(script.get(name, value)) for name, value in batch)
        self.info = EngineInfo(
            name="fake",
            version="1",
            chunk_s=script.get("chunk_s", chunk_s),
            lookahead_s=script.get("lookahead_s", lookahead_s),
            notes=("scripted: not a recogniser",),
        )

    def open(self) -> FakeSession:
        """Return a new stream, from the start of the script."""
        return FakeSession(self)

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """Return the scripted final text for each utterance, after a service time each or the batch's time."""
        if any(self.batch_costs):
            return self._transcribe_batch([audio.duration_s for audio in batch])
        for _, seconds in zip(batch, itertools.cycle(self.service_s), strict=False):
            spin(seconds)
        return [self.final] * len(batch)

    def _transcribe_batch(self, seconds: Sequence[float]) -> list[str]:
        batch_ms, second_ms, square_ms, mb_per_s = self.batch_costs
        start_ns = perf_counter_ns()
        # Written to, since reserved memory is not resident, and held to the end of the time, which includes this.
        block = np.ones(round(mb_per_s * 1e6 * sum(seconds)), dtype=np.uint8)
        spin_until((batch_ms + sum(second_ms * d + square_ms * d * d for d in seconds)) / 1e3, start_ns)
        del block
        return [self.final] * len(seconds)


class FakeSession:
    """One pass through the script."""

    def __init__(self, engine: Fake) -> None:
        self._engine = engine
        self._times = itertools.cycle(engine.service_s)
        self._partials = iter(engine.partials)

    def push(self, samples: NDArray[np.float32]) -> list[Hypothesis]:
        """Return the next scripted partial, if there is one."""
        with stage("inference"):
            elapsed_ns = spin(next(self._times))
        text = str(elapsed_ns) if self._engine.tell else next(self._partials, None)
        return [] if text is None else [Hypothesis(text)]

    def finish(self) -> list[Hypothesis]:
        """Return the scripted final text."""
        with stage("inference"):
            spin(self._engine.finish_s)
        return [Hypothesis(self._engine.final)]


def spin(seconds: float) -> int:
    """Be busy for `seconds` and return the nanoseconds; a sleep would be late by more than the instrument's error."""
    return spin_until(seconds, perf_counter_ns())


def spin_until(seconds: float, start_ns: int) -> int:
    """Be busy until `seconds` after `start_ns` and return the nanoseconds since then."""
    now = start_ns
    deadline = start_ns + round(seconds * 1e9)
    while now < deadline:
        now = perf_counter_ns()
    return now - start_ns


def _read_script(source: str) -> dict[str, Any]:
    try:
        script = json.loads(Path(source).read_text())
    except (OSError, ValueError) as error:
        raise StopwavError(f"fake: {source}: not a script ({error})") from error
    streaming = {"service_ms", "finish_ms", "partials", "final", "chunk_s", "lookahead_s", "tell"}
    known = streaming | {"batch_ms", "second_ms", "square_ms", "mb_per_s"}
    if not isinstance(script, dict) or not script.keys() <= known:
        raise StopwavError(f"fake: {source}: a script is a JSON object with keys of {', '.join(sorted(known))}")
    return script
