"""Values in groups of one label, and several ratios at a time: the same numbers as value by value, one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav.stats import Estimate, cluster_mean, cluster_percentiles, cluster_ratio, cluster_ratios

# Sizes of groups, each with its cluster and round.
GROUPS = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 5), st.integers(0, 3)), min_size=8, max_size=40)


def close(one: Estimate, other: Estimate) -> bool:
    numbers = [(getattr(one, name), getattr(other, name)) for name in ("value", "low", "high")]
    same = all(a == b if a is None or b is None else a == pytest.approx(b, rel=1e-9, abs=1e-12) for a, b in numbers)
    return same and (one.n, one.note, one.rough) == (other.n, other.note, other.rough)


@given(GROUPS, st.integers(0, 9))
def test_percentiles_of_groups_are_those_of_their_values(groups: list[tuple[int, int, int]], seed: int) -> None:
    sizes, clusters, rounds = (np.array(column) for column in zip(*groups, strict=True))
    values = np.random.default_rng(seed).integers(0, 30, int(sizes.sum())) / 8
    grouped = cluster_percentiles(values, clusters, (0.5, 0.9), rounds, seed, sizes=sizes)
    labels = np.repeat(clusters, sizes), np.repeat(rounds, sizes)
    assert grouped == cluster_percentiles(values, labels[0], (0.5, 0.9), labels[1], seed)


def test_sizes_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ValueError, match="each of 5 values needs its labels"):
        cluster_percentiles(np.ones(5), np.arange(2), (0.5,), sizes=np.array([2, 2]))


@given(GROUPS, st.integers(0, 9))
def test_the_mean_of_sums_is_that_of_the_values(groups: list[tuple[int, int, int]], seed: int) -> None:
    sizes, clusters, rounds = (np.array(column) for column in zip(*groups, strict=True))
    values = np.random.default_rng(seed).normal(0.3, 1.0, int(sizes.sum()))
    sums = np.add.reduceat(values, np.cumsum(sizes) - sizes)
    labels = np.repeat(clusters, sizes), np.repeat(rounds, sizes)
    expected = cluster_mean(values, labels[0], labels[1], seed)
    (mean,) = cluster_ratios([sums], sizes, clusters, rounds, seed, "s", n=values.size, least=[values.min()])
    assert close(mean, expected)


@given(GROUPS, st.integers(0, 9))
def test_several_ratios_are_as_each_by_itself(groups: list[tuple[int, int, int]], seed: int) -> None:
    sizes, clusters, rounds = (np.array(column) for column in zip(*groups, strict=True))
    random = np.random.default_rng(seed)
    tops = [
        random.random(sizes.size),
        random.normal(size=sizes.size),
        np.zeros(sizes.size),
        np.full(sizes.size, np.nan),
    ]
    together = cluster_ratios(tops, sizes, clusters, rounds, seed)
    each = [cluster_ratio(top, sizes, clusters, rounds, seed) for top in tops]
    assert all(close(a, b) for a, b in zip(together, each, strict=True))


def test_an_interval_of_values_that_are_never_negative_does_not_begin_below_zero() -> None:
    clusters, sizes = np.arange(6), np.full(6, 2)
    # Each group has a positive sum; with a value below zero in it, so may be the mean.
    sums = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 6.0])
    bounded, free = (cluster_ratios([sums], sizes, clusters, n=12, least=[least])[0] for least in (0.0, -1.0))
    assert bounded.low == 0.0
    assert free.low is not None
    assert free.low < 0.0
    assert bounded.high == free.high
