"""What sampled power says of an energy counter: how far the two agree, and how finely the counter counts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from stopwav.errors import Caution
from stopwav.measure.counter_check import CounterResolution
from stopwav.stats import Estimate, summarise_rounds
from stopwav.studies.compare.pieces import EnergyRun

# Two readings of a steady load that lie further apart than this are not of the same thing.
AGREEMENT = 0.10


def agreement(runs: Sequence[EnergyRun], parts: Collection[str]) -> Estimate:
    """Joules by sampled power / joules by the counters of these parts, in the windows of each process."""
    ratios = []
    for run in runs:
        ratio, why = _ratio(run, parts)
        if ratio is None:
            return Estimate(None, note=why)
        ratios.append([ratio])
    return summarise_rounds(ratios, "")


def grain_metrics(grain: CounterResolution | None) -> dict[str, Estimate]:
    """The smallest step of a counter and the time between steps; nothing where no counter was looked at."""
    if grain is None:
        return {}
    return {
        "counter_step": Estimate(grain.step_j, unit="J", note=grain.note),
        "counter_interval": Estimate(grain.interval_s, unit="s", note=grain.note),
    }


def disagreements(runs: Sequence[EnergyRun]) -> Iterator[Caution]:
    """A caution for each part whose counter and sampled power are too far apart, by the process where they are most."""
    for part in dict.fromkeys(part for run in runs for window in run.windows for part in window.sampled_joules):
        ratios = [ratio for ratio, _ in (_ratio(run, [part]) for run in runs) if ratio is not None]
        worst = max(ratios, key=lambda ratio: abs(ratio - 1), default=1.0)
        if abs(worst - 1) > AGREEMENT:
            yield Caution(
                "meters-disagree",
                f"{part}: sampled power adds up to {100 * worst:.0f} % of what its counter says, so one of them is "
                "wrong here; work that comes in bursts is sampled badly: take larger inputs, or --meter-csv",
            )


def _ratio(run: EnergyRun, parts: Collection[str]) -> tuple[float | None, str]:
    """Σ sampled / Σ counted over the windows of a process; or None and what is lacking."""
    for window in run.windows:
        for part in parts:
            if part not in window.sampled_joules:
                return None, f"{part}: {window.unsampled.get(part, 'no second reading')}"
            if part not in window.joules:
                return None, f"{part}: {window.missing.get(part, 'no value in a window')}"
    sampled_j = sum(window.sampled_joules[part] for window in run.windows for part in parts)
    return sampled_j / sum(window.joules[part] for window in run.windows for part in parts), ""
