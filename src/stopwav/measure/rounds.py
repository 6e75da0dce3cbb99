"""Rounds: a round is one fresh process. `measure` takes a workload's rounds, `race` interleaves those of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from stopwav.errors import Caution, Status, StopwavError
from stopwav.measure.plan import COMPARISON, REPORT, Plan
from stopwav.measure.sampler import Samples
from stopwav.measure.workload import Scalar, Workload, as_workload

if TYPE_CHECKING:
    from stopwav.measure.cuda_memory import CudaMemory, CudaPeak
    from stopwav.measure.energy import EnergyReading
    from stopwav.measure.memory import HostPeak
    from stopwav.stats import Estimate, Outliers, Verdict


@dataclass(frozen=True)
class Round:
    """One fresh process: how it ended and, where it went well, what it measured."""

    index: int
    status: Status
    message: str = ""
    last_words: str = ""
    load_s: float | None = None
    samples: Samples | None = None
    memory: HostPeak | None = None
    cuda_memory: CudaPeak | None = None
    energy: EnergyReading | None = None
    # Flagged, and taken once more; both are kept.
    throttled: bool = False
    # What the workload's call says of itself in an attribute `facts`: plain values, such as which model was loaded.
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
        """The rounds that count: those that went well, a throttled one only where its repetition failed."""
        best: dict[int, Round] = {}
        for one in self.rounds:
            if one.status == "ok" and (one.index not in best or not one.throttled):
                best[one.index] = one
        return tuple(best[index] for index in sorted(best))

    @property
    def status(self) -> Status:
        """`ok` where at least one round went well, otherwise how the first one ended; `skipped` where there is none."""
        if self.good:
            return "ok"
        return self.rounds[0].status if self.rounds else "skipped"

    @property
    def time(self) -> Estimate:
        """Seconds per iteration: the geometric mean of the round medians, with its interval."""
        from stopwav.stats import Estimate, summarise_rounds

        if not self.good:
            return Estimate(None, unit="s", note=self.rounds[0].message if self.rounds else "no round was taken")
        return summarise_rounds([one.samples.values_s for one in self.good if one.samples], unit="s")

    @property
    def stages(self) -> dict[str, Estimate]:
        """Seconds per iteration in each stage that the workload marks, nested ones by their path."""
        from stopwav.stats import summarise_rounds

        taken = [one.samples.stages_s for one in self.good if one.samples]
        paths = dict.fromkeys(path for values in taken for totals in values for path in totals)
        return {path: summarise_rounds([[v.get(path, 0.0) for v in values] for values in taken]) for path in paths}

    @property
    def outliers(self) -> Outliers:
        """How many values lie outside Tukey's fences: counted, never removed."""
        from stopwav.stats import classify_outliers

        return classify_outliers([value for one in self.good if one.samples for value in one.samples.values_s])

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """What casts doubt on the numbers, each once."""
        found = [caution for one in self.good if one.samples for caution in one.samples.cautions]
        if any(one.throttled for one in self.rounds):
            found.append(Caution("throttled", "the processor was throttled during a round; it was taken once more"))
        failed = [one for one in self.rounds if one.status != "ok"]
        if failed and self.good:
            found.append(Caution("rounds-failed", f"{len(failed)} of {len(self.rounds)} rounds: {failed[0].message}"))
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Race:
    """Two workloads measured in turn, and whether the second is faster than the first."""

    a: Measurement
    b: Measurement
    threshold: float

    @property
    def pairs(self) -> tuple[list[float], list[float]]:
        """The medians of both sides, round by round, of the rounds that went well on both."""
        first = {one.index: one.median_s for one in self.a.good}
        second = {one.index: one.median_s for one in self.b.good}
        both = sorted(first.keys() & second.keys())
        return [first[i] for i in both], [second[i] for i in both]

    @property
    def verdict(self) -> Verdict:
        """The paired verdict over the rounds that went well on both sides."""
        from stopwav.stats import paired_verdict

        found = paired_verdict(*self.pairs, threshold=self.threshold)
        for side in (self.a, self.b):
            if not side.good:  # more rounds would end as these did
                return replace(found, more_rounds=None, note=f"{side.name}: {side.time.note}")
        return found


def measure(
    workload: Workload | Callable[[], object],
    plan: Plan = REPORT,
    *,
    device: str = "cpu",
    only: Sequence[int] | None = None,
    had: Sequence[Round] = (),
    on_round: Callable[[Round], None] | None = None,
) -> Measurement:
    """The measurement of a workload: each of `plan.rounds` rounds in a fresh process.

    With `only`, just these rounds are taken, counted from 0, as a study does that has an order of its own. `had` are
    rounds of an earlier call: they are part of the measurement and not taken again. `on_round` is called with each
    new one as it ends.
    """
    workload = as_workload(workload)
    rounds = list(had)
    for index in range(plan.rounds) if only is None else only:
        taken = [one for one in had if one.index == index]
        # Where the processor was throttled meanwhile it is taken once more; both are kept.
        while not taken or (len(taken) == 1 and taken[0].throttled):
            one = _run_round(workload, plan, index, device)
            taken.append(one)
            rounds.append(one)
            if on_round is not None:
                on_round(one)
    return Measurement(workload.name, dict(workload.params), tuple(rounds))


