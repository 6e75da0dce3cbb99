"""The numbers of a loss: its times over batches, its peaks of memory, and its rank among the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import geometric_mean, median

from stopwav.measure.rounds import Round
from stopwav.stats import Estimate, cluster_mean, cluster_ratio, summarise_rounds
from stopwav.studies.loss.batch_sets import BatchSet
from stopwav.studies.loss.rounds import LossRounds
from stopwav.studies.loss.shared_batches import SharedBatches

NO_CUDA = "no CUDA device"
# The seconds per step of one round of one batch, value by value.
ValuesOf = Callable[[Round], Sequence[float]]


def step_metrics(measured: LossRounds, batch_set: BatchSet, shared: SharedBatches) -> dict[str, Estimate]:
    """Return every metric that comes from the timed steps and the memory passes, each over the shared batches."""
    rounds, note = measured.only(shared.numbers), _batches_note(measured, shared)
    times = [_batch_time(of_batch, step_values) for of_batch in rounds.good.values()]
    cells = [rounds.batches[number].cells for number in rounds.good]
    return {
        "step_time": over_batches(rounds, step_values, note),
        "forward_time": over_batches(rounds, stage_values("forward"), note),
        "backward_time": over_batches(rounds, stage_values("backward"), note),
        "step_wall_time": over_batches(rounds, _wall_values, note),
        # The ratio of sums, with its interval by resampling batches.
        "time_per_cell": cluster_ratio(times, cells, range(len(times)), unit="s", positive=True),
        "padding_efficiency": Estimate(batch_set.padding_efficiency, n=len(batch_set.batches)),
        **_memory(rounds),
    }


def step_values(round_: Round) -> Sequence[float]:
    """Return the seconds per step: by the device where there is one, else by the wall."""
    assert round_.samples is not None
    return round_.samples.device_values_s or round_.samples.values_s


def _wall_values(round_: Round) -> Sequence[float]:
    """The seconds per step that the host waits for it."""
    assert round_.samples is not None
    return round_.samples.values_s


def stage_values(name: str) -> ValuesOf:
    """Return how to read the seconds per step in one of its two stages."""

    def values(round_: Round) -> Sequence[float]:
        assert round_.samples is not None
        return [totals.get(name, 0.0) for totals in round_.samples.stages_s]

    return values


def _batches_note(measured: LossRounds, shared: SharedBatches) -> str:
    """How many batches a mean is of, and what became of the others."""
    count, completed = len(shared.numbers), len(measured.good)
    note = f"mean of {count} batch{'' if count == 1 else 'es'}"
    if completed > count:
        note += ", those that every compared loss completed"
    missing = len(measured.rounds) - completed
    return f"{note}; {missing} more were not measured" if missing else note


def over_batches(rounds: LossRounds, values: ValuesOf, note: str = "") -> Estimate:
    """Return the mean over batches, with its interval over them: rounds of one batch say nothing about other batches.

    With one or two batches the interval is that over rounds.
    """
    good = rounds.good
    times = [_batch_time(of_batch, values) for of_batch in good.values()]
    n = sum(len(values(round_)) for of_batch in good.values() for round_ in of_batch)
    if len(times) >= 3:
        mean = cluster_mean(times, range(len(times)), positive=True)
        return replace(mean, n=n, note="; ".join(filter(None, (note, mean.note))))
    by_round = [[sum(medians) / len(medians)] for medians in _medians_by_round(good, values)]
    if len(times) == 1:
        by_round = [list(values(round_)) for round_ in next(iter(good.values()))]
    estimate = summarise_rounds(by_round)
    return replace(estimate, n=n, note="; ".join(filter(None, (note, estimate.note))))


def _batch_time(of_batch: Sequence[Round], values: ValuesOf) -> float:
    """The location of a batch: the geometric mean of its round medians."""
    medians = [median(values(round_)) for round_ in of_batch]
    # A stage that the clock is too coarse for takes nothing.
    return geometric_mean(medians) if min(medians) > 0 else sum(medians) / len(medians)


def _medians_by_round(good: Mapping[int, Sequence[Round]], values: ValuesOf) -> list[list[float]]:
    medians: dict[int, list[float]] = {}
    for of_batch in good.values():
        for round_ in of_batch:
            medians.setdefault(round_.index, []).append(median(values(round_)))
    return list(medians.values())


def _memory(rounds: LossRounds) -> dict[str, Estimate]:
    """The peaks with and without the inputs, each the largest over batches and rounds: a peak is no mean."""
    good = [round_ for of_batch in rounds.good.values() for round_ in of_batch]
    host = [(round_.memory.peak_bytes, round_.memory.baseline_bytes) for round_ in good if round_.memory]
    note = next((round_.memory.note for round_ in good if round_.memory and round_.memory.note), "") or ""
    metrics = _peaks("host", host, note)
    for kind in ("allocated", "reserved"):
        field = f"{kind}_bytes"
        device = [round_.cuda_memory for round_ in good if round_.cuda_memory]
        metrics |= _peaks(
            kind, [(getattr(memory.peak, field), getattr(memory.baseline, field)) for memory in device], ""
        )
    return metrics


def _peaks(kind: str, pairs: Sequence[tuple[int, int]], note: str) -> dict[str, Estimate]:
    names = (f"peak_{kind}_bytes", f"peak_{kind}_over_inputs_bytes")
    if not pairs:
        return {name: Estimate(None, unit="B", note=NO_CUDA, code="no-device") for name in names}
    peaks, without_inputs = [float(peak) for peak, _ in pairs], [float(peak - base) for peak, base in pairs]
    return {
        name: Estimate(max(values), n=len(values), unit="B", note=note)
        for name, values in zip(names, (peaks, without_inputs), strict=True)
    }


def peak_spans(rounds: LossRounds) -> dict[str, list[float]]:
    """Return the lowest and the highest peak, excluding inputs, of the rounds of a loss, where it has several."""
    of_rounds: dict[str, dict[int, float]] = {}
    for round_ in (round_ for of_batch in rounds.good.values() for round_ in of_batch):
        peaks: dict[str, float] = {}
        if round_.memory is not None:
            peaks["peak_host_over_inputs_bytes"] = round_.memory.peak_bytes - round_.memory.baseline_bytes
        if (memory := round_.cuda_memory) is not None:
            allocated = memory.peak.allocated_bytes - memory.baseline.allocated_bytes
            peaks["peak_allocated_over_inputs_bytes"] = allocated
        for name, peak in peaks.items():
            highest = of_rounds.setdefault(name, {})
            highest[round_.index] = max(peak, highest.get(round_.index, peak))
    return {name: [min(by.values()), max(by.values())] for name, by in of_rounds.items() if len(by) > 1}
