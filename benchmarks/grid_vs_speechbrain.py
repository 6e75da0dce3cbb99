"""One cell of a grid, measured by stopwav and by SpeechBrain's schedule, against a long reference. Prints Markdown.

    python benchmarks/grid_vs_speechbrain.py [ENGINE] [SECONDS] [BATCH] [REPETITIONS]
    python benchmarks/grid_vs_speechbrain.py pocketsphinx 1 1 5
    python benchmarks/grid_vs_speechbrain.py speechbrain:PATH_OR_ID,type=EncoderASR 1 1 5

The schedule of SpeechBrain's `profile_report` is 10 steps in one process: 1 waits, 2 warm up, 7 are recorded. It runs
once, and repeatedly for as long as stopwav took; without a profiler, whose cost would count against it. If SpeechBrain
is installed and the engine is one of its models, its own profiler runs too, and the result of its `report_time` (mean +
3 standard deviations over the recorded steps) is a separate row.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import fmean, median

from stopwav import Plan, measure
from stopwav.measure.machine import describe
from stopwav.measure.plan import Workload
from stopwav.measure.process import FreshProcess
from stopwav.stats import Estimate, summarise_rounds
from stopwav.stats.intervals import t_interval
from stopwav.studies.audio_input import BUNDLED
from stopwav.studies.grid.cell import CellWorkload, GridCell

WAIT, WARM_UP, ACTIVE = 1, 2, 7
LIMIT_S = 300.0
# A process of the reference runs for the full time: its precision cannot be reached.
REFERENCE = Plan(rounds=1, min_values=30, max_values=1000, precision=1e-9, max_values_s=10)


@dataclass(frozen=True)
class Trial:
    """One estimate of the time of a call, in seconds, and how long the measurement took."""

    estimate: Estimate
    took_s: float


class Schedule:
    """Inside its fresh process: SpeechBrain's schedule on a workload."""

    def __init__(self, workload: Workload) -> None:
        self._start_s = time.perf_counter()
        self._call = workload.setup()

    def cycles(self, budget_s: float) -> list[float]:
        """Seconds of the recorded steps of one cycle, and of more cycles until the budget is spent."""
        recorded: list[float] = []
        while not recorded or time.perf_counter() - self._start_s < budget_s:
            steps = [self._step() for _ in range(WAIT + WARM_UP + ACTIVE)]
            recorded += steps[-ACTIVE:]
        return recorded

    def speechbrain(self) -> float:
        """Seconds of a step, as SpeechBrain's own profiling reports them."""
        from speechbrain.utils.profiling import profile_report, report_time

        with profile_report() as profiler:
            for _ in range(WAIT + WARM_UP + ACTIVE):
                self._call()
                profiler.step()
        host_us, _ = report_time(profiler, upper_control_limit=True)
        return float(host_us) / 1e6

    def _step(self) -> float:
        start_s = time.perf_counter()
        self._call()
        return time.perf_counter() - start_s


def ask(workload: Workload, method: str, *arguments: object) -> tuple[object, float]:
    """The result of a method of a `Schedule` in a fresh process, and the seconds it took, loading included."""
    start_s = time.perf_counter()
    factory: Callable[..., object] = Schedule
    with FreshProcess(factory, workload) as process:
        outcome = process.start(LIMIT_S)
        if outcome.ok:
            outcome = process.call(method, *arguments, time_limit_s=LIMIT_S)
    if not outcome.ok:
        sys.exit(f"{workload.name}: {outcome.status}: {outcome.message}")
    return outcome.value, time.perf_counter() - start_s


def by_schedule(workload: Workload, budget_s: float) -> Trial:
    """The mean of the recorded steps, with Student's interval as if they were independent."""
    values, took_s = ask(workload, "cycles", budget_s)
    assert isinstance(values, list)
    mean, low, high = t_interval(values)
    return Trial(Estimate(mean, low, high, len(values), "s"), took_s)


def by_speechbrain(workload: Workload) -> Trial:
    """The result of SpeechBrain's profiling, which has no interval."""
    value, took_s = ask(workload, "speechbrain")
    assert isinstance(value, float)
    return Trial(Estimate(value, n=ACTIVE, unit="s"), took_s)


def by_stopwav(workload: Workload) -> Trial:
    """The default measurement of a cell of a grid: three rounds, the stop rule, the median."""
    start_s = time.perf_counter()
    return Trial(measure(workload, Plan(rounds=3)).time, time.perf_counter() - start_s)


def row(name: str, trials: Sequence[Trial], reference_s: float) -> str:
    """A line of the table."""
    estimates = [trial.estimate for trial in trials]
    errors = [abs(estimate.value / reference_s - 1) for estimate in estimates if estimate.value is not None]
    ends = [(each.low, each.high) for each in estimates if each.low is not None and each.high is not None]
    width = f"{fmean((high - low) / 2 for low, high in ends) / reference_s:.2%}" if ends else "–"
    covered = f"{sum(low <= reference_s <= high for low, high in ends)} of {len(estimates)}" if ends else "–"
    took = f"{median(trial.took_s for trial in trials):.1f}"
    return f"| {name} | {took} | {fmean(errors):.2%} | {max(errors):.2%} | ± {width} | {covered} |"


def main() -> None:
    """Print the table."""
    given = dict(enumerate(sys.argv[1:]))
    engine, cell = given.get(0, "pocketsphinx"), GridCell(float(given.get(1, 1)), int(given.get(2, 1)))
    workload = CellWorkload(engine, cell, BUNDLED, seed=0)
    own = engine.startswith("speechbrain:") and find_spec("speechbrain") is not None
    load_before = os.getloadavg()[0]
    trials: dict[str, list[Trial]] = {}
    reference: list[Sequence[float]] = []
    for _ in range(int(given.get(3, 5))):
        # All in turn, the reference too, so that a drift of the machine affects all of them.
        ours = by_stopwav(workload)
        trials.setdefault("stopwav, 3 rounds", []).append(ours)
        trials.setdefault("10 steps, once", []).append(by_schedule(workload, 0))
        trials.setdefault("10 steps, repeatedly", []).append(by_schedule(workload, ours.took_s))
        if own:
            trials.setdefault("SpeechBrain's profiling", []).append(by_speechbrain(workload))
        reference += [round_.samples.values_s for round_ in measure(workload, REFERENCE).good if round_.samples]
    truth = summarise_rounds(reference)
    assert truth.value is not None
    machine = describe()
    print(f"{workload.name} on {machine.cpu}, {machine.logical_cores} cores; load {load_before:.1f} at the start.")
    print(f"Reference: {truth.value * 1e3:.2f} ms, {truth.n} values in {len(reference)} processes.\n")
    print("| | seconds | mean error | largest error | interval | includes the reference |\n|---|---|---|---|---|---|")
    print(*(row(name, group, truth.value) for name, group in trials.items()), sep="\n")


if __name__ == "__main__":
    main()
