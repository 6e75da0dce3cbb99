"""The replicates of ratios of sums: clusters and rounds drawn with replacement, for many ratios at a time.

Values come in groups of one cluster and round, such as the chunks of a stream. A replicate needs their sums by cluster
and round alone, however many values there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stopwav.stats.draws import REPLICATES, times_drawn

Labels = Sequence[int] | Sequence[str] | NDArray[np.int64]
Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

_ROUNDS_TO_DRAW = 3  # two rounds give only four different draws
# Groups whose values are counted at a time: those of an hour of chunks each would take 300 MB.
_BLOCK_GROUPS = 1024
# Clusters that are multiplied at a time: their draws as floats take 33 MB.
_BLOCK_CLUSTERS = 4096


@dataclass(frozen=True)
class Design:
    """The cluster and round of each group of values, as numbers from 0."""

    cluster: Integers
    round: Integers
    clusters: int
    rounds: int
    # How many values each group has, one at least, one group after the other; None where each is a group of its own.
    sizes: Integers | None = None


@dataclass(frozen=True)
class Replicates:
    """The replicates of a ratio, its variance corrected for few clusters and rounds, and its degrees of freedom.

    Replicates and variance are of the logarithm where `logarithmic`.
    """

    ratios: Floats
    variance: float
    df: float
    logarithmic: bool


def design_of(n: int, clusters: Labels, rounds: Labels | None, sizes: NDArray[np.int64] | None = None) -> Design:
    """Return the design of `n` values; fewer rounds than can be drawn count as one."""
    groups = n if sizes is None else sizes.size
    cluster, cluster_count = _codes(clusters)
    by_round, round_count = (np.zeros(groups, dtype=np.intp), 1) if rounds is None else _codes(rounds)
    if not groups == cluster.size == by_round.size or (sizes is not None and int(sizes.sum()) != n):
        raise ValueError(f"each of {n} values needs its labels, got {cluster.size} clusters and {by_round.size} rounds")
    if round_count < _ROUNDS_TO_DRAW:
        by_round, round_count = np.zeros(groups, dtype=np.intp), 1
    return Design(cluster, by_round, cluster_count, round_count, sizes)


def _codes(labels: Labels) -> tuple[Integers, int]:
    """Return the labels as numbers from 0 in order of appearance, and the number of different ones."""
    if isinstance(labels, np.ndarray) and labels.size:
        places = labels - labels.min()
        first = np.full(places.max() + 1, places.size)
        np.minimum.at(first, places, np.arange(places.size))
        return np.argsort(np.argsort(first))[places], int(np.count_nonzero(first < places.size))
    numbers: dict[int | str, int] = {}
    codes = np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.intp)
    return codes, len(numbers)


def sum_table(values: NDArray[np.generic], design: Design) -> Floats:
    """Return the sum of values, one of each group, by cluster and round."""
    places, count = design.cluster * design.rounds + design.round, design.clusters * design.rounds
    return np.bincount(places, values, count).astype(float).reshape(-1, design.rounds)


def count_table(chosen: NDArray[np.bool_] | None, design: Design) -> Floats:
    """Return the number of the values that are chosen, or of all, by cluster and round."""
    if chosen is not None:
        return sum_table(chosen if design.sizes is None else _counts(chosen, design.sizes), design)
    return sum_table(np.ones(design.cluster.size) if design.sizes is None else design.sizes, design)


def _counts(chosen: NDArray[np.bool_], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many values of each group are chosen."""
    firsts = np.cumsum(sizes) - sizes
    counts = [np.zeros(0, dtype=np.int64)]
    for start in range(0, sizes.size, _BLOCK_GROUPS):
        own = firsts[start : start + _BLOCK_GROUPS]
        end = own[-1] + sizes[start + own.size - 1]
        counts.append(np.add.reduceat(chosen[own[0] : end], own - own[0], dtype=np.int64))
    return np.concatenate(counts)


def draw_ratios(
    tops: Sequence[Floats], bottom: Floats, design: Design, seed: int, positive: bool = False
) -> list[Replicates | None]:
    """Return the replicates of ratios of sums over one denominator, or of their logarithms.

    Numerators and denominator are tables by cluster and round. None where too few draws have a denominator.
    """
    # One product of matrices for all of them: a column per numerator and round, then those of the denominator.
    tables = np.concatenate([*tops, bottom], axis=1)
    drawn = times_drawn(seed, design.clusters, design.rounds)
    sums = np.zeros((REPLICATES, tables.shape[1]))
    for start in range(0, design.clusters, _BLOCK_CLUSTERS):
        block = slice(start, start + _BLOCK_CLUSTERS)
        sums += drawn.clusters[:, block].astype(float) @ tables[block]
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


def _replicates(ratios: Floats, design: Design, positive: bool) -> Replicates | None:
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
    return Replicates(both, variance, df, logarithmic)


def _divide(top: Floats, bottom: Floats) -> Floats:
    """Return the ratios, NaN where the denominator is 0."""
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom != 0)
