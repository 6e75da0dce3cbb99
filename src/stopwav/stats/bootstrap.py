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
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stopwav.stats.draws import BLOCK, REPLICATES, times_drawn
from stopwav.stats.estimate import Estimate, is_rough, why_unusable
from stopwav.stats.intervals import WIDEST, minimum_count, quantile_ranks, rank, t_quantile, why_unsupported

Labels = Sequence[int] | Sequence[str] | NDArray[np.int64]
Floats = NDArray[np.float64]

_FLIPS = 9999  # the smallest p value is then 0.0001, small enough for Holm over a table of metrics
_ROUNDS_TO_DRAW = 3  # two rounds give only four different draws
_NORMAL = t_quantile(0.975, math.inf)


@dataclass(frozen=True)
class _Design:
    """The cluster and round of each value, as numbers from 0."""

    cluster: NDArray[np.intp]
    round: NDArray[np.intp]
    clusters: int
    rounds: int


@dataclass(frozen=True)
class _Replicates:
    """The replicates of a ratio, its variance corrected for few clusters and rounds, and its degrees of freedom.

    Replicates and variance are of the logarithm where `logarithmic`.
    """

    ratios: Floats
    variance: float
    df: float
    logarithmic: bool


def cluster_percentiles(
    values: ArrayLike,
    clusters: Labels,
    ps: Sequence[float],
    rounds: Labels | None = None,
    seed: int = 0,
    unit: str = "s",
) -> dict[float, Estimate]:
    """Return the percentiles `ps` of all values by nearest rank, with intervals over clusters; no value with too few.

    The bootstrap shows how uncertain the share of values up to the percentile is, and hence the effective number of
    independent values (effective n); the interval is the binomial one of that many.
    """
    array = np.asarray(values, dtype=float).ravel()
    design = _design(array.size, clusters, rounds)
    values_at = _nearest_ranks(array, [p for p in ps if not why_unsupported(array, p)])
    within = {p: _up_to(array, value) for p, value in values_at.items()}
    drawn: dict[float, _Replicates | None] = dict.fromkeys(within)
    if within and design.clusters > 1:
        # The share of values up to the percentile: their number by cluster and round, and that of all.
        counts = [_table(up_to, design) for up_to in within.values()]
        drawn = dict(zip(within, _draw(counts, _table(np.ones(array.size, bool), design), design, seed), strict=True))
    sizes = {p: _effective_n(float(within[p].mean()), array.size, own) for p, own in drawn.items() if own is not None}
    ends = _interval_ends(array, sizes)
    return {p: _percentile(array, p, values_at.get(p), sizes.get(p), ends.get(p), design, unit) for p in ps}


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
    top, bottom = (np.asarray(values, dtype=float).ravel() for values in (numerators, denominators))
    if top.size != bottom.size:
        raise ValueError(f"a ratio needs as many denominators as numerators, got {bottom.size} and {top.size}")
    design = _design(top.size, clusters, rounds)
    reason = why_unusable(top) or why_unusable(bottom)
    if not reason and bottom.sum() == 0:
        reason = "the denominators add up to 0"
    if reason:
        return Estimate(None, n=top.size, unit=unit, note=reason)
    value = float(top.sum() / bottom.sum())
    drawn = None
    if design.clusters > 1:
        (drawn,) = _draw([_table(top, design)], _table(bottom, design), design, seed, positive)
    if drawn is None:
        return Estimate(value, n=top.size, unit=unit, note=_why_no_interval(design))
    below, above = _arms(math.log(value) if drawn.logarithmic else value, drawn)
    if drawn.logarithmic:
        if below + above > 2 * WIDEST:
            note = f"no interval: {design.clusters} independent samples differ too much for one"
            return Estimate(value, n=top.size, unit=unit, note=note)
        low, high = value * math.exp(-below), value * math.exp(above)
    else:
        low, high = value - below, value + above
        if top.min() >= 0 and bottom.min() >= 0:
            low = max(0.0, low)  # widening must not leave the range of the ratio
    rough = is_rough(design.clusters)
    return Estimate(value, low, high, top.size, unit, _few_clusters_note(design), rough=rough)


def _arms(centre: float, drawn: _Replicates) -> tuple[float, float]:
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
    """Return the nearest ranks of values in any order: a few of them take a quarter of the time of sorting."""
    if not ps:
        return {}
    places = [rank(p, array.size) - 1 for p in ps]
    ordered = np.partition(array, places)
    return {p: float(ordered[place]) for p, place in zip(ps, places, strict=True)}


def _effective_n(share: float, size: int, drawn: _Replicates) -> int:
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
    design: _Design,
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


