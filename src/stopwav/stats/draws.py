"""How often a bootstrap draws each unit: the same for all metrics of one design, and drawn once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

REPLICATES = 1000  # the ends of a 95 % interval then rest on 25 replicates each
BLOCK = 2_000_000  # draws in memory at a time: about 32 MB


@dataclass(frozen=True)
class Draws:
    """How often each cluster and each round is drawn, a row per replicate."""

    clusters: NDArray[np.uint8]  # no cluster is drawn 256 times: each is drawn once on average
    rounds: NDArray[np.float64]


# The metrics of a run have few designs, and large ones take as long to draw as all the rest.
@lru_cache(maxsize=3)
def times_drawn(seed: int, clusters: int, rounds: int) -> Draws:
    """Return the draws of all replicates, each of as many units as there are."""
    for_clusters, for_rounds = np.random.default_rng(seed).spawn(2)
    block = max(1, BLOCK // max(clusters, rounds))
    counts = [min(block, REPLICATES - start) for start in range(0, REPLICATES, block)]
    by_cluster = [_count_draws(for_clusters, count, clusters).astype(np.uint8) for count in counts]
    by_round = [_count_draws(for_rounds, count, rounds).astype(float) for count in counts]
    return Draws(np.concatenate(by_cluster), np.concatenate(by_round))


def _count_draws(generator: np.random.Generator, replicates: int, units: int) -> NDArray[np.intp]:
    """Return for each replicate how often each unit is drawn, in as many draws as there are units."""
    drawn = generator.integers(0, units, (replicates, units)) + units * np.arange(replicates)[:, None]
    return np.bincount(drawn.ravel(), minlength=replicates * units).reshape(replicates, units)
