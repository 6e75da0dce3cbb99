"""Rules by which a comparison may stop early, side by side on the same simulated rounds. Prints Markdown tables.

    python benchmarks/stopping_rules.py

A rule is the reach of its interval after each round, in standard deviations of a round. Each is looked at after every
round up to the sixtieth, and stops at its first verdict. The noise is that of tests/stats/test_looking.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from stopwav.stats import DEFAULT_THRESHOLD
from stopwav.stats.rule import PRIOR_ROUNDS, interval_reach

Floats = NDArray[np.float64]

ROUNDS, RUNS, CALIBRATION_RUNS, LEVEL = 60, 20_000, 200_000, 0.05
PROCESS, WALK, TREND, HELD_UP = 0.013, 0.005, 0.002, 0.1
COUNT = np.arange(1, ROUNDS + 1)


def log_ratios(busy: bool) -> Floats:
    """Log ratios of interleaved rounds (AB BA …) of the same thing, a row per comparison."""
    generator = np.random.default_rng(int(busy))
    size = (RUNS, 2 * ROUNDS)
    slots = generator.normal(0, WALK, size).cumsum(axis=1) + generator.normal(0, PROCESS, size)
    slots += generator.normal(0, TREND, (RUNS, 1)) * np.arange(2 * ROUNDS)
    if busy:
        slots += np.where(generator.random(size) < 0.05, generator.exponential(HELD_UP, size), 0)
    turns = np.where(np.arange(ROUNDS) % 2 == 0, 1, -1)
    return (slots[:, 1::2] - slots[:, 0::2]) * turns


def means_and_spreads(values: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the first n values of each row, for every n."""
    means = values.cumsum(axis=1) / COUNT
    squares = np.maximum(0, (values**2).cumsum(axis=1) - COUNT * means**2)
    return means, np.sqrt(squares / np.maximum(1, COUNT - 1))


def p_values() -> Floats:
    """Student's p values after each round of simulated comparisons without a difference, to calibrate rules on."""
    means, spreads = means_and_spreads(np.random.default_rng(2).normal(0, 1, (CALIBRATION_RUNS, ROUNDS)))
    values = np.ones_like(means)
    for index in range(1, ROUNDS):
        t = np.abs(means[:, index]) / spreads[:, index] * math.sqrt(index + 1)
        values[:, index] = 2 * scipy_stats.t.sf(t, index)
    return values


def by_levels(levels: Floats) -> Floats:
    """The reach of a Student t interval at a level of its own after each round; a level of 0 has none."""
    reach = np.full(ROUNDS, np.inf)
    for index in np.flatnonzero(levels[1:]) + 1:
        reach[index] = scipy_stats.t.isf(levels[index] / 2, index) / math.sqrt(index + 1)
    return reach


def by_spending(spent: Callable[[float], float], null: Floats) -> Floats:
    """Group-sequential: the levels at which so much of α is spent after each share of sixty rounds."""
    levels, going_on = np.zeros(ROUNDS), np.ones(len(null), dtype=bool)
    for index in range(1, ROUNDS):
        stops = round(spent((index + 1) / ROUNDS) * len(null)) - np.count_nonzero(~going_on)
        if stops > 0:
            levels[index] = np.partition(null[going_on, index], stops)[stops]
            going_on &= null[:, index] > levels[index]
    return by_levels(levels)


def by_calibration(power: float, null: Floats) -> Floats:
    """Student's t at a level of C·n^-power, with C such that α of all comparisons are stopped within sixty rounds."""
    smallest = (null * COUNT**power)[:, 1:].min(axis=1)
    return by_levels(np.quantile(smallest, LEVEL) / COUNT**power)


def by_sequence(prior_rounds: float) -> Floats:
    """The confidence sequence of stopwav.stats.rule, for any c²."""
    k = prior_rounds / (COUNT + prior_rounds)
    bound = (LEVEL**2 * k) ** (-1 / COUNT)
    exists = (k * bound < 1) & (COUNT > 1)
    r = (bound - 1) / np.where(exists, 1 - k * bound, 1)
    return np.where(exists, np.sqrt(r * (COUNT - 1) / COUNT), np.inf)


def rules() -> dict[str, Floats]:
    """Every rule by its name."""
    null = p_values()
    ours = by_sequence(PRIOR_ROUNDS)
    assert np.allclose(ours[9], interval_reach("anytime", 1 - LEVEL, 9, 10, 10) / math.sqrt(10))
    ten = np.where(COUNT == 10, LEVEL, 0.0)
    pocock = by_spending(lambda share: LEVEL * math.log1p((math.e - 1) * share), null)
    normal = scipy_stats.norm
    fleming = by_spending(lambda share: 2 * normal.sf(normal.isf(LEVEL / 2) / math.sqrt(share)), null)
    sequences = {f"confidence sequence, c² = {c2:g}": by_sequence(c2) for c2 in (0.01, 0.03, PRIOR_ROUNDS, 0.3, 1, 4)}
    return {
        "fixed ten rounds, Student t": by_levels(ten),
        **sequences,
        "α spending as Pocock, horizon 60": pocock,
        "α spending as O'Brien-Fleming, horizon 60": fleming,
        "t calibrated up to 60 rounds, level C": by_calibration(0, null),
        "t calibrated up to 60 rounds, level C/√n": by_calibration(0.5, null),
        "t calibrated up to 60 rounds, level C/n": by_calibration(1, null),
        "Student t looked at every round": by_levels(np.full(ROUNDS, LEVEL)),
    }


def first_verdicts(reach: Floats, values: Floats, edge: float) -> tuple[Floats, Floats, Floats]:
    """Whether each comparison ends in `slower`, in `faster`, and after how many rounds it stops."""
    means, spreads = means_and_spreads(values)
    half = np.where(np.isfinite(reach), np.where(np.isfinite(reach), reach, 0) * spreads, np.inf)
    low, high = means - half, means + half
    slower, faster = low > edge, high < -edge
    decided = slower | faster | ((low >= -edge) & (high <= edge))
    decided[:, np.flatnonzero(np.isfinite(reach))[-1]] = True
    stops = decided.argmax(axis=1)
    rows = np.arange(len(values))
    return slower[rows, stops].astype(float), faster[rows, stops].astype(float), stops + 1.0


def row(name: str, reach: Floats, noise: Floats) -> str:
    """A line of the table."""
    slower, faster, _ = first_verdicts(reach, noise, 0.0)
    cells = [name, f"{100 * (slower + faster).mean():.1f} %"]
    for planted in (0.03, 0.05, 0.1):
        slower, _, stops = first_verdicts(reach, noise + math.log1p(planted), math.log1p(DEFAULT_THRESHOLD))
        within_ten = (slower * (stops <= 10)).mean()
        cells.append(f"{100 * slower.mean():.1f} %, {100 * within_ten:.1f} %, {stops.mean():.1f}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the tables."""
    compared = rules()
    for busy in (False, True):
        print(f"\n{'a busy machine' if busy else 'process noise and drift'}: found, found within 10, mean rounds\n")
        print("| rule | A against A: false | 3 % | 5 % | 10 % |\n|---|---|---|---|---|")
        noise = log_ratios(busy)
        for name, reach in compared.items():
            print(row(name, reach, noise))


if __name__ == "__main__":
    main()