def _design(n: int, clusters: Labels, rounds: Labels | None) -> _Design:
    """Return the design of `n` values; fewer rounds than can be drawn count as one."""
    cluster, cluster_count = _codes(clusters)
    by_round, round_count = (np.zeros(n, dtype=np.intp), 1) if rounds is None else _codes(rounds)
    if not n == cluster.size == by_round.size:
        raise ValueError(f"each of {n} values needs its labels, got {cluster.size} clusters and {by_round.size} rounds")
    if round_count < _ROUNDS_TO_DRAW:
        by_round, round_count = np.zeros(n, dtype=np.intp), 1
    return _Design(cluster, by_round, cluster_count, round_count)


def _codes(labels: Labels) -> tuple[NDArray[np.intp], int]:
    """Return the labels as numbers from 0 in order of appearance, and the number of different ones."""
    if isinstance(labels, np.ndarray) and labels.size:
        places = labels - labels.min()
        first = np.full(places.max() + 1, places.size)
        np.minimum.at(first, places, np.arange(places.size))
        return np.argsort(np.argsort(first))[places], int(np.count_nonzero(first < places.size))
    numbers: dict[int | str, int] = {}
    codes = np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.intp)
    return codes, len(numbers)


def _draw(
    tops: Sequence[Floats], bottom: Floats, design: _Design, seed: int, positive: bool = False
) -> list[_Replicates | None]:
    """Return the replicates of ratios of sums over one denominator, or of their logarithms.

    Numerators and denominator are tables by cluster and round. None where too few draws have a denominator.
    """
    # One product of matrices for all of them: a column per numerator and round, then those of the denominator.
    tables = np.concatenate([*tops, bottom], axis=1)
    drawn = times_drawn(seed, design.clusters, design.rounds)
    block = max(1, BLOCK // design.clusters)
    sums = np.concatenate(
        [drawn.clusters[start : start + block].astype(float) @ tables for start in range(0, REPLICATES, block)]
    )
    totals = tables.sum(axis=0)
    *by_top, by_bottom = np.split(sums, len(tops) + 1, axis=1)
    *top_totals, bottom_total = np.split(totals, len(tops) + 1)
    replicates = [
        np.stack(
            (
                _divide((top * drawn.rounds).sum(axis=1), (by_bottom * drawn.rounds).sum(axis=1)),
                _divide(top.sum(axis=1), by_bottom.sum(axis=1)),
                _divide(drawn.rounds @ top_total, drawn.rounds @ bottom_total),
            )
        )
        for top, top_total in zip(by_top, top_totals, strict=True)
    ]
    return [_replicates(ratios, design, positive) for ratios in replicates]


def _replicates(ratios: Floats, design: _Design, positive: bool) -> _Replicates | None:
    """Return the replicates of a ratio: with clusters and rounds drawn, clusters alone, and rounds alone."""
    logarithmic = positive and bool(np.nanmin(ratios, initial=math.inf) > 0)
    both, only_clusters, only_rounds = np.log(ratios) if logarithmic else ratios
    both = both[np.isfinite(both)]
    if both.size < REPLICATES // 2:
        return None
    # A bootstrap of k units shows (k - 1) / k of their variance, and an interval from k units has k - 1 degrees of
    # freedom; those of the sum follow from its parts (Satterthwaite).
    variances = [float(np.nanvar(only_clusters)) * design.clusters / (design.clusters - 1)]
    freedoms = [design.clusters - 1]
    if design.rounds > 1:
        variances.append(float(np.nanvar(only_rounds)) * design.rounds / (design.rounds - 1))
        freedoms.append(design.rounds - 1)
    variance = sum(variances)
    by_part = sum(part**2 / freedom for part, freedom in zip(variances, freedoms, strict=True))
    df = variance**2 / by_part if by_part > 0 else float(freedoms[0])
    return _Replicates(both, variance, df, logarithmic)


def _table(values: Floats | NDArray[np.bool_], design: _Design) -> Floats:
    """Return the sum of values, or the number of those that are true, by cluster and round."""
    places, count = design.cluster * design.rounds + design.round, design.clusters * design.rounds
    sums = np.bincount(places[values], None, count) if values.dtype == bool else np.bincount(places, values, count)
    return sums.astype(float).reshape(-1, design.rounds)


def _divide(top: Floats, bottom: Floats) -> Floats:
    """Return the ratios, NaN where the denominator is 0."""
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom != 0)


def _why_no_interval(design: _Design) -> str:
    """Return why there are no replicates."""
    if design.clusters < 2:
        return "no interval: only 1 independent sample"
    return "no interval: too few samples have a denominator"


def _few_clusters_note(design: _Design) -> str:
    """Return the note on an interval from few clusters, or ""."""
    return f"rough interval: only {design.clusters} independent samples" if is_rough(design.clusters) else ""
