"""Streams through one engine, asked of its process, and their pieces, round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stopwav.measure.plan import Plan
from stopwav.measure.process import Outcome
from stopwav.measure.sampler import MAX_WARMUP_S, MIN_WARMUP_CALLS
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.servers.registry import is_server
from stopwav.speech.audio_file import duration_s
from stopwav.speech.utterance import Utterance
from stopwav.studies.budget import Budget
from stopwav.studies.latency.server_streams import NO_MEMORY, ServerRunner
from stopwav.studies.latency.spec import LatencySpec
from stopwav.studies.latency.stream_runner import StreamRunner
from stopwav.studies.worker import LOAD_LIMIT_S, Worker, outcome_to_piece

# Seconds of an utterance that warm up a process where time is short: all chunks but the last are of one length, and an
# engine ten times slower than speech is warm within a minute and a half.
WARM_UP_AUDIO_S = 2.0


class BudgetSpentError(Exception):
    """The time of the run is over in the midst of a call, which says nothing of the engine."""


@dataclass(frozen=True)
class OpenedEngine:
    """An engine in the process of the first round, loaded and warm before there is a run file."""

    worker: Worker
    # The data of its load piece; None where it is not warm.
    load: dict[str, Any] | None
    # Seconds of compute per second of audio; None where no stream completed.
    rtf: float | None
    seconds: float


class EngineRound:
    """One engine in one round: asks its worker for what the record does not have yet, and appends the pieces."""

    def __init__(
        self,
        name: str,
        engine: str,
        index: int,
        spec: LatencySpec,
        record: Record,
        budget: Budget,
        opened: OpenedEngine | None = None,
    ) -> None:
        self.name, self._index = name, index
        self._spec, self._record, self._budget = spec, record, budget
        self._is_server = is_server(engine)
        self._worker = stream_worker(spec, engine) if opened is None else opened.worker
        # Seconds that this round takes of the engine's time.
        self.seconds = 0.0 if opened is None else opened.seconds
        # Whether a stream of this round completed.
        self.completed = False
        if opened is not None and opened.load is not None:
            self._append_load(opened.load)

    def stream(self, utterances: Sequence[Utterance]) -> None:
        """Stream utterances, several of them at a time through a server, unless that was done before."""
        lacking = [utterance for utterance in utterances if self._key(utterance) not in self._record]
        if len(lacking) == 1:
            outcomes = [self._timed(lambda: self._stream(lacking[0]))]
        else:
            outcomes = self._stream_together(lacking) if lacking else []
        for utterance, outcome in zip(lacking, outcomes, strict=True):
            whole, data = _failed_inside(outcome)
            self._record.append(outcome_to_piece(self._key(utterance), whole, data))
        stored = (self._record.find(self._key(utterance)) for utterance in utterances)
        self.completed = self.completed or any(piece is not None and piece.status == "ok" for piece in stored)

    def _key(self, utterance: Utterance) -> tuple[str, int, str, str]:
        return ("stream", self._index, self.name, utterance.id)

    def _stream_together(self, utterances: Sequence[Utterance]) -> list[Outcome]:
        """The outcomes of streams at one time; what ends their process ends all of them."""
        if not self._worker.warm and not (outcome := self._timed(lambda: self._warm_up(utterances[0]))).ok:
            return [outcome] * len(utterances)
        limit_s = self._spec.time_limit_s + max(map(duration_s, utterances))
        outcome = self._timed(lambda: self._call("streams", list(utterances), limit_s=limit_s))
        if not outcome.ok:
            return [outcome] * len(utterances)
        return [replace(outcome, value=value) for value in outcome.value]

    def measure_memory(self, longest: Utterance) -> None:
        """Measure the peak memory of streaming the longest utterance, unless that was done before.

        A run that was stopped after its streams has no process that is warm: one is loaded for this. Where no stream
        completed, that is not tried again, and the piece says so.
        """
        key = ("memory", self._index, self.name)
        if key in self._record:
            return
        outcome = Outcome("skipped", message="no stream of this round completed")
        if self._is_server:
            outcome = Outcome("skipped", message=NO_MEMORY)
        elif self.completed:
            outcome = self._timed(lambda: self._warm_up(longest)) if not self._worker.warm else Outcome("ok")
        if self._worker.warm and not self._is_server:
            outcome = self._timed(lambda: self._call("peak_memory", longest, limit_s=self._spec.time_limit_s))
        outcome, data = _failed_inside(outcome)
        self._record.append(outcome_to_piece(key, outcome, data if outcome.ok else {}))

    def close(self) -> None:
        """End the process."""
        self._worker.close()

    def _timed(self, call: Callable[[], Outcome]) -> Outcome:
        start_s = time.monotonic()
        try:
            return call()
        finally:
            self.seconds += time.monotonic() - start_s

    def _call(self, method: str, *arguments: object, limit_s: float) -> Outcome:
        """Ask the worker; a call that the end of the budget cuts short is none of the engine's failures."""
        within_s = min(limit_s, self._budget.left_s)
        self._worker.load_limit_s = min(LOAD_LIMIT_S, self._budget.left_s)
        outcome = self._worker.call(method, *arguments, time_limit_s=within_s)
        if outcome.status == "timeout" and not self._budget.left_s:
            raise BudgetSpentError
        return outcome

    def _stream(self, utterance: Utterance) -> Outcome:
        if not self._worker.warm:
            outcome = self._warm_up(utterance)
            if not self._worker.warm:
                return outcome
        paced_s = duration_s(utterance) if self._spec.pace != "virtual" else 0.0
        return self._call("stream", utterance, self._spec.pace, limit_s=self._spec.time_limit_s + paced_s)

    def _warm_up(self, utterance: Utterance) -> Outcome:
        outcome, load = warm_up_process(self._call, self._spec, warm_up_part(self._spec, utterance))
        if load is not None:
            self._worker.warm = True
            self._append_load(load)
        return outcome

    def _append_load(self, load: dict[str, Any]) -> None:
        attempt = sum(key[:3] == ("load", self._index, self.name) for key in self._record.keys)
        self._record.append(Piece(key=["load", self._index, self.name, attempt], status="ok", data=load))