def race(
    a: Workload | Callable[[], object],
    b: Workload | Callable[[], object],
    plan: Plan = COMPARISON,
    *,
    threshold: float = 0.01,
    device: str = "cpu",
    only: Sequence[int] | None = None,
    had: tuple[Sequence[Round], Sequence[Round]] = ((), ()),
    on_round: Callable[[int, Round], None] | None = None,
) -> Race:
    """Two workloads measured in interleaved rounds (AB BA AB …), with a verdict on b against a.

    `only` and `had` are as for `measure`: just these rounds are taken, and those of an earlier call, of a and of b, are
    part of the race. `on_round` is called with the side, 0 for a and 1 for b, and each new round as it ends.
    """
    if only is None and plan.rounds < 2:
        raise StopwavError(f"race: plan.rounds={plan.rounds}; no verdict can be had from one round a side, use 10")
    if not threshold >= 0:
        raise StopwavError(f"race: threshold={threshold!r}; give the share that matters, such as 0.01, or 0")
    first, second = take_turns([a, b], plan, devices=[device] * 2, only=only, had=had, on_round=on_round)
    return Race(first, second, threshold)


def take_turns(
    workloads: Sequence[Workload | Callable[[], object]],
    plan: Plan,
    *,
    devices: Sequence[str],
    had: Sequence[Sequence[Round]],
    only: Sequence[int] | None = None,
    on_round: Callable[[int, Round], None] | None = None,
) -> list[Measurement]:
    """The measurement of each workload, their rounds interleaved; `on_round` is told which one a new round is of."""
    taken = [measure(one, plan, only=(), had=rounds) for one, rounds in zip(workloads, had, strict=True)]
    for index in range(plan.rounds) if only is None else only:
        for which in alternating_order(len(workloads), index):
            taken[which] = measure(
                workloads[which],
                plan,
                device=devices[which],
                only=[index],
                had=taken[which].rounds,
                on_round=None if on_round is None else partial(on_round, which),
            )
    return taken


def alternating_order(count: int, index: int) -> list[int]:
    """The order of `count` contenders in turn `index`: forwards, then backwards, so that drift favours none."""
    order = list(range(count))
    return order if index % 2 == 0 else order[::-1]


def _run_round(workload: Workload, plan: Plan, index: int, device: str) -> Round:
    # Here and not above: it brings pickling and pipes, which `import stopwav` should not wait for.
    from stopwav.measure.process import FreshProcess

    with FreshProcess(RoundRunner, workload, plan, device) as process:
        outcome = process.start(plan.time_limit_s)
        if outcome.ok:
            outcome = process.call("run", time_limit_s=plan.time_limit_s)
        if not outcome.ok:
            return Round(index, outcome.status, outcome.message, outcome.last_words)
        taken: Round = outcome.value
        return replace(taken, index=index)


class RoundRunner:
    """What a round does inside its fresh process: load, first call, warm-up, values, then memory and energy apart."""

    def __init__(self, workload: Workload, plan: Plan, device: str) -> None:
        self._workload, self._plan = workload, plan
        self._device = device
        if plan.memory_limit_bytes is not None:
            from stopwav.measure.memory import limit_host_memory

            limit_host_memory(plan.memory_limit_bytes)
        self._clock = clock_for(device)

    def run(self) -> Round:
        """The finished round."""
        from stopwav.measure.machine import throttle_count
        from stopwav.measure.memory import host_baseline_bytes, measure_host_peak
        from stopwav.measure.sampler import load_statistics, sample

        load_statistics()
        loaded = self._clock.time(self._workload.setup)
        call = loaded.result
        # Noted before the first call, which may leave caches behind: both peaks are given over the loaded model.
        loaded_bytes, cuda = host_baseline_bytes(), self._cuda_baseline()
        before = throttle_count()
        samples = sample(call, self._clock, self._plan)
        after = throttle_count()
        return Round(
            index=0,
            status="ok",
            load_s=loaded.wall_s,
            samples=samples,
            memory=measure_host_peak(call, loaded_bytes),
            cuda_memory=self._cuda_peak(call, cuda),
            energy=self._energy(call),
            throttled=before is not None and after is not None and after > before,
            facts=getattr(call, "facts", {}),
        )

    def _cuda_baseline(self) -> CudaMemory | None:
        if not self._device.startswith("cuda"):
            return None
        from stopwav.measure.cuda_memory import cuda_memory

        return cuda_memory(self._device)

    def _cuda_peak(self, call: Callable[[], object], baseline: CudaMemory | None) -> CudaPeak | None:
        if baseline is None:
            return None
        from stopwav.measure.cuda_memory import measure_cuda_peak

        return measure_cuda_peak(call, self._device, baseline)

    def _energy(self, call: Callable[[], object]) -> EnergyReading | None:
        if not self._plan.energy:
            return None
        from stopwav.measure.energy import measure_energy
        from stopwav.measure.meters import find_meters

        return measure_energy(call, find_meters())


def clock_for(device: str) -> Any:
    """The clock that times calls on the device."""
    from stopwav.measure.clock import CudaClock, WallClock

    return CudaClock(device) if device.startswith("cuda") else WallClock()
