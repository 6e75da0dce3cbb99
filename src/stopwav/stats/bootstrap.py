"""Intervals by bootstrap over clusters: values of one cluster are not independent of each other, clusters are.

A replicate draws as many clusters as there are, with replacement. Where the same clusters were measured in three
rounds or more, rounds are drawn too, and a value weighs (times its cluster was drawn) × (times its round was drawn):
clusters and rounds are crossed, and each adds its own spread (the pigeonhole bootstrap).

Every statistic is a ratio of sums: of numerators and denominators, of values and their count, or of the values up to a
percentile and all values. So a replicate costs one pass over a small table, however many values there are.

What is positive by nature (a time, a real-time factor) has its interval on the logarithmic scale: it never reaches 0,
and that of the inverse is the inverse of it.
In notes a cluster is called an independent sample.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stopwav.stats.draws import BLOCK
from stopwav.stats.estimate import Estimate, is_rough, why_unusable
from stopwav.stats.intervals import WIDEST, minimum_count, quantile_ranks, rank, t_quantile, why_unsupported
from stopwav.stats.order import order_statistics
from stopwav.stats.replicates import Design, Labels, Replicates, count_table, design_of, draw_ratios, sum_table

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_FLIPS = 9999  # the smallest p value is then 0.0001, small enough for Holm over a table of metrics
_NORMAL = t_quantile(0.975, math.inf)


def cluster_percentiles(
    values: ArrayLike,
    clusters: Labels,
    ps: Sequence[float],
    rounds: Labels | None = None,
    seed: int = 0,
    unit: str = "s",
    sizes: Integers | None = None,
) -> dict[float, Estimate]:
    """Return the percentiles `ps` of all values by nearest rank, with intervals over clusters; no value with too few.

    The bootstrap shows how uncertain the share of values up to the percentile is, and hence the effective number of
    independent values (effective n); the interval is the binomial one of that many. With `sizes`, labels are of groups
    of values that follow each other, and that is how many values each group has.
    """
    array = np.asarray(values, dtype=float).ravel()
    design = design_of(array.size, clusters, rounds, sizes)
    broken = why_unusable(array)
    values_at = _nearest_ranks(array, [p for p in ps if not broken and array.size >= minimum_count(p)])
    effective: dict[float, int] = {}
    if values_at and design.clusters > 1:
        # The share of values up to the percentile: their number by cluster and round, and that of all.
        counts = [count_table(_up_to(array, value), design) for value in values_at.values()]
        drawn = draw_ratios(counts, count_table(None, design), design, seed)
        shares = [float(table.sum()) / array.size for table in counts]
        effective = {
            p: _effective_n(share, array.size, own)
            for p, share, own in zip(values_at, shares, drawn, strict=True)
            if own is not None
        }
    ends = _interval_ends(array, effective)
    return {p: _percentile(array, p, values_at.get(p), effective.get(p), ends.get(p), design, unit) for p in ps}


def cluster_mean(
    values: ArrayLike,
    clusters: Labels,
    rounds: Labels | None = None,
    seed: int = 0,
    unit: str = "s",
    *,
    positive: bool = False,
) -> Estimate:
    """Return the mean of all values, with its interval over clusters; see `cluster_ratio` for `positive`."""
    array = np.asarray(values, dtype=float).ravel()
    return cluster_ratio(array, np.ones_like(array), clusters, rounds, seed, unit, positive=positive)


def cluster_ratio(
    numerators: ArrayLike,
    denominators: ArrayLike,
    clusters: Labels,
    rounds: Labels | None = None,
    seed: int = 0,
    unit: str = "",
    *,
    positive: bool = False,
) -> Estimate:
    """Return the ratio of the sums of `numerators` and `denominators`, with its interval over clusters.

    `positive` is for what is positive by nature: its interval is on the logarithmic scale, unless zeros leave it none.
    """
    (estimate,) = cluster_ratios([numerators], denominators, clusters, rounds, seed, unit, positive=positive)
    return estimate


def cluster_ratios(
    numerators: Sequence[ArrayLike],
    denominators: ArrayLike,
    clusters: Labels,
    rounds: Labels | None = None,
    seed: int = 0,
    unit: str = "",
    *,
    positive: bool = False,
    n: int | None = None,
    least: Sequence[float] | None = None,
) -> list[Estimate]:
    """Return several ratios over the same denominators, as `cluster_ratio` does, at the cost of hardly more than one.

    Where an entry stands for several values, `n` is how many values there are in all, and `least` is the least value in
    each of the numerators.
    """
    tops, bottom = [np.asarray(values, dtype=float).ravel() for values in numerators], np.asarray(denominators, float)
    bottom = bottom.ravel()
    for top in tops:
        if top.size != bottom.size:
            raise ValueError(f"a ratio needs as many denominators as numerators, got {bottom.size} and {top.size}")
    design, count = design_of(bottom.size, clusters, rounds), bottom.size if n is None else n
    whole = why_unusable(bottom) or ("the denominators add up to 0" if bottom.sum() == 0 else "")
    reasons = [why_unusable(top) or whole for top in tops]
    usable = [index for index, reason in enumerate(reasons) if not reason]
    drawn: dict[int, Replicates | None] = {}
    if usable and design.clusters > 1:
        tables = [sum_table(tops[index], design) for index in usable]
        drawn = dict(zip(usable, draw_ratios(tables, sum_table(bottom, design), design, seed, positive), strict=True))
    estimates = []
    for index, (top, reason) in enumerate(zip(tops, reasons, strict=True)):
        if reason:
            estimates.append(Estimate(None, n=count, unit=unit, note=reason))
            continue
        value, smallest = float(top.sum() / bottom.sum()), float(top.min()) if least is None else least[index]
        floor = 0.0 if min(smallest, bottom.min()) >= 0 else -math.inf
        estimates.append(_ratio_estimate(value, drawn.get(index), design, count, unit, floor))
    return estimates


def _ratio_estimate(
    value: float, drawn: Replicates | None, design: Design, n: int, unit: str, floor: float
) -> Estimate:
    """Return one ratio, with its interval where there are replicates; none of its values can be below the floor."""
    if drawn is None:
        return Estimate(value, n=n, unit=unit, note=_why_no_interval(design))
    below, above = _arms(math.log(value) if drawn.logarithmic else value, drawn)
    if drawn.logarithmic:
        if below + above > 2 * WIDEST:
            note = f"no interval: {design.clusters} independent samples differ too much for one"
            return Estimate(value, n=n, unit=unit, note=note)
        low, high = value * math.exp(-below), value * math.exp(above)
    else:
        low, high = max(floor, value - below), value + above  # widening must not leave the range of the ratio
    return Estimate(value, low, high, n, unit, _few_clusters_note(design), rough=is_rough(design.clusters))


def _arms(centre: float, drawn: Replicates) -> tuple[float, float]:
    """Return how far the percentile interval reaches below and above its centre, widened from normal to t.

    With few clusters it is too narrow, as normal intervals are.
    """
    low, high = np.quantile(drawn.ratios, (0.025, 0.975))
    spread = float(drawn.ratios.std())
    stretch = t_quantile(0.975, drawn.df) * math.sqrt(drawn.variance) / (_NORMAL * spread) if spread else 1.0
    return max(1.0, stretch) * float(centre - low), max(1.0, stretch) * float(high - centre)


def paired_ratio_difference(num_a: ArrayLike, num_b: ArrayLike, denominators: ArrayLike, seed: int = 0) -> Estimate:
    """Return the difference b - a of two ratios of sums over the same samples, with its paired bootstrap interval.

    Entry i of all three belongs to sample i. Both sides are drawn together, so that what is hard for both cancels.
    """
    a, b = (np.asarray(values, dtype=float).ravel() for values in (num_a, num_b))
    if a.size != b.size:
        raise ValueError(f"a paired difference needs the same samples, got {a.size} of a and {b.size} of b")
    return cluster_ratio(b - a, denominators, np.arange(a.size), seed=seed)


def paired_ratio_p_value(num_a: ArrayLike, num_b: ArrayLike, seed: int = 0) -> float | None:
    """Return the two-sided p value of a and b being equally good, by swapping the two at random within samples.

    The denominators are the same on both sides and cancel. None where there is no sample.
    """
    differences = np.asarray(num_b, dtype=float).ravel() - np.asarray(num_a, dtype=float).ravel()
    if why_unusable(differences):
        return None
    observed = abs(differences.sum()) * (1 - 1e-12)  # sums in another order may differ in the last digit
    generator = np.random.default_rng(seed)
    as_extreme, remaining = 0, _FLIPS
    while remaining:
        count = min(remaining, max(1, BLOCK // differences.size))
        swaps = generator.integers(0, 2, (count, differences.size), dtype=np.int8)
        as_extreme += int(np.count_nonzero(np.abs((2.0 * swaps - 1.0) @ differences) >= observed))
        remaining -= count
    return (1 + as_extreme) / (1 + _FLIPS)


def _up_to(array: Floats, value: float) -> NDArray[np.bool_]:
    """Return which values are up to the given one."""
    within = array <= value
    # Where the percentile is the largest value, the share up to it would be 1 in all replicates.
    return array < value if within.all() else within


def _nearest_ranks(array: Floats, ps: Sequence[float]) -> dict[float, float]:
    """Return the nearest ranks of values in any order."""
    places = [rank(p, array.size) - 1 for p in ps]
    return dict(zip(ps, order_statistics(array, places), strict=True))


def _effective_n(share: float, size: int, drawn: Replicates) -> int:
    """Return how many independent values show the share up to a percentile as uncertain as the replicates do."""
    if drawn.variance <= 0:
        return size
    effective = min(float(size), share * (1 - share) / drawn.variance)
    return int(effective * (_NORMAL / t_quantile(0.975, drawn.df)) ** 2)


def _interval_ends(array: Floats, sizes: Mapping[float, int]) -> dict[float, tuple[float, float]]:
    """Return the binomial intervals of percentiles, where so many effective values support them."""
    # Order statistic r of m values lies, on average, at the level r / (m + 1).
    levels = {
        p: tuple(place / (size + 1) for place in ranks)
        for p, size in sizes.items()
        if (ranks := quantile_ranks(size, p)) is not None
    }
    values_at = _nearest_ranks(array, [level for pair in levels.values() for level in pair])
    return {p: (values_at[low], values_at[high]) for p, (low, high) in levels.items()}


def _percentile(
    array: Floats,
    p: float,
    value: float | None,
    effective_n: int | None,
    ends: tuple[float, float] | None,
    design: Design,
    unit: str,
) -> Estimate:
    """Return one percentile, with its interval where there are enough clusters and values."""
    n = array.size
    if value is None:
        code = "too-few" if n < minimum_count(p) else ""
        return Estimate(None, n=n, unit=unit, note=why_unsupported(array, p), code=code)
    if effective_n is None:
        return Estimate(value, n=n, unit=unit, note=_why_no_interval(design))
    if ends is None:
        note = f"effective n {effective_n}; a P{100 * p:g} interval needs {minimum_count(p)}"
        return Estimate(value, n=n, unit=unit, note=note, effective_n=effective_n)
    return Estimate(value, *ends, n, unit, _few_clusters_note(design), rough=is_rough(design.clusters))


def _why_no_interval(design: Design) -> str:
    """Return why there are no replicates."""
    if design.clusters < 2:
        return "no interval: only 1 independent sample"
    return "no interval: too few samples have a denominator"


def _few_clusters_note(design: Design) -> str:
    """Return the note on an interval from few clusters, or ""."""
    return f"rough interval: only {design.clusters} independent samples" if is_rough(design.clusters) else ""
