"""One engine's side of a round of streams: its process and its pieces."""

from __future__ import annotations

from dataclasses import dataclass, field

from stopwav.measure.pacer import Pace
from stopwav.measure.plan import Plan
from stopwav.measure.process import Outcome
from stopwav.measure.sampler import MAX_WARMUP_S
from stopwav.record import Piece, Record
from stopwav.speech.corpus import Utterance
from stopwav.studies.latency.streams import StreamRunner
from stopwav.studies.worker import EngineProcess


@dataclass
class Contender:
    """An engine in one round. `take` measures an utterance unless the record has it, and records how it went."""

    name: str
    engine: str
    round: int
    chunk_ms: float | None
    pace: Pace
    time_limit_s: float
    plan: Plan
    record: Record
    _process: EngineProcess = field(init=False)

    def __post_init__(self) -> None:
        arguments = (self.engine, self.chunk_ms)
        self._process = EngineProcess(self.name, self.round, self.record, StreamRunner, arguments)

    def take(self, utterance: Utterance) -> None:
        """Stream one utterance and record the piece."""
        key: list[str | int] = ["stream", self.round, self.name, utterance.id]
        if tuple(key) in self.record:
            return
        outcome = self._stream(utterance)
        data = outcome.value if isinstance(outcome.value, dict) else {}
        failure = data.pop("failure", "")
        status = "error" if failure else outcome.status
        self.record.append(
            Piece(key=key, status=status, message=failure or outcome.message, last_words=outcome.last_words, data=data)
        )

    def finish_round(self, longest: Utterance) -> None:
        """Record the peak memory of streaming the longest utterance, where the process is still there."""
        key: list[str | int] = ["memory", self.round, self.name]
        if not self._process.warm or tuple(key) in self.record:
            return
        outcome = self._process.call("peak_memory", longest, time_limit_s=self.time_limit_s)
        data = outcome.value if outcome.ok else {}
        self.record.append(Piece(key=key, status=outcome.status, message=outcome.message, data=data))

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def _stream(self, utterance: Utterance) -> Outcome:
        if not self._process.warm:
            outcome = self._warm_up(utterance)
            if not self._process.warm:
                return outcome
        limit_s = self.time_limit_s + (duration_s(utterance) if self.pace != "virtual" else 0.0)
        return self._process.call("stream", utterance, self.pace, time_limit_s=limit_s)

    def _warm_up(self, utterance: Utterance) -> Outcome:
        """The first stream through the process, which is kept apart; the warm-up follows where it went well."""
        first = self._process.call("stream", utterance, "virtual", time_limit_s=self.time_limit_s)
        if not first.ok or first.value["failure"]:
            return first
        limit_s = MAX_WARMUP_S + self.time_limit_s
        outcome = self._process.call("warm_up", utterance, self.plan, time_limit_s=limit_s)
        if outcome.ok:
            self._process.warmed_up({**outcome.value, "first": first.value["trace"]})
        return outcome
