"""The opening of a run: its engines load and warm up before there is a run file, in the processes of the first round.

So what is wrong with an engine is known before anything is measured, and its speed before the utterances are chosen.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from statistics import median
from types import TracebackType

from stopwav.measure.process import Outcome
from stopwav.speech.audio_file import duration_s
from stopwav.speech.utterance import Utterance
from stopwav.studies.budget import Budget
from stopwav.studies.engine_names import engine_names
from stopwav.studies.latency.spec import LatencySpec
from stopwav.studies.latency.streams import OpenedEngine, stream_worker, warm_up_part, warm_up_process
from stopwav.studies.worker import LOAD_LIMIT_S, Worker


class Opening:
    """The processes of the first round, by the names of their engines; those that nobody takes end with it."""

    def __init__(self) -> None:
        self.engines: dict[str, OpenedEngine] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Opening:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def load(self, spec: LatencySpec, utterance: Utterance, budget: Budget) -> None:
        """Load all engines, and warm each up where time is a matter; one that does not load is named at once."""
        limit_s = min(LOAD_LIMIT_S, budget.left_s)
        names = engine_names(spec.engines)
        for done, (name, engine) in enumerate(zip(names, spec.engines, strict=True), start=1):
            worker = self._stack.enter_context(stream_worker(spec, engine, limit_s))
            start_s = time.monotonic()
            if not (loaded := worker.load()).ok:
                # Its result says so too: the worker keeps the failure and does not try again.
                spec.say(f"{name}: {loaded.message}")
            self.engines[name] = OpenedEngine(worker, None, None, time.monotonic() - start_s)
            spec.report("loading engines", done, len(names))
        for done, (name, opened) in enumerate(self.engines.items() if spec.is_budgeted else (), start=1):
            self.engines[name] = _warmed_up(opened.worker, spec, utterance, budget, opened.seconds)
            spec.report("warming up", done, len(names))


def _warmed_up(worker: Worker, spec: LatencySpec, utterance: Utterance, budget: Budget, load_s: float) -> OpenedEngine:
    """The engine after its first streams, whose speed is known from them."""

    def call(method: str, *arguments: object, limit_s: float) -> Outcome:
        return worker.call(method, *arguments, time_limit_s=min(limit_s, budget.left_s))

    start_s = time.monotonic()
    part = warm_up_part(spec, utterance)
    _, load = warm_up_process(call, spec, part)
    worker.warm = load is not None
    seconds = load_s + time.monotonic() - start_s
    streams_s = [] if load is None else load["warmup_s"]
    audio_s = duration_s(part)
    rtf = median(streams_s) / audio_s if streams_s and audio_s else None
    return OpenedEngine(worker, load, rtf, seconds)
