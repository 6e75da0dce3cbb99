"""How two loss runs are compared: the time of a step and its parts, memory, the largest batch, and correctness."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from statistics import median

from stopwav.measure.rounds import Round
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.stats import Estimate
from stopwav.studies.comparable import Comparable, ComparableItem, NoValue, RoundMetric, Values
from stopwav.studies.loss.batch_sets import BatchSet, batch_sets
from stopwav.studies.loss.check import matches_oracle
from stopwav.studies.loss.largest_batch import largest_of
from stopwav.studies.loss.metrics import stage_values, step_values
from stopwav.studies.loss.rounds import LossRounds, load_rounds
from stopwav.studies.loss.spec import LossSpec
from stopwav.studies.stored_fields import stored_spec

_TIMES: Mapping[str, Callable[[Round], Sequence[float]]] = {
    "step_time": step_values,
    "forward_time": stage_values("forward"),
    "backward_time": stage_values("backward"),
}
HOST, DEVICE = "peak_host_bytes", "peak_allocated_bytes"
LARGEST, CORRECT = "largest_batch", "correct"


def _items(record: Record) -> dict[str, ComparableItem]:
    """The losses of a run at each of its settings, but for those that could not take part."""
    spec, sets = stored_spec(LossSpec, record.header), batch_sets(record.header)
    return {
        _name(loss, batch_set, sets): _item(record, spec, loss, batch_set)
        for batch_set in sets
        for loss in spec.losses
        if ("absent", loss) not in record
    }


def _name(loss: str, batch_set: BatchSet, sets: Sequence[BatchSet]) -> str:
    return f"{loss} ({batch_set.setting.label})" if len(sets) > 1 else loss


def _item(record: Record, spec: LossSpec, loss: str, batch_set: BatchSet) -> ComparableItem:
    rounds = load_rounds(record, loss, batch_set)
    whole = _whole_rounds(rounds, rounds.good)
    on_device = any(round_.cuda_memory for of_batch in rounds.good.values() for round_ in of_batch)
    largest = _largest(record, spec, loss, batch_set)
    return ComparableItem(
        values=partial(_values, rounds, record.find(("check", loss)), largest),
        utterances={str(number): None for number in rounds.good},
        rounds=len(whole),
        unfinished_rounds=len(rounds.indices) - len(whole),
        metrics=(*_TIMES, DEVICE if on_device else HOST, *([LARGEST] if spec.largest_batch else []), CORRECT),
    )


def _values(rounds: LossRounds, check: Piece | None, largest: Values, metric: RoundMetric, batches: set[str]) -> Values:
    """The metric's value in each round that completed these batches, or of the run as a whole."""
    if metric.name == CORRECT:
        if check is None or check.status != "ok":
            return NoValue("the check against the oracle did not complete")
        right = float(matches_oracle(check))
        return Estimate(right, right, right)
    if metric.name == LARGEST:
        return largest
    chosen = _whole_rounds(rounds, [int(number) for number in batches])
    by_round = [_of_round(metric.name, of_round) for of_round in chosen.values()]
    if any(value is None for value in by_round):
        return NoValue("not measured in every round")
    return [value for value in by_round if value is not None] or NoValue("no finished round")


def _whole_rounds(rounds: LossRounds, numbers: Collection[int]) -> dict[int, list[Round]]:
    """The rounds in which all of these batches completed."""
    of_rounds: dict[int, list[Round]] = {}
    for number in numbers:
        for round_ in rounds.good.get(number, ()):
            of_rounds.setdefault(round_.index, []).append(round_)
    return {index: of_rounds[index] for index in sorted(of_rounds) if len(of_rounds[index]) == len(numbers)}


def _of_round(metric: str, of_round: Sequence[Round]) -> float | None:
    """The mean over batches of the seconds of a step, or the largest peak of any of them."""
    if metric in _TIMES:
        return sum(median(_TIMES[metric](round_)) for round_ in of_round) / len(of_round)
    if metric == HOST:
        peaks = [round_.memory.peak_bytes for round_ in of_round if round_.memory]
    else:
        peaks = [round_.cuda_memory.peak.allocated_bytes for round_ in of_round if round_.cuda_memory]
    return float(max(peaks)) if len(peaks) == len(of_round) else None


def _largest(record: Record, spec: LossSpec, loss: str, batch_set: BatchSet) -> Values:
    """The largest batch, between what fitted and what did not."""
    if not spec.largest_batch:
        return NoValue("not searched; --largest-batch does")
    if spec.memory_limit_gb is None and spec.device == "cpu":
        return NoValue(
            "limited by the memory that was free at that time; --memory-limit-gb makes it the same each time"
        )
    frontier = largest_of(record, loss, batch_set.setting.vocab)
    return Estimate(frontier.fits, frontier.fits, None if frontier.fails_at is None else frontier.fails_at - 1)


def _settings(record: Record) -> Mapping[str, object]:
    spec = stored_spec(LossSpec, record.header)
    return {"dtype": spec.dtype, "device": spec.device, "dim": spec.dim}


def _item_settings(record: Record, name: str) -> Mapping[str, object]:
    """The batches: other lengths take another time."""
    sets, spec = batch_sets(record.header), stored_spec(LossSpec, record.header)
    for batch_set in sets:
        if any(_name(loss, batch_set, sets) == name for loss in spec.losses):
            lengths = repr([(batch.frames, batch.tokens) for batch in batch_set.batches])
            digest = hashlib.sha256(lengths.encode()).hexdigest()[:6]
            label = f"{batch_set.setting.label}, {len(batch_set.batches)} of seed {spec.seed}, digest {digest}"
            return {"batches": label}
    return {}


COMPARABLE = Comparable(
    noun="loss",
    metrics=(
        *(RoundMetric(name, "s", "time") for name in _TIMES),
        RoundMetric(HOST, "B", "size"),
        RoundMetric(DEVICE, "B", "size"),
        RoundMetric(LARGEST, "", "capacity"),
        RoundMetric(CORRECT, "", "correctness"),
    ),
    items=_items,
    settings=_settings,
    item_settings=_item_settings,
    models=lambda record: {loss: loss for loss in stored_spec(LossSpec, record.header).losses},
    sample="batch",
)
