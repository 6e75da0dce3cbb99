"""Rounds: a round is one fresh process. `measure` runs the rounds of a workload, `race` interleaves those of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from stopwav.errors import Caution, Status, StopwavError
from stopwav.measure.launcher import open_process
from stopwav.measure.plan import COMPARISON, REPORT, Plan, Scalar, Workload, as_workload
from stopwav.measure.sampler import ONE_CALL
from stopwav.measure.visit import Round as Round
from stopwav.measure.visit import RoundRunner

if TYPE_CHECKING:
    from stopwav.stats import Estimate, Outliers, Rule, Verdict


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
        """The warnings about the numbers, each once; that a value is one call, where it is so in half of the rounds."""
        samples = [round_.samples for round_ in self.good if round_.samples]
        cautions = [caution for of_round in samples for caution in of_round.cautions]
        single = [caution for caution in cautions if caution.code == ONE_CALL]
        if 2 * len(single) < len(samples):
            cautions = [caution for caution in cautions if caution.code != ONE_CALL]
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
    # `anytime` where the rounds may have stopped because of what they showed.
    rule: Rule = "fixed"

    @property
    def pairs(self) -> tuple[list[float], list[float]]:
        """The medians of a and of b in the rounds that succeeded for both, on one machine, round by round."""
        first = {(round_.index, round_.machine): round_.median_s for round_ in self.a.good}
        second = {(round_.index, round_.machine): round_.median_s for round_ in self.b.good}
        both = sorted(first.keys() & second.keys())
        return [first[i] for i in both], [second[i] for i in both]

    @property
    def verdict(self) -> Verdict:
        """The paired verdict over the rounds that succeeded for both."""
        from stopwav.stats import paired_verdict

        verdict = paired_verdict(*self.pairs, threshold=self.threshold, rule=self.rule)
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
    stop_when_decided: bool = False,
) -> Race:
    """Measure two workloads in interleaved rounds (AB BA AB …), for a verdict on b against a.

    `only` and `previous_rounds` (those of a and those of b) are as for `measure`. `on_round` is called with 0 for a or
    1 for b, and each new round as it ends. With `stop_when_decided` there are at most so many rounds: it looks after
    each pair and stops at the first verdict, by a rule (`anytime`) that allows looking.
    """
    if only is None and plan.rounds < 2:
        raise StopwavError(f"race: plan.rounds={plan.rounds}; a verdict needs at least 2 rounds per side, use 10")
    if not threshold >= 0:
        raise StopwavError(f"race: threshold={threshold!r}; give the share that matters, such as 0.01, or 0")
    rule: Rule = "anytime" if stop_when_decided else "fixed"

    def is_decided(measurements: Sequence[Measurement]) -> bool:
        first, second = measurements
        return stop_when_decided and Race(first, second, threshold, rule).verdict.kind != "undecided"

    first, second = interleave_rounds(
        [a, b],
        plan,
        devices=[device] * 2,
        only=only,
        previous_rounds=previous_rounds,
        on_round=on_round,
        is_enough=is_decided,
    )
    return Race(first, second, threshold, rule)


def interleave_rounds(
    workloads: Sequence[Workload | Callable[[], object]],
    plan: Plan,
    *,
    devices: Sequence[str],
    previous_rounds: Sequence[Sequence[Round]],
    only: Sequence[int] | None = None,
    on_round: Callable[[int, Round], None] | None = None,
    is_enough: Callable[[Sequence[Measurement]], bool] = lambda measurements: False,
) -> list[Measurement]:
    """Measure workloads in interleaved rounds; `on_round` is called with a workload's position and its new round.

    `is_enough` is asked before each round of all of them, and ends the rounds.
    """
    measurements = [
        measure(workload, plan, only=(), previous_rounds=rounds)
        for workload, rounds in zip(workloads, previous_rounds, strict=True)
    ]
    for index in range(plan.rounds) if only is None else only:
        if is_enough(measurements):
            break
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
    with open_process(RoundRunner, workload, plan, device) as process:
        outcome = process.start(plan.time_limit_s)
        if outcome.ok:
            outcome = process.call("run", time_limit_s=plan.time_limit_s)
        if not outcome.ok:
            return Round(index, outcome.status, outcome.message, outcome.last_words)
        round_: Round = outcome.value
        return replace(round_, index=index)
