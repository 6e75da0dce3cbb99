import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav.stats import median_interval, summarise_rounds

POSITIVE = st.floats(1e-6, 1e6)


def test_three_rounds_by_hand():
    # medians 1, e and e²: logs 0, 1, 2 with mean 1, s = 1, standard error 1/√3 and t(2) = 4.302653
    rounds = [[0.5, 1.0, 9.0], [math.e] * 3, [1.0, math.e**2, 50.0]]
    estimate = summarise_rounds(rounds)
    half = 4.302653 / math.sqrt(3)
    assert estimate.value == pytest.approx(math.e)
    assert estimate.low == pytest.approx(math.exp(1 - half), rel=1e-6)
    assert estimate.high == pytest.approx(math.exp(1 + half), rel=1e-6)
    assert (estimate.n, estimate.unit, estimate.note) == (9, "s", "")


def test_one_round_says_that_it_is_one_process():
    values = [float(value) for value in range(1, 21)]
    estimate = summarise_rounds([values], unit="ms")
    assert (estimate.value, estimate.low, estimate.high) == median_interval(values)
    assert (estimate.n, estimate.unit, estimate.note) == (20, "ms", "within one process")


def test_one_short_round_has_no_interval():
    estimate = summarise_rounds([[1.0, 2.0, 3.0]])
    assert (estimate.value, estimate.low, estimate.high) == (2.0, None, None)
    assert estimate.note == "within one process; no interval from 3 values"


def test_two_rounds_say_so_and_their_interval_includes_both_medians():
    estimate = summarise_rounds([[1.0] * 100, [4.0] * 10])
    assert estimate.value == pytest.approx(2.0)
    assert (estimate.low, estimate.high) == (1.0, 4.0)
    assert "two processes" in estimate.note


def test_medians_that_are_not_positive_do_without_logarithms():
    estimate = summarise_rounds([[0.0], [1.0], [2.0]])
    assert (estimate.value, estimate.low) == (1.0, None)
    assert "not all are positive" in estimate.note
    estimate = summarise_rounds([[float(value)] for value in (-3, -2, -1, 0, 1, 2)])
    assert (estimate.value, estimate.low, estimate.high) == (-0.5, -3, 2)


def test_nothing_and_nan():
    assert summarise_rounds([]).note == "no values"
    assert summarise_rounds([[], []]).value is None
    assert summarise_rounds([[1.0, math.nan], [1.0]]).note == "1 of 3 values are not finite"
    assert summarise_rounds([[1.0], [], [2.0]]).note.startswith("within two processes")


@given(st.lists(st.lists(POSITIVE, min_size=1, max_size=9), min_size=1, max_size=6), st.floats(0.01, 100))
def test_scaling_the_clock_scales_the_estimate(rounds, factor):
    plain = summarise_rounds(rounds)
    scaled = summarise_rounds([[value * factor for value in values] for values in rounds])
    assert scaled.value == pytest.approx(plain.value * factor, rel=1e-9)
    assert (plain.low is None) == (scaled.low is None)
    if plain.low is not None:
        assert plain.low <= plain.value * (1 + 1e-9)
        assert plain.value <= plain.high * (1 + 1e-9)
        assert (scaled.low, scaled.high) == pytest.approx((plain.low * factor, plain.high * factor), rel=1e-6)


def test_the_interval_over_rounds_covers_where_the_one_within_a_process_does_not():
    generator = np.random.default_rng(3)
    over_rounds = within = 0
    for _ in range(1000):
        rounds = np.exp(generator.normal(0, 0.03, (5, 1)) + generator.normal(0, 0.01, (5, 20)))
        estimate, single = summarise_rounds(list(rounds)), summarise_rounds([rounds[0]])
        over_rounds += estimate.low <= 1 <= estimate.high
        within += single.low <= 1 <= single.high
    print(f"coverage: t over 5 rounds {over_rounds / 10:.1f} %, within one process {within / 10:.1f} %")
    assert 930 <= over_rounds <= 970
    assert within < 300
