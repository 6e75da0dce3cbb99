import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stopwav.stats import minimum_count, nearest_rank, percentile
from stopwav.stats.intervals import quantile_ranks

FINITE = st.floats(-1e6, 1e6)


def test_minimum_counts_are_those_of_the_method():
    assert [minimum_count(p) for p in (0.5, 0.9, 0.95, 0.99)] == [6, 36, 72, 368]


@pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999])
def test_the_interval_exists_from_the_minimum_count_on(p):
    least = minimum_count(p)
    assert quantile_ranks(least - 1, p) is None
    assert quantile_ranks(least, p) is not None


def test_nearest_rank_by_hand():
    assert nearest_rank([15, 20, 35, 40, 50], 0.05) == 15
    assert nearest_rank([15, 20, 35, 40, 50], 0.30) == 20
    assert nearest_rank([15, 20, 35, 40, 50], 0.40) == 20
    assert nearest_rank([50, 40, 15, 35, 20], 0.50) == 35
    assert nearest_rank([15, 20, 35, 40, 50], 1.00) == 50
    # 0.07 · 100 = 7.000000000000001 in floating point
    assert nearest_rank(range(1, 101), 0.07) == 7
    assert nearest_rank(range(1, 21), 0.95) == 19


@given(st.lists(FINITE, min_size=1, max_size=200), st.floats(0.001, 0.999))
def test_nearest_rank_is_one_of_the_values_and_the_first_that_suffices(values, p):
    chosen = nearest_rank(values, p)
    assert chosen in values
    assert sum(value <= chosen for value in values) >= p * len(values) - 1e-6
    assert sum(value < chosen for value in values) < p * len(values) + 1e-6


@pytest.mark.parametrize(("values", "p"), [([], 0.5), ([1.0], -0.1), ([1.0], 1.1)])
def test_nearest_rank_rejects_impossible_arguments(values, p):
    with pytest.raises(ValueError):
        nearest_rank(values, p)


def test_too_few_events_give_no_percentile_but_the_reason():
    estimate = percentile(range(31), 0.95)
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (None, None, None, 31)
    assert estimate.note == "needs 72 events, has 31"
    assert percentile([], 0.5).note == "needs 6 events, has 0"


def test_a_value_that_is_not_finite_spoils_the_percentile_openly():
    estimate = percentile([1.0] * 10 + [math.nan, math.inf], 0.5)
    assert (estimate.value, estimate.note) == (None, "2 of 12 values are not finite")


def test_percentile_by_hand():
    estimate = percentile(range(1, 101), 0.5, unit="ms")
    assert (estimate.value, estimate.low, estimate.high, estimate.n, estimate.unit) == (50, 40, 61, 100, "ms")
    assert percentile(range(1, 73), 0.95).high == 72  # at the minimum count the largest value is the upper end


@settings(max_examples=30)
@given(st.lists(FINITE, min_size=72, max_size=300), st.sampled_from([0.5, 0.9, 0.95]))
def test_the_interval_encloses_the_percentile(values, p):
    estimate = percentile(values, p)
    assert estimate.low <= estimate.value <= estimate.high


def test_coverage_is_at_least_nominal():
    generator = np.random.default_rng(2)
    truth = math.exp(1.6448536269514722)
    estimates = [percentile(generator.lognormal(0, 1, 150), 0.95) for _ in range(1500)]
    assert np.mean([estimate.low <= truth <= estimate.high for estimate in estimates]) > 0.94
