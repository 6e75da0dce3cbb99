"""Cells that are implausible beside their neighbours: honest growth never is, a tenfold error always."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stopwav.stats import implausible_cells

DOUBLING = (1.0, 2.0, 4.0, 8.0, 16.0)
term = st.one_of(st.just(0.0), st.floats(1e-4, 10))


def row(*times):
    """A table of one row over 1, 2, 4, … seconds."""
    return {(2.0**index, 1.0): time for index, time in enumerate(times)}


@st.composite
def honest(draw, durations, sizes, stepped):
    """Times of c + a·x·y^p + b·x²·y with 10 % of noise and, where `stepped`, a step of up to 2 along each axis."""
    c, a, b, power = draw(term), draw(term), draw(term), draw(st.floats(0, 1))
    c = c or (1.0 if a == b == 0 else 0.0)
    steps = [(draw(st.sampled_from(axis)), draw(st.floats(1, 2)) if stepped else 1.0) for axis in (durations, sizes)]
    return {
        (x, y): (c + a * x * y**power + b * x * x * y)
        * draw(st.floats(0.9, 1.1))
        * math.prod(factor for place, (start, factor) in zip((x, y), steps, strict=True) if place >= start)
        for x in durations
        for y in sizes
    }


@settings(max_examples=60)
@given(
    st.lists(st.floats(0.5, 60), min_size=2, max_size=5, unique=True),
    st.sampled_from([(1.0,), (1.0, 2.0, 4.0), (1.0, 16.0)]),
    st.data(),
)
def test_honest_growth_with_noise_and_steps_is_never_implausible(durations, sizes, data):
    times = data.draw(honest(tuple(sorted(durations)), sizes, True))
    assert implausible_cells(times) == []
    # Nor where cells are missing.
    left = data.draw(st.sets(st.sampled_from(sorted(times))))
    assert implausible_cells({cell: times[cell] for cell in left}) == []


@settings(max_examples=60)
@given(st.sampled_from([DOUBLING, DOUBLING[:4]]), st.sampled_from([(1.0,), (1.0, 2.0, 4.0)]), st.data())
def test_a_tenfold_error_of_one_cell_is_always_found(durations, sizes, data):
    times = data.draw(honest(durations, sizes, False))
    cell = data.draw(st.sampled_from(sorted(times)))
    for factor in (10.0, 0.1):
        found = implausible_cells({**times, cell: factor * times[cell]})
        assert cell in found
        # Between cells that contradict each other there may be no telling, and all of them are measured again.
        assert len(found) <= 3


def test_the_cell_that_was_measured_while_something_else_ran():
    # RTFx 1.2 at 1 s, 57 at 2 s, and about as much above.
    assert implausible_cells(row(1 / 1.2, 2 / 57, 4 / 60, 8 / 62)) == [(1.0, 1.0)]


def test_a_constant_start_is_plausible_at_the_end_of_an_axis():
    assert implausible_cells(row(1.0, 1.0, 1.0, 1.1, 2.0, 8.0)) == []
    assert implausible_cells(row(1.0, 1.01)) == []


def test_neighbours_on_the_other_axis_tell_too():
    times = {(duration, size): 0.01 * size for duration in (1.0, 2.0) for size in (1.0, 2.0, 4.0, 8.0)}
    assert implausible_cells({**times, (2.0, 4.0): 0.4}) == [(2.0, 4.0)]


def test_two_cells_that_contradict_each_other_are_both_returned():
    assert implausible_cells(row(10.0, 1.0)) == [(1.0, 1.0), (2.0, 1.0)]


def test_several_wrong_cells_are_found_and_listed_in_the_order_of_the_table():
    times = {(x, y): 0.1 + 0.02 * x * y for x in reversed(DOUBLING) for y in (1.0, 2.0, 4.0)}
    wrong = {(16.0, 1.0): 20.0, (1.0, 2.0): 4.0, (4.0, 4.0): 0.02}
    assert implausible_cells({**times, **wrong}) == [cell for cell in times if cell in wrong]


@pytest.mark.parametrize("times", [{}, {(1.0, 1.0): 3.0}, {(1.0, 1.0): 3.0, (2.0, 2.0): 0.001}])
def test_cells_without_neighbours_are_plausible(times):
    assert implausible_cells(times) == []


@pytest.mark.parametrize("time", [0.0, -1.0, math.nan, math.inf])
def test_times_are_positive(time):
    with pytest.raises(ValueError, match="positive"):
        implausible_cells(row(1.0, time))
