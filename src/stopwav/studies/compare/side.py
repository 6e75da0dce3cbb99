"""One engine's side of a round over inputs: its process and its pieces."""

from __future__ import annotations

from dataclasses import dataclass, field

from stopwav.measure.plan import Plan
from stopwav.measure.process import Outcome
from stopwav.measure.sampler import MAX_WARMUP_S
from stopwav.record import Piece, Record
from stopwav.speech.corpus import Utterance
from stopwav.studies.compare.engine_runner import EngineRunner
from stopwav.studies.worker import EngineProcess


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
    _process: EngineProcess = field(init=False)

    def __post_init__(self) -> None:
        arguments = (self.engine, device_of(self.engine))
        self._process = EngineProcess(self.name, self.round, self.record, EngineRunner, arguments)

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
        self._process.close()

    def _transcribe(self, utterance: Utterance) -> Outcome:
        if not self._process.warm:
            outcome = self._warm_up(utterance)
            if not outcome.ok:
                return outcome
        return self._process.call("transcribe", utterance, time_limit_s=self.time_limit_s)

    def _warm_up(self, utterance: Utterance) -> Outcome:
        """How warming up went; where it did not, the next input is tried."""
        limit_s = MAX_WARMUP_S + 2 * self.time_limit_s
        outcome = self._process.call("warm_up", utterance, self.plan, time_limit_s=limit_s)
        if outcome.ok:
            self._process.warmed_up(outcome.value)
        return outcome
