"""One engine's side of a round over inputs: its process, started when first needed and again after it died."""

from __future__ import annotations

from dataclasses import dataclass

from stopwav.errors import Status
from stopwav.measure.plan import Plan
from stopwav.measure.process import FreshProcess, Outcome
from stopwav.measure.sampler import MAX_WARMUP_S
from stopwav.record import Piece, Record
from stopwav.speech.corpus import Utterance
from stopwav.studies.compare_runner import EngineRunner
from stopwav.studies.contender import LOAD_LIMIT_S, MAX_DEATHS


def device_of(engine: str) -> str:
    """The device that an engine's options name: its clock is the one to time it by."""
    from stopwav.engines.registry import parse_spec

    return str(parse_spec(engine).options.get("device") or "cpu")


@dataclass
class Side:
    """An engine in one round. `take` measures an input unless the record has it, and records how it went."""

    name: str
    engine: str
    round: int
    time_limit_s: float
    plan: Plan
    record: Record
    _process: FreshProcess | None = None
    _warm: bool = False
    _deaths: int = 0
    _given_up: str = ""
    _given_up_status: Status = "skipped"

    def take(self, place: int, utterance: Utterance) -> None:
        """Transcribe one input and record the piece."""
        key: list[str | int] = ["sample", self.round, self.name, place]
        if tuple(key) in self.record:
            return
        outcome = self._transcribe(utterance)
        data = {"id": utterance.id, **(outcome.value if outcome.ok else {})}
        self.record.append(
            Piece(key=key, status=outcome.status, message=outcome.message, last_words=outcome.last_words, data=data)
        )

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None
            self._warm = False

    def _transcribe(self, utterance: Utterance) -> Outcome:
        if self._process is None and not self._given_up:
            self._load()
        if self._given_up or self._process is None:
            return Outcome(self._given_up_status, message=self._given_up)
        if not self._warm:
            outcome = self._warm_up(self._process, utterance)
            if not outcome.ok:
                return outcome
        return self._note(self._process.call("transcribe", utterance, time_limit_s=self.time_limit_s))

    def _load(self) -> None:
        """Start the process; an engine that does not load is not tried again in this round."""
        self._process = FreshProcess(EngineRunner, self.engine, device_of(self.engine))
        outcome = self._process.start(LOAD_LIMIT_S)
        if not outcome.ok:
            self.close()
            self._given_up = f"the engine did not load: {outcome.message}"
            self._given_up_status = outcome.status

    def _warm_up(self, process: FreshProcess, utterance: Utterance) -> Outcome:
        """How warming up went; where it did not, the next input is tried."""
        limit_s = MAX_WARMUP_S + 2 * self.time_limit_s
        outcome = self._note(process.call("warm_up", utterance, self.plan, time_limit_s=limit_s))
        if outcome.ok:
            self._warm = True
            attempt = sum(piece.key[:3] == ["load", self.round, self.name] for piece in self.record.pieces)
            key: list[str | int] = ["load", self.round, self.name, attempt]
            self.record.append(Piece(key=key, status="ok", data=outcome.value))
        return outcome

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
