"""Rounds: a round is one fresh process. `measure` runs the rounds of a workload, `race` interleaves those of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from stopwav.errors import Caution, Status, StopwavError
from stopwav.measure.clock import clock_for
from stopwav.measure.plan import COMPARISON, REPORT, Plan, Scalar, Workload, as_workload
from stopwav.measure.sampler import Samples

if TYPE_CHECKING:
    from stopwav.measure.energy import EnergyReading
    from stopwav.measure.memory import CudaMemory, CudaPeak, HostPeak
    from stopwav.stats import Estimate, Outliers, Verdict


@dataclass(frozen=True)
class Round:
    """One fresh process: how it ended and, where it succeeded, its measurements."""

    index: int
    status: Status
    message: str = ""
    last_words: str = ""
    load_s: float | None = None
    samples: Samples | None = None
    memory: HostPeak | None = None
    cuda_memory: CudaPeak | None = None
    energy: EnergyReading | None = None
    # A throttled round is repeated once; both are kept.
    throttled: bool = False
    # The attribute `facts` of the workload's call: plain values, such as which model was loaded.
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def median_s(self) -> float:
        """The median of this round's values."""
        assert self.samples is not None
        return median(self.samples.values_s)


@dataclass(frozen=True)
class Measurement:
    """All rounds of one workload."""

    name: str
    params: Mapping[str, Scalar]
    rounds: tuple[Round, ...]

    @property
    def good(self) -> tuple[Round, ...]:
        """The rounds that count: the successful ones, a throttled one only where its repetition failed."""
        best: dict[int, Round] = {}
        for round_ in self.rounds:
            if round_.status == "ok" and (round_.index not in best or not round_.throttled):
                best[round_.index] = round_
        return tuple(best[index] for index in sorted(best))

    @property
    def status(self) -> Status:
        """`ok` if at least one round succeeded, otherwise the status of the first; `skipped` without rounds."""
        if self.good:
            return "ok"
        return self.rounds[0].status if self.rounds else "skipped"

    @property
    def time(self) -> Estimate:
        """Seconds per iteration: the geometric mean of the round medians, with its interval."""
        from stopwav.stats import Estimate, summarise_rounds

        if not self.good:
            return Estimate(None, unit="s", note=self.rounds[0].message if self.rounds else "no round was run")
        return summarise_rounds([round_.samples.values_s for round_ in self.good if round_.samples], unit="s")

    @property
    def stages(self) -> dict[str, Estimate]:
        """Seconds per iteration in each stage that the workload marks, nested ones by their path."""
        from stopwav.stats import summarise_rounds

        rounds = [round_.samples.stages_s for round_ in self.good if round_.samples]
        paths = dict.fromkeys(path for values in rounds for totals in values for path in totals)
        return {path: summarise_rounds([[v.get(path, 0.0) for v in values] for values in rounds]) for path in paths}

    @property
    def outliers(self) -> Outliers:
        """The number of values outside Tukey's fences: counted, never removed."""
        from stopwav.stats import classify_outliers

        return classify_outliers([value for round_ in self.good if round_.samples for value in round_.samples.values_s])

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """The warnings about the numbers, each once."""
        cautions = [caution for round_ in self.good if round_.samples for caution in round_.samples.cautions]
        if any(round_.throttled for round_ in self.rounds):
            cautions.append(Caution("throttled", "the processor was throttled during a round, which was repeated once"))
        failed = [round_ for round_ in self.rounds if round_.status != "ok"]
        if failed and self.good:
            message = f"{len(failed)} of {len(self.rounds)} rounds failed: {failed[0].message}"
            cautions.append(Caution("rounds-failed", message))
        return tuple(dict.fromkeys(cautions))


@dataclass(frozen=True)
class Race:
    """Two workloads measured in interleaved rounds, and whether the second is faster than the first."""

    a: Measurement
    b: Measurement
    threshold: float

    @property
    def pairs(self) -> tuple[list[float], list[float]]:
        """The medians of a and of b in the rounds that succeeded for both, round by round."""
        first = {round_.index: round_.median_s for round_ in self.a.good}
        second = {round_.index: round_.median_s for round_ in self.b.good}
        both = sorted(first.keys() & second.keys())
        return [first[i] for i in both], [second[i] for i in both]

    @property
    def verdict(self) -> Verdict:
        """The paired verdict over the rounds that succeeded for both."""
        from stopwav.stats import paired_verdict

        verdict = paired_verdict(*self.pairs, threshold=self.threshold)
        for measurement in (self.a, self.b):
            if not measurement.good:  # more rounds would fail too
                return replace(verdict, more_rounds=None, note=f"{measurement.name}: {measurement.time.note}")
        return verdict


def measure(
    workload: Workload | Callable[[], object],
    plan: Plan = REPORT,
    *,
    device: str = "cpu",
    only: Sequence[int] | None = None,
    previous_rounds: Sequence[Round] = (),
    on_round: Callable[[Round], None] | None = None,
) -> Measurement:
    """Measure a workload: run each of `plan.rounds` rounds in a fresh process.

    `only` limits it to these rounds, counted from 0. `previous_rounds` are rounds of an earlier call: they are part of
    the measurement and are not run again. `on_round` is called with each new round as it ends.
    """
    workload = as_workload(workload)
    rounds = list(previous_rounds)
    for index in range(plan.rounds) if only is None else only:
        attempts = [round_ for round_ in previous_rounds if round_.index == index]
        # A throttled round is repeated once; both are kept.
        while not attempts or (len(attempts) == 1 and attempts[0].throttled):
            round_ = _run_round(workload, plan, index, device)
            attempts.append(round_)
            rounds.append(round_)
            if on_round is not None:
                on_round(round_)
    return Measurement(workload.name, dict(workload.params), tuple(rounds))


