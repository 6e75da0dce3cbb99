import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from stopwav.stats import median_interval, t_interval, t_quantile
from stopwav.stats.intervals import quantile_ranks, t_tail

PROBABILITIES = (1e-12, 1e-6, 0.001, 0.025, 0.3, 0.49, 0.5, 0.6, 0.9, 0.975, 0.9999)


@pytest.mark.parametrize("df", [0.3, 1, 1.5, 2, 3.7, 5, 9, 30, 39.99, 40.01, 100, 1e3, 1e5, 1e6])
def test_student_t_is_that_of_scipy(df):
    for prob in PROBABILITIES:
        theirs = float(scipy_stats.t.ppf(prob, df))
        assert t_quantile(prob, df) == pytest.approx(theirs, rel=1e-9, abs=1e-12)
        assert t_tail(theirs, df) == pytest.approx(float(scipy_stats.t.sf(theirs, df)), rel=1e-9)


def test_student_t_from_the_printed_tables():
    assert [round(t_quantile(0.975, df), 3) for df in (1, 2, 9, 30)] == [12.706, 4.303, 2.262, 2.042]
    assert t_quantile(0.975, math.inf) == pytest.approx(1.959963984540054, abs=1e-9)
    assert t_tail(math.inf, 3) == 0
    assert t_tail(-math.inf, 3) == 1


def test_tails_stay_exact_far_out():
    assert t_tail(40.0, 30) == pytest.approx(float(scipy_stats.t.sf(40.0, 30)), rel=1e-9)


@given(st.floats(-50, 50), st.floats(0.5, 1e4))
def test_the_tail_is_symmetric_and_inverted_by_the_quantile(t, df):
    assert t_tail(t, df) + t_tail(-t, df) == pytest.approx(1, abs=1e-12)
    prob = t_tail(-t, df)
    if 1e-9 < prob < 1 - 1e-6:
        assert t_quantile(prob, df) == pytest.approx(t, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize(
    ("prob", "df"), [(0, 3), (1, 3), (-0.1, 3), (math.nan, 3), (0.9, 0), (0.9, -1), (0.9, math.nan)]
)
def test_impossible_arguments_are_rejected(prob, df):
    with pytest.raises(ValueError):
        t_quantile(prob, df)


def test_t_interval_by_hand():
    # mean 3, s = sqrt(2.5), standard error sqrt(0.5), t(4) = 2.776
    mean, low, high = t_interval([1, 2, 3, 4, 5])
    assert mean == 3
    assert (low, high) == pytest.approx((3 - 2.776445 * math.sqrt(0.5), 3 + 2.776445 * math.sqrt(0.5)), abs=1e-6)
    with pytest.raises(ValueError, match="needs 2 values, got 1"):
        t_interval([1.0])


def test_t_interval_covers_at_its_level():
    generator = np.random.default_rng(0)
    samples = generator.normal(7.0, 2.0, (2000, 5))
    hits = sum(low <= 7.0 <= high for _, low, high in map(t_interval, samples))
    assert scipy_stats.binomtest(hits, 2000, 0.95).pvalue > 0.001


def test_median_interval_by_hand():
    # P(no value below the median) = 1/32 > 0.025 with 5 values and 1/64 with 6
    assert median_interval([3, 1, 2, 5, 4]) == (3, None, None)
    assert median_interval([6, 3, 1, 2, 5, 4]) == (3.5, 1, 6)
    # the textbook ranks of n = 100 are 40 and 61
    assert median_interval(range(1, 101)) == (50.5, 40, 61)
    with pytest.raises(ValueError, match="got none"):
        median_interval([])


@pytest.mark.parametrize("p", [0.5, 0.9, 0.95, 0.99, 0.1])
@pytest.mark.parametrize("n", [6, 10, 37, 72, 100, 368, 1000, 20_000])
def test_ranks_are_the_tightest_whose_tails_hold(n, p):
    ranks = quantile_ranks(n, p)
    binomial = scipy_stats.binom(n, p)
    if ranks is None:
        assert max(binomial.pmf(0), binomial.pmf(n)) > 0.025
        return
    low, high = ranks
    assert 1 <= low < high <= n
    assert binomial.cdf(low - 1) <= 0.025 + 1e-9 < binomial.cdf(low) + 1e-9
    assert binomial.sf(high - 1) <= 0.025 + 1e-9 < binomial.sf(high - 2) + 1e-9


def test_median_interval_covers_at_least_at_its_level_whatever_the_distribution():
    generator = np.random.default_rng(1)
    samples = generator.exponential(1.0, (2000, 12))
    hits = sum((low or 0) <= math.log(2) <= (high or 0) for _, low, high in map(median_interval, samples))
    assert hits / 2000 > 0.95
