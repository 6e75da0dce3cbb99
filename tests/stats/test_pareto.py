"""The Pareto set: what property it has for any points, and by hand for few."""

from hypothesis import given
from hypothesis import strategies as st
from stopwav.stats.pareto import dominates, pareto_set

from stopwav.stats import Estimate


def interval(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, low, high)


def exact(value: float) -> Estimate:
    return Estimate(value, value, value)


estimates = st.tuples(st.integers(0, 20), st.integers(0, 4)).map(lambda pair: interval(pair[0], pair[0] + pair[1]))
points = st.lists(st.tuples(estimates, estimates), max_size=8).map(
    lambda many: {f"p{index}": point for index, point in enumerate(many)}
)


@given(points)
def test_no_member_is_beaten_and_each_of_the_others_is_beaten_by_a_member(
    many: dict[str, tuple[Estimate, ...]],
) -> None:
    members = pareto_set(many)
    assert bool(members) == bool(many)
    for name, point in many.items():
        beaten = [other for other in members if dominates(many[other], point)]
        assert bool(beaten) == (name not in members)


@given(points)
def test_overlapping_intervals_have_no_winner(many: dict[str, tuple[Estimate, ...]]) -> None:
    for a in many.values():
        for b in many.values():
            # More than touching: somewhere the better one may be either.
            if any(one.low < other.high and other.low < one.high for one, other in zip(a, b, strict=True)):  # type: ignore[operator]
                assert not dominates(a, b)
            assert not (dominates(a, b) and dominates(b, a))


def test_by_hand() -> None:
    found = {
        "small and quick": (exact(10), interval(1, 2)),
        "small and slow": (exact(10), interval(3, 4)),
        "large and quicker": (exact(20), interval(0.1, 0.2)),
        "large and maybe quicker": (exact(20), interval(0.9, 1.5)),
        "large and slow": (exact(20), interval(5, 6)),
    }
    assert pareto_set(found) == ["small and quick", "large and quicker"]


def test_equal_counts_beat_nobody_and_a_value_without_an_interval_shows_nothing() -> None:
    assert pareto_set({"a": (exact(1), exact(2)), "b": (exact(1), exact(2))}) == ["a", "b"]
    assert pareto_set({"a": (exact(1), Estimate(1.0)), "b": (exact(2), interval(5, 6))}) == ["a", "b"]
    assert pareto_set({}) == []
