"""Ticks of axes: few, in order, and as far as the data."""

import math

import altair as alt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav.report.axis import TICK_COUNT, covering, log_ticks
from stopwav.report.chart import chart_of, spec_of

# What is measured: from nanoseconds to a trillion operations.
values = st.lists(st.floats(1e-9, 1e12), min_size=1, max_size=20)


@given(values)
def test_ticks_of_a_logarithmic_axis_reach_every_value_and_are_few(known: list[float]) -> None:
    ticks = log_ticks(known)
    assert ticks == sorted(set(ticks))
    assert ticks[0] > 0
    assert ticks[0] <= min(known)
    assert max(known) <= ticks[-1]
    decades = math.log10(max(known) / min(known))
    assert 2 <= len(ticks) <= max(14, decades + 3)


@pytest.mark.parametrize(
    ("known", "ticks"),
    [
        ([6.1, 8.5, 11, 17], [5, 7, 10, 15, 20]),
        ([1, 1000], [1, 10, 100, 1000]),
        ([0.146, 16], [0.1, 1, 10, 100]),
        ([20.01, 20.04], [20.01, 20.02, 20.03, 20.04]),
    ],
)
def test_ticks_are_those_a_reader_expects(known: list[float], ticks: list[float]) -> None:
    assert log_ticks(known) == ticks


def test_what_has_no_logarithm_has_no_tick() -> None:
    assert log_ticks([0.0, 1.0, 1000.0, -5.0]) == log_ticks([1.0, 1000.0])
    assert log_ticks([0.0]) == log_ticks([1.0])


def test_ticks_cover_a_range_from_below_to_above() -> None:
    assert covering([-1, 0, 1, 2, 5], 0.2, 1.3) == [0, 1, 2]
    assert covering([-1, 0, 1, 2, 5], -3, 9) == [-1, 0, 1, 2, 5]


def test_a_linear_axis_ends_at_its_ticks_and_a_settled_one_is_left_alone() -> None:
    rows = [{"x": 1.0, "y": 2.78e3}]
    log = alt.X("x:Q", scale=alt.Scale(type="log", domain=[1, 10]))
    base = chart_of(rows).mark_point().encode(x=log, y="y:Q")
    spec = spec_of(alt.layer(base), 100)
    (encoding,) = [layer["encoding"] for layer in spec["layer"]]
    assert encoding["y"]["scale"]["nice"] == encoding["y"]["axis"]["tickCount"] == TICK_COUNT
    assert "nice" not in encoding["x"]["scale"]
    asked = spec_of(alt.layer(base.encode(y=alt.Y("y:Q", axis=alt.Axis(tickCount=4)))), 100)
    assert asked["layer"][0]["encoding"]["y"]["scale"]["nice"] == 4
