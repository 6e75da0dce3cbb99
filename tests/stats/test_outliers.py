"""Outliers by Tukey's fences and the chart of individual values, against numbers worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav.stats import Outliers, classify_outliers, control_chart


def test_fences_by_hand():
    # quartiles 2 and 6, range 4: fences at -4, 12 (mild) and -10, 18 (severe)
    values = [-11, -10, -5, -4, *[2] * 10, *[4] * 10, *[6] * 10, 12, 13, 18, 19, 100]
    assert classify_outliers(values) == Outliers(low_severe=1, low_mild=2, high_mild=2, high_severe=2, n=39)
    assert classify_outliers(values).count == 7


def test_degenerate_input():
    assert classify_outliers([]) == Outliers(0, 0, 0, 0, 0)
    assert classify_outliers([5.0]) == Outliers(0, 0, 0, 0, 1)
    assert classify_outliers([math.nan] * 3) == Outliers(0, 0, 0, 0, 3)
    assert classify_outliers([1, 1, 1, 1, 1, 1, 2]).high_severe == 1
    assert classify_outliers([1, 2, 3, 4, math.inf]).high_severe == 1


@given(st.lists(st.floats(-1e6, 1e6), max_size=100))
def test_mirrored_values_mirror_the_counts(values):
    plain, mirrored = classify_outliers(values), classify_outliers([-value for value in values])
    assert plain.n == len(values) >= plain.count
    if len(set(values)) > 3:
        assert abs(plain.count - mirrored.count) <= 2  # a value within rounding of a fence may change sides


def test_the_limit_is_the_mean_and_2_66_mean_moving_ranges() -> None:
    # Mean: 57 / 5 = 11.4. Moving ranges: 2, 1, 1, 0, their mean 1.0. Limit: 11.4 + 2.66 · 1.0 = 14.06.
    chart = control_chart([[10.0, 12.0, 11.0, 12.0, 12.0]])
    assert chart.moving_range == pytest.approx((2 + 1 + 1 + 0) / 4)
    assert chart.limit == pytest.approx(14.06)
    assert chart.above == ()
    assert "from 5 values" in chart.note


def test_a_slow_value_is_above_the_limit_and_named_by_its_position() -> None:
    values = [10.0, 11.0] * 12 + [30.0] + [10.0, 11.0] * 12
    # 49 values: 48 of mean 10.5 and one of 30. Ranges: 46 of 1 among neighbours, then 19 up and 20 down.
    chart = control_chart([values])
    assert chart.mean == pytest.approx((48 * 10.5 + 30) / 49)
    assert chart.moving_range == pytest.approx((46 * 1 + 19 + 20) / 48)
    assert chart.limit == pytest.approx(10.8979592 + 2.66 * 1.7708333, abs=1e-6)
    assert chart.above == (24,)
    assert chart.note == ""


def test_neighbours_in_two_groups_make_no_range() -> None:
    chart = control_chart([[1.0, 2.0], [101.0, 102.0]])
    assert chart.moving_range == pytest.approx(1.0)
    assert chart.limit == pytest.approx(51.5 + 2.66)
    assert chart.above == (2, 3)


@pytest.mark.parametrize("groups", [[], [[]], [[1.0]], [[1.0], [2.0]], [[1.0, math.nan]], [[math.inf, 1.0]]])
def test_no_limit_without_neighbours_or_with_broken_values(groups: list[list[float]]) -> None:
    chart = control_chart(groups)
    assert chart.limit is None
    assert chart.above == ()
    assert chart.note


@given(st.lists(st.floats(0, 1e3), min_size=2, max_size=40), st.floats(0.5, 10), st.floats(0, 100))
def test_the_limit_moves_with_the_values(values: list[float], scale: float, shift: float) -> None:
    plain, moved = control_chart([values]), control_chart([[scale * value + shift for value in values]])
    assert plain.limit is not None
    assert moved.limit == pytest.approx(scale * plain.limit + shift, abs=1e-6)
