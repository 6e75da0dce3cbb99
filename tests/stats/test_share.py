"""Shares of independent events, against scipy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from stopwav.stats import binomial_share


@given(st.integers(1, 2000).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))))
def test_the_interval_is_wilsons_and_stays_between_0_and_1(counts: tuple[int, int]) -> None:
    count, total = counts
    share = binomial_share(count, total)
    reference = binomtest(count, total).proportion_ci(0.95, method="wilson")
    assert share.value == count / total
    assert (share.low, share.high) == pytest.approx((reference.low, reference.high), abs=1e-12)
    assert 0 <= share.low <= share.value <= share.high <= 1
    assert share.low < share.high


def test_none_of_a_hundred_is_not_known_to_be_none() -> None:
    share = binomial_share(0, 100)
    assert (share.low, share.high) == pytest.approx((0, 0.0370), abs=1e-4)


def test_without_events_there_is_no_share() -> None:
    assert binomial_share(0, 0).value is None
    with pytest.raises(ValueError, match="not 3"):
        binomial_share(3, 2)
