"""The numbers of a loss: its times over batches, its peaks of memory, its largest batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean, median

from stopwav.measure.rounds import Measurement, Round
from stopwav.speech.batches import Batch
from stopwav.stats import Estimate, summarise_rounds, t_interval
from stopwav.stats.bootstrap import cluster_ratio
from stopwav.studies.frontier import LARGEST_BATCH, Frontier
from stopwav.studies.loss.setting import Fed

NO_CUDA = "no CUDA device"
# Of one round of one batch: seconds a step, value by value.
ValuesOf = Callable[[Round], Sequence[float]]


@dataclass(frozen=True)
class Steps:
    """The rounds of each batch of one loss at one setting."""

    batches: tuple[Batch, ...]
    rounds: tuple[tuple[Round, ...], ...]

    @property
    def good(self) -> dict[int, tuple[Round, ...]]:
        """By the number of the batch, the rounds that count, of the batches that have any."""
        counted = {number: Measurement("", {}, rounds).good for number, rounds in enumerate(self.rounds)}
        return {number: rounds for number, rounds in counted.items() if rounds}


def step_values(one: Round) -> Sequence[float]:
    """Seconds a step: by the device where there is one, else by the wall."""
    assert one.samples is not None
    return one.samples.device_values_s or one.samples.values_s


def wall_values(one: Round) -> Sequence[float]:
    """Seconds a step as the host waits for it."""
    assert one.samples is not None
    return one.samples.values_s


def stage_values(name: str) -> ValuesOf:
    """Seconds a step in one of its two stages."""

    def values(one: Round) -> Sequence[float]:
        assert one.samples is not None
        return [totals.get(name, 0.0) for totals in one.samples.stages_s]

    return values


def step_metrics(steps: Steps, fed: Fed) -> dict[str, Estimate]:
    """Every metric that comes from the timed steps and the memory passes."""
    times = [_batch_time(rounds, step_values) for rounds in steps.good.values()]
    cells = [steps.batches[number].cells for number in steps.good]
    real, padded = fed.batches, sum(batch.padded_cells for batch in fed.batches)
    return {
        "step_time": over_batches(steps, step_values),
        "forward_time": over_batches(steps, stage_values("forward")),
        "backward_time": over_batches(steps, stage_values("backward")),
        "step_wall_time": over_batches(steps, wall_values),
        "time_per_cell": _per_cell(times, cells),
        "padding_efficiency": Estimate(sum(batch.cells for batch in real) / padded, n=len(real)),
        **_memory(steps),
    }


def _per_cell(times: Sequence[float], cells: Sequence[int]) -> Estimate:
    """The ratio of sums, with its interval by drawing batches anew."""
    found = cluster_ratio(times, cells, list(range(len(times))), unit="s")
    return replace(found, note=found.note.replace("utterance", "batch").replace("batchs", "batches"))


def over_batches(steps: Steps, values: ValuesOf) -> Estimate:
    """The mean over batches, with its interval over them: rounds of one batch say nothing about other batches.

    With one or two batches the interval is that over rounds.
    """
    good = steps.good
    times = [_batch_time(rounds, values) for rounds in good.values()]
    n = sum(len(values(one)) for rounds in good.values() for one in rounds)
    missing = len(steps.rounds) - len(good)
    note = f"mean of {len(good)} batches" + (f"; {missing} more were not measured" if missing else "")
    if len(times) >= 3:
        mean, low, high = t_interval(times)
        # Batches may differ by more than their mean, but no step takes less than nothing.
        return Estimate(mean, max(0.0, low), high, n, "s", note)
    by_round = [[sum(values_of) / len(values_of)] for values_of in _by_round(good, values)]
    if len(times) == 1:
        by_round = [list(values(one)) for one in next(iter(good.values()))]
    found = summarise_rounds(by_round)
    return Estimate(found.value, found.low, found.high, n, "s", "; ".join(filter(None, (note, found.note))))


def round_locations(steps: Steps, numbers: Sequence[int]) -> dict[int, float]:
    """For each round in which all these batches went well, the geometric mean of their medians: what is ranked by.

    Geometric, so that a loss is compared by its ratio to another on every batch, and not by the longest batch alone.
    """
    found: dict[int, dict[int, float]] = {}
    for number in numbers:
        for one in steps.good.get(number, ()):
            found.setdefault(one.index, {})[number] = median(step_values(one))
    whole = {index: values for index, values in found.items() if len(values) == len(numbers)}
    return {index: geometric_mean(values.values()) for index, values in whole.items()}


def largest_estimate(found: Frontier) -> Estimate:
    """The largest batch that fits, with what stopped it."""
    if found.fails_at is None:
        note = f"at least: nothing failed up to {found.fits}, and no more than {LARGEST_BATCH} are tried"
        return Estimate(float(found.fits), n=1, note=note, code="lower-bound")
    return Estimate(float(found.fits), n=1, note=f"{found.fails_at} ended with {found.failure}")


def _batch_time(rounds: Sequence[Round], values: ValuesOf) -> float:
    """The location of a batch: the geometric mean of its round medians."""
    medians = [median(values(one)) for one in rounds]
    # A stage that the clock is too coarse for takes nothing.
    return geometric_mean(medians) if min(medians) > 0 else sum(medians) / len(medians)


def _by_round(good: dict[int, tuple[Round, ...]], values: ValuesOf) -> list[list[float]]:
    found: dict[int, list[float]] = {}
    for rounds in good.values():
        for one in rounds:
            found.setdefault(one.index, []).append(median(values(one)))
    return list(found.values())


def _memory(steps: Steps) -> dict[str, Estimate]:
    """The peaks, each absolute and over the inputs, as the largest over batches and rounds: a peak is no mean."""
    rounds = [one for taken in steps.good.values() for one in taken]
    host = [(one.memory.peak_bytes, one.memory.baseline_bytes) for one in rounds if one.memory]
    note = next((one.memory.note for one in rounds if one.memory and one.memory.note), "") or ""
    found = _peaks("host", host, note)
    for kind in ("allocated", "reserved"):
        pairs = [
            (getattr(one.cuda_memory.peak, f"{kind}_bytes"), getattr(one.cuda_memory.baseline, f"{kind}_bytes"))
            for one in rounds
            if one.cuda_memory
        ]
        found |= _peaks(kind, pairs, "")
    return found


def _peaks(kind: str, pairs: Sequence[tuple[int, int]], note: str) -> dict[str, Estimate]:
    names = (f"peak_{kind}_bytes", f"peak_{kind}_over_inputs_bytes")
    if not pairs:
        return {name: Estimate(None, unit="B", note=NO_CUDA) for name in names}
    peaks, over = [float(peak) for peak, _ in pairs], [float(peak - base) for peak, base in pairs]
    return {
        name: Estimate(max(values), n=len(values), unit="B", note=note)
        for name, values in zip(names, (peaks, over), strict=True)
    }