def race(
    a: Workload | Callable[[], object],
    b: Workload | Callable[[], object],
    plan: Plan = COMPARISON,
    *,
    threshold: float = 0.01,
    device: str = "cpu",
    only: Sequence[int] | None = None,
    previous_rounds: tuple[Sequence[Round], Sequence[Round]] = ((), ()),
    on_round: Callable[[int, Round], None] | None = None,
) -> Race:
    """Measure two workloads in interleaved rounds (AB BA AB …), for a verdict on b against a.

    `only` and `previous_rounds` (those of a and those of b) are as for `measure`. `on_round` is called with 0 for a or
    1 for b, and each new round as it ends.
    """
    if only is None and plan.rounds < 2:
        raise StopwavError(f"race: plan.rounds={plan.rounds}; a verdict needs at least 2 rounds per side, use 10")
    if not threshold >= 0:
        raise StopwavError(f"race: threshold={threshold!r}; give the share that matters, such as 0.01, or 0")
    first, second = interleave_rounds(
        [a, b], plan, devices=[device] * 2, only=only, previous_rounds=previous_rounds, on_round=on_round
    )
    return Race(first, second, threshold)


def interleave_rounds(
    workloads: Sequence[Workload | Callable[[], object]],
    plan: Plan,
    *,
    devices: Sequence[str],
    previous_rounds: Sequence[Sequence[Round]],
    only: Sequence[int] | None = None,
    on_round: Callable[[int, Round], None] | None = None,
) -> list[Measurement]:
    """Measure workloads in interleaved rounds; `on_round` is called with a workload's position and its new round."""
    measurements = [
        measure(workload, plan, only=(), previous_rounds=rounds)
        for workload, rounds in zip(workloads, previous_rounds, strict=True)
    ]
    for index in range(plan.rounds) if only is None else only:
        for position in alternating_order(len(workloads), index):
            measurements[position] = measure(
                workloads[position],
                plan,
                device=devices[position],
                only=[index],
                previous_rounds=measurements[position].rounds,
                on_round=None if on_round is None else partial(on_round, position),
            )
    return measurements


def alternating_order(count: int, index: int) -> list[int]:
    """Return the order of `count` workloads in round `index`: forwards, then backwards, so that drift favours none."""
    order = list(range(count))
    return order if index % 2 == 0 else order[::-1]


def _run_round(workload: Workload, plan: Plan, index: int, device: str) -> Round:
    # Imported here because it needs pickling and pipes, which `import stopwav` should not wait for.
    from stopwav.measure.process import FreshProcess

    with FreshProcess(RoundRunner, workload, plan, device) as process:
        outcome = process.start(plan.time_limit_s)
        if outcome.ok:
            outcome = process.call("run", time_limit_s=plan.time_limit_s)
        if not outcome.ok:
            return Round(index, outcome.status, outcome.message, outcome.last_words)
        round_: Round = outcome.value
        return replace(round_, index=index)


class RoundRunner:
    """Runs a round inside its fresh process: load, first call, warm-up, values, then memory and energy passes."""

    def __init__(self, workload: Workload, plan: Plan, device: str) -> None:
        self._workload, self._plan = workload, plan
        self._device = device
        if plan.memory_limit_bytes is not None:
            from stopwav.measure.memory import limit_host_memory

            limit_host_memory(plan.memory_limit_bytes)
        self._clock = clock_for(device)

    def run(self) -> Round:
        """Run the round."""
        from stopwav.measure.machine import throttle_count
        from stopwav.measure.memory import host_baseline_bytes, measure_host_peak
        from stopwav.measure.sampler import load_statistics, sample

        load_statistics()
        load = self._clock.time(self._workload.setup)
        call = load.result
        # Read before the first call, which may leave caches behind: both peaks are given over the loaded model.
        baseline_bytes, cuda_baseline = host_baseline_bytes(), self._cuda_baseline()
        before = throttle_count()
        samples = sample(call, self._clock, self._plan)
        after = throttle_count()
        return Round(
            index=0,
            status="ok",
            load_s=load.wall_s,
            samples=samples,
            memory=measure_host_peak(call, baseline_bytes),
            cuda_memory=self._cuda_peak(call, cuda_baseline),
            energy=self._energy(call),
            throttled=before is not None and after is not None and after > before,
            facts=getattr(call, "facts", {}),
        )

    def _cuda_baseline(self) -> CudaMemory | None:
        if not self._device.startswith("cuda"):
            return None
        from stopwav.measure.memory import cuda_memory

        return cuda_memory(self._device)

    def _cuda_peak(self, call: Callable[[], object], baseline: CudaMemory | None) -> CudaPeak | None:
        if baseline is None:
            return None
        from stopwav.measure.memory import measure_cuda_peak

        return measure_cuda_peak(call, self._device, baseline)

    def _energy(self, call: Callable[[], object]) -> EnergyReading | None:
        if not self._plan.energy:
            return None
        from stopwav.measure.energy import measure_energy
        from stopwav.measure.meters import find_meters

        return measure_energy(call, find_meters())
