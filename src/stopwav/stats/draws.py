"""How often a bootstrap draws each unit: the same for all metrics of one design, and drawn once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

REPLICATES = 1000  # the ends of a 95 % interval then rest on 25 replicates each
BLOCK = 2_000_000  # draws in memory at a time: about 32 MB
MOST_KEPT = 120_000  # clusters whose draws are kept, of one design or several: 120 MB


@dataclass(frozen=True)
class Draws:
    """How often each cluster and each round is drawn, a row per replicate."""

    clusters: NDArray[np.uint8]  # no cluster is drawn 256 times: each is drawn once on average
    rounds: NDArray[np.float64]


# By seed, clusters and rounds. The metrics of a run have few designs, and to draw takes as long as all the rest.
_DRAWN: dict[tuple[int, int, int], Draws] = {}


def times_drawn(seed: int, clusters: int, rounds: int) -> Draws:
    """Return the draws of all replicates, each of as many units as there are."""
    key = (seed, clusters, rounds)
    if key not in _DRAWN:
        # Room is made first.
        while _DRAWN and clusters + sum(kept for _, kept, _ in _DRAWN) > MOST_KEPT:
            del _DRAWN[next(iter(_DRAWN))]
        _DRAWN[key] = _draw(*key)
    return _DRAWN[key]


def _draw(seed: int, clusters: int, rounds: int) -> Draws:
    for_clusters, for_rounds = np.random.default_rng(seed).spawn(2)
    by_cluster = np.empty((REPLICATES, clusters), dtype=np.uint8)
    by_round = np.empty((REPLICATES, rounds))
    block = max(1, BLOCK // max(clusters, rounds))
    for start in range(0, REPLICATES, block):
        count = min(block, REPLICATES - start)
        by_cluster[start : start + count] = _count_draws(for_clusters, count, clusters)
        by_round[start : start + count] = _count_draws(for_rounds, count, rounds)
    return Draws(by_cluster, by_round)


def _count_draws(generator: np.random.Generator, replicates: int, units: int) -> NDArray[np.intp]:
    """Return for each replicate how often each unit is drawn, in as many draws as there are units."""
    drawn = generator.integers(0, units, (replicates, units)) + units * np.arange(replicates)[:, None]
    return np.bincount(drawn.ravel(), minlength=replicates * units).reshape(replicates, units)
