"""One engine's side of a round: its process, started when first needed and again after it died, and its pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stopwav.errors import Status
from stopwav.measure.pacer import Pace
from stopwav.measure.plan import Plan
from stopwav.measure.process import FreshProcess, Outcome
from stopwav.measure.sampler import MAX_WARMUP_S
from stopwav.record import Piece, Record
from stopwav.speech.corpus import Utterance
from stopwav.studies.streaming import StreamRunner

# Models of gigabytes from a slow disk take minutes.
LOAD_LIMIT_S = 600.0
# An engine that dies on every utterance would cost its time limit on each of them.
MAX_DEATHS = 3


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
    _process: FreshProcess | None = None
    _warm: bool = False
    _deaths: int = 0
    _given_up: str = ""
    _given_up_status: Status = "skipped"

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
        if not self._warm or self._process is None or tuple(key) in self.record:
            return
        outcome = self._process.call("peak_memory", longest, time_limit_s=self.time_limit_s)
        data = outcome.value if outcome.ok else {}
        self.record.append(Piece(key=key, status=outcome.status, message=outcome.message, data=data))

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None
            self._warm = False

    def _stream(self, utterance: Utterance) -> Outcome:
        if not self._given_up and self._process is None:
            self._load()
        if not self._given_up and not self._warm:
            first = self._warm_up(utterance)
            if not self._warm:
                return first
        if self._given_up or self._process is None:
            return Outcome(self._given_up_status, message=self._given_up)
        limit_s = self.time_limit_s + (duration_s(utterance) if self.pace != "virtual" else 0.0)
        return self._note(self._process.call("stream", utterance, self.pace, time_limit_s=limit_s))

    def _load(self) -> None:
        self._process = FreshProcess(StreamRunner, self.engine, self.chunk_ms)
        outcome = self._process.start(LOAD_LIMIT_S)
        if not outcome.ok:
            self.close()
            self._given_up = f"the engine did not load: {outcome.message}"
            self._given_up_status = outcome.status

    def _warm_up(self, utterance: Utterance) -> Outcome:
        """The first stream through the process, which is kept apart; the warm-up follows where it went well."""
        assert self._process is not None
        first = self._note(self._process.call("stream", utterance, "virtual", time_limit_s=self.time_limit_s))
        if not first.ok or first.value["failure"]:
            return first
        limit_s = MAX_WARMUP_S + self.time_limit_s
        outcome = self._note(self._process.call("warm_up", utterance, self.plan, time_limit_s=limit_s))
        if outcome.ok:
            self._warm = True
            self._record_load({**outcome.value, "first": first.value["trace"]})
        return outcome

    def _record_load(self, data: dict[str, Any]) -> None:
        attempt = sum(piece.key[:3] == ["load", self.round, self.name] for piece in self.record.pieces)
        key: list[str | int] = ["load", self.round, self.name, attempt]
        self.record.append(Piece(key=key, status="ok", data=data))

    def _note(self, outcome: Outcome) -> Outcome:
        """The outcome, with what follows from it for the process."""
        if outcome.status in ("timeout", "crashed", "oom"):
            self.close()
            self._deaths += 1
            if self._deaths >= MAX_DEATHS:
                self._given_up = f"not tried: the engine died {MAX_DEATHS} times in a row"
        elif outcome.ok:
            self._deaths = 0
        return outcome


def duration_s(utterance: Utterance) -> float:
    """How long the utterance's audio lasts; 0 where the file cannot be read, which the engine's process will say."""
    import soundfile

    if utterance.end_s is not None:
        return utterance.end_s - utterance.start_s
    try:
        return float(soundfile.info(utterance.path).duration) - utterance.start_s
    except (OSError, RuntimeError):
        return 0.0
