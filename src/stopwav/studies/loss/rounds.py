"""The rounds of a loss: measured batch by batch in a worker, and read back from the run file."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

from stopwav.errors import Status
from stopwav.measure.rounds import Measurement, Round
from stopwav.record import Record
from stopwav.speech.batches import Batch
from stopwav.studies.loss.batch_sets import BatchSet, batch_seed
from stopwav.studies.loss.loss_step import LossRunner, loss_setup
from stopwav.studies.loss.spec import LossSpec, plan_of
from stopwav.studies.piece_kinds import Key
from stopwav.studies.stored_rounds import round_from_piece, round_to_piece
from stopwav.studies.worker import Worker

# A loss that fails on every batch would cost its start, or its time limit, on each of them. Running out of memory does
# not count: a shorter batch may fit.
MAX_FAILURES = 2
DEADLY: tuple[Status, ...] = ("timeout", "crashed", "error")


@dataclass(frozen=True)
class LossRounds:
    """The rounds of each batch of one loss at one setting."""

    batches: tuple[Batch, ...]
    rounds: tuple[tuple[Round, ...], ...]

    @cached_property
    def good(self) -> dict[int, tuple[Round, ...]]:
        """The rounds that count, by the number of the batch, of the batches that have any."""
        counted = {number: Measurement("", {}, rounds).good for number, rounds in enumerate(self.rounds)}
        return {number: rounds for number, rounds in counted.items() if rounds}

    @cached_property
    def indices(self) -> list[int]:
        """The numbers of the rounds that are there, completed or not."""
        return sorted({round_.index for of_batch in self.rounds for round_ in of_batch})

    def only(self, numbers: Collection[int]) -> LossRounds:
        """Return the same batches with the rounds of these alone."""
        kept = (rounds if number in numbers else () for number, rounds in enumerate(self.rounds))
        return LossRounds(self.batches, tuple(kept))


def load_rounds(record: Record, loss: str, batch_set: BatchSet) -> LossRounds:
    """Return the rounds of every batch of a loss that are in the run."""
    rounds: list[list[Round]] = [[] for _ in batch_set.batches]
    for piece in record.pieces:
        if piece.key[0] == "step" and piece.key[2:4] == [loss, batch_set.setting.label]:
            rounds[int(piece.key[4])].append(round_from_piece(piece))
    return LossRounds(batch_set.batches, tuple(map(tuple, rounds)))


def open_worker(spec: LossSpec, loss: str, vocab: int, limit_s: float | None = None) -> Worker:
    """Return the process of a loss for one round, which has so many seconds to load."""
    return Worker(
        LossRunner,
        (loss_setup(spec, loss, vocab), plan_of(spec)),
        subject="loss",
        load_limit_s=limit_s or spec.time_limit_s,
        max_deaths=MAX_FAILURES,
        deadly=DEADLY,
    )


def measure_round(spec: LossSpec, record: Record, loss: str, batch_set: BatchSet, index: int) -> None:
    """Measure one round of a loss on every batch that is not in the record yet; each is recorded at once."""
    with open_worker(spec, loss, batch_set.setting.vocab) as worker:
        for number, batch in enumerate(batch_set.batches):
            place = (loss, batch_set.setting.label, number)
            measure_batch(spec, record, worker, place, batch, index)


def step_key(index: int, place: tuple[str, str, int], attempt: int) -> Key:
    """Return the key of a round of a loss, setting and batch; `attempt` is 1 for one that was measured again."""
    return ("step", index, *place, attempt)


def measure_batch(
    spec: LossSpec,
    record: Record,
    worker: Worker,
    place: tuple[str, str, int],
    batch: Batch,
    index: int,
    visit_s: float | None = None,
    limit_s: float | None = None,
) -> None:
    """Measure one batch; where the processor was throttled meanwhile, once more.

    `visit_s` is the time that its calls should take, and `limit_s` the one after which they are stopped.
    """
    pieces = [piece for piece in record.pieces if tuple(piece.key[:5]) == step_key(index, place, 0)[:5]]
    # A run killed between the two still lacks the repetition.
    for attempt in range(len(pieces), 2):
        if attempt and not (pieces and pieces[0].data.get("throttled")):
            return
        round_ = _hopeless_round(record, place, index)
        if round_ is None:
            seed = batch_seed(spec, place[2])
            outcome = worker.call("measure", batch, seed, visit_s, time_limit_s=limit_s or spec.time_limit_s)
            if index and outcome.status == "timeout" and limit_s is not None and limit_s < spec.time_limit_s:
                return  # the budget ended it: that says nothing of the loss, which completed the batch before
            round_ = outcome.value if outcome.ok else Round(0, outcome.status, outcome.message, outcome.last_words)
        pieces.append(round_to_piece(step_key(index, place, attempt), replace(round_, index=index)))
        record.append(pieces[-1])


def _hopeless_round(record: Record, place: tuple[str, str, int], index: int) -> Round | None:
    """The skipped round of a batch that ran out of memory or time in an earlier round: it would only do so again."""
    for piece in record.pieces:
        same_batch = piece.key[0] == "step" and piece.key[2:5] == list(place)
        if same_batch and piece.key[1] != index and piece.status in ("oom", "timeout"):
            return Round(index, "skipped", f"not tried again after round {piece.key[1]}: {piece.message}")
    return None
