import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav.stats import Estimate
from stopwav.stats.estimate import dominates, pareto_set


def test_json_has_exactly_the_seven_keys_of_a_metric():
    estimate = Estimate(0.5, 0.4, 0.6, 12, "s", "within one process")
    assert estimate.to_json() == {
        "value": 0.5,
        "low": 0.4,
        "high": 0.6,
        "n": 12,
        "unit": "s",
        "note": "within one process",
        "rough": False,
    }


def test_numpy_numbers_become_plain_ones():
    data = Estimate(np.float64(1.5), np.float32(1.0), np.float64(2.0), np.int64(3)).to_json()  # type: ignore[arg-type]
    assert [type(data[key]) for key in ("value", "low", "high", "n")] == [float, float, float, int]


@given(st.floats(), st.floats(), st.floats())
def test_nothing_that_is_not_finite_escapes(value, low, high):
    estimate = Estimate(value, low, high, 1, "s")
    json.dumps(estimate.to_json(), allow_nan=False)
    if not math.isfinite(value):
        assert estimate.value is estimate.low is estimate.high is None
    if not all(map(math.isfinite, (value, low, high))):
        assert estimate.note


def test_a_missing_value_keeps_its_reason():
    assert Estimate(None, note="needs 72 events, has 31").note == "needs 72 events, has 31"
    assert Estimate(math.nan, note="3 of 9 values are not finite").note == "3 of 9 values are not finite"
    assert Estimate(1.0, -math.inf, 2.0, note="x").note == "x; the interval is not finite"
    assert Estimate(None).note == "no value"


def test_an_estimate_cannot_be_changed():
    with pytest.raises(AttributeError):
        Estimate(1.0).value = 2.0  # type: ignore[misc]


def interval(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, low, high)


def exact(value: float) -> Estimate:
    return Estimate(value, value, value)


estimates = st.tuples(st.integers(0, 20), st.integers(0, 4)).map(lambda pair: interval(pair[0], pair[0] + pair[1]))
points = st.lists(st.tuples(estimates, estimates), max_size=8).map(
    lambda pairs: {f"p{index}": point for index, point in enumerate(pairs)}
)


@given(points)
def test_no_member_is_dominated_and_each_of_the_others_is_dominated_by_a_member(
    named: dict[str, tuple[Estimate, ...]],
) -> None:
    members = pareto_set(named)
    assert bool(members) == bool(named)
    for name, point in named.items():
        dominating = [other for other in members if dominates(named[other], point)]
        assert bool(dominating) == (name not in members)


@given(points)
def test_overlapping_intervals_have_no_winner(named: dict[str, tuple[Estimate, ...]]) -> None:
    for a in named.values():
        for b in named.values():
            # They overlap, and do not only touch: either may be the better one.
            if any(x.low < y.high and y.low < x.high for x, y in zip(a, b, strict=True)):  # type: ignore[operator]
                assert not dominates(a, b)
            assert not (dominates(a, b) and dominates(b, a))


def test_pareto_set_by_hand() -> None:
    engines = {
        "small and quick": (exact(10), interval(1, 2)),
        "small and slow": (exact(10), interval(3, 4)),
        "large and quicker": (exact(20), interval(0.1, 0.2)),
        "large and maybe quicker": (exact(20), interval(0.9, 1.5)),
        "large and slow": (exact(20), interval(5, 6)),
    }
    assert pareto_set(engines) == ["small and quick", "large and quicker"]


def test_equal_counts_dominate_nothing_and_a_value_without_an_interval_shows_nothing() -> None:
    assert pareto_set({"a": (exact(1), exact(2)), "b": (exact(1), exact(2))}) == ["a", "b"]
    assert pareto_set({"a": (exact(1), Estimate(1.0)), "b": (exact(2), interval(5, 6))}) == ["a", "b"]
    assert pareto_set({}) == []
