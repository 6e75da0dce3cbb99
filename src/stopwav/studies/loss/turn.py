"""One loss's turn in a round: its process, started when first needed and again after it died, and its pieces."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stopwav.measure.plan import Plan
from stopwav.measure.process import FreshProcess, Outcome
from stopwav.measure.rounds import Round
from stopwav.record import Record
from stopwav.speech.batches import Batch
from stopwav.studies.loss.loss_step import StepPlace, StepRunner
from stopwav.studies.loss.setting import Setting
from stopwav.studies.stored_rounds import Key, round_from_piece, round_to_piece

# A loss that dies on every batch would cost its start, or its time limit, on each of them.
MAX_DEATHS = 2


def step_key(index: int, loss: str, setting: Setting, batch: int, attempt: int) -> Key:
    """The key of a round of a loss on a batch; `attempt` is 1 for what was taken once more."""
    return ("step", index, loss, setting.label, batch, attempt)


@dataclass
class Turn:
    """A loss in one round. `take` measures a batch unless the record has it, and records how it went."""

    index: int
    place: StepPlace
    setting: Setting
    plan: Plan
    record: Record
    _process: FreshProcess | None = None
    _deaths: int = 0
    _given_up: Round | None = None

    def take(self, number: int, batch: Batch, seed: int) -> None:
        """Measure one batch; where the processor was throttled meanwhile, once more."""
        taken = [piece for piece in self.record.pieces if tuple(piece.key[:5]) == self._key(number, 0)[:5]]
        # A run killed between the two still owes the repetition.
        for attempt in range(len(taken), 2):
            if attempt and not (taken and taken[0].data.get("throttled")):
                return
            one = self._doomed(number) or self._measure(batch, seed)
            piece = round_to_piece(self._key(number, attempt), replace(one, index=self.index))
            self.record.append(piece)
            taken.append(piece)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None

    def _key(self, number: int, attempt: int) -> Key:
        return step_key(self.index, self.place.loss, self.setting, number, attempt)

    def _measure(self, batch: Batch, seed: int) -> Round:
        if self._given_up is not None:
            return self._given_up
        if self._process is None:
            self._process = FreshProcess(StepRunner, self.place, self.plan)
            outcome = self._process.start(self.plan.time_limit_s)
            if not outcome.ok:
                return self._note(outcome)
        return self._note(self._process.call("measure", batch, seed, time_limit_s=self.plan.time_limit_s))

    def _note(self, outcome: Outcome) -> Round:
        """The round that an outcome is, with what follows from it for the process."""
        if outcome.ok:
            self._deaths = 0
            taken: Round = outcome.value
            return taken
        # After an error the process may hold half of a batch: the next one starts afresh.
        self.close()
        self._deaths += 1
        if self._deaths >= MAX_DEATHS and outcome.status != "oom":
            told = f"not tried: the loss failed {MAX_DEATHS} times in a row: {outcome.message}"
            self._given_up = Round(self.index, "skipped", told)
        return Round(self.index, outcome.status, outcome.message, outcome.last_words)

    def _doomed(self, number: int) -> Round | None:
        """What becomes of a batch that ran out of memory or time in an earlier round: it would only do so again."""
        for piece in self.record.pieces:
            if piece.key[0] != "step" or piece.key[2:5] != list(self._key(number, 0)[2:5]):
                continue
            one = round_from_piece(piece)
            if one.status in ("oom", "timeout") and one.index != self.index:
                return Round(self.index, "skipped", f"not tried again after round {one.index}: {one.message}")
        return None