def stream_worker(spec: LatencySpec, engine: str, load_limit_s: float = LOAD_LIMIT_S) -> Worker:
    """Return the worker of an engine, or of a server's client."""
    arguments = (engine, spec.chunk_ms)
    if is_server(engine):
        return Worker(ServerRunner, arguments, "server", load_limit_s, failed="was not reached")
    return Worker(StreamRunner, arguments, load_limit_s=load_limit_s)


def warm_up_part(spec: LatencySpec, utterance: Utterance) -> Utterance:
    """Return the part of an utterance that warms a process up: of a fixed plan all of it."""
    if not spec.is_budgeted or duration_s(utterance) <= WARM_UP_AUDIO_S:
        return utterance
    return replace(utterance, end_s=utterance.start_s + WARM_UP_AUDIO_S)


def warm_up_process(
    call: Callable[..., Outcome], spec: LatencySpec, utterance: Utterance
) -> tuple[Outcome, dict[str, Any] | None]:
    """Return how the first stream of a process and its warm-up ended, and the data of its load piece.

    The first stream is kept apart; where it or the warm-up failed, there are no data.
    """
    first = call("stream", utterance, "virtual", limit_s=spec.time_limit_s)
    if not first.ok or first.value["failure"]:
        return first, None
    # Where time is short, one stream of a second or more: that is tens of calls.
    streams = 1 if spec.is_budgeted else MIN_WARMUP_CALLS
    outcome = call("warm_up", utterance, Plan(seed=spec.seed), streams, limit_s=MAX_WARMUP_S + spec.time_limit_s)
    return outcome, {**outcome.value, "first": first.value["trace"]} if outcome.ok else None


def _failed_inside(outcome: Outcome) -> tuple[Outcome, dict[str, Any]]:
    """The outcome of a call with the data it returned; of a stream in which the engine failed, an error."""
    data = dict(outcome.value) if isinstance(outcome.value, dict) else {}
    failure = data.pop("failure", "")
    return (replace(outcome, status="error", message=failure) if failure else outcome), data
