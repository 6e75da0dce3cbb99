"""Growth fits of known polynomials, against the fits of numpy and scipy, and under simulated noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from stopwav.stats import fit_growth

DURATIONS = (1.0, 2.0, 5.0, 8.0, 32.0)
term = st.floats(1e-3, 10)


@given(a=term, b=term, c=term)
def test_an_exact_quadratic_comes_back(a: float, b: float, c: float) -> None:
    fit = fit_growth(DURATIONS, [a + b * d + c * d * d for d in DURATIONS])
    assert fit.is_quadratic
    assert fit.chosen.coefficients == pytest.approx((a, b, c), rel=1e-5)
    assert fit.predict(64.0).value == pytest.approx(a + b * 64 + c * 64 * 64, rel=1e-6)


@given(a=term, b=term)
def test_an_exact_line_has_no_quadratic_term(a: float, b: float) -> None:
    fit = fit_growth(DURATIONS, [a + b * d for d in DURATIONS])
    assert fit.chosen.coefficients[:2] == pytest.approx((a, b), rel=1e-6)
    assert fit.predict(16.0).value == pytest.approx(a + b * 16, rel=1e-6)


def test_the_fit_is_that_of_relative_residuals() -> None:
    y = np.array([0.11, 0.19, 0.55, 0.78, 3.5])
    expected = np.polynomial.polynomial.polyfit(DURATIONS, y, 2, w=1 / y)
    fit = fit_growth(DURATIONS, y)
    assert fit.quadratic is not None
    assert fit.quadratic.coefficients == pytest.approx(expected, rel=1e-9)


def test_the_p_value_is_that_of_the_f_test() -> None:
    x, y = np.array(DURATIONS), np.array([0.11, 0.19, 0.55, 0.78, 3.9])

    def squares(degree: int) -> float:
        fitted = np.polynomial.polynomial.polyval(x, np.polynomial.polynomial.polyfit(x, y, degree, w=1 / y))
        return float((((fitted - y) / y) ** 2).sum())

    f = (squares(1) - squares(2)) / (squares(2) / 2)
    assert fit_growth(x, y).p_value == pytest.approx(reference.f.sf(f, 1, 2), rel=1e-9)


def test_too_few_points_say_so() -> None:
    three = fit_growth([1, 2, 4], [1.0, 2.1, 4.0])
    assert three.p_value is None
    assert three.predict(3).low is not None
    for x in ([1, 2], [1, 2, 2]):
        with pytest.raises(ValueError, match="three different x and a y for each, got 2"):
            fit_growth(x, [1.0] * len(x))
    with pytest.raises(ValueError, match="positive"):
        fit_growth([1, 2, 3], [1.0, 2.0, 0.0])


def test_a_prediction_outside_the_measured_range_says_so() -> None:
    fit = fit_growth(DURATIONS, [0.1 + 0.1 * d for d in DURATIONS])
    assert fit.predict(20).note == "prediction"
    assert "outside the measured range (1 to 32)" in fit.predict(60).note


def test_intervals_and_evidence_have_their_nominal_level() -> None:
    """3 % of noise on a line: a new point is in its interval 95 times in 100, and 5 lines in 100 look quadratic."""
    draw = np.random.default_rng(1)
    x = np.array([1.0, 2, 4, 8, 16, 32])
    truth = 0.02 + 0.05 * x
    inside = quadratic = 0
    times = 1000
    for _ in range(times):
        fit = fit_growth(x, truth * np.exp(draw.normal(0, 0.03, x.size)))
        quadratic += fit.is_quadratic
        new = (0.02 + 0.05 * 48) * np.exp(draw.normal(0, 0.03))
        prediction = fit.predict(48)
        assert prediction.low is not None
        assert prediction.high is not None
        inside += prediction.low <= new <= prediction.high
    assert quadratic / times == pytest.approx(0.05, abs=0.025)
    # The interval covers both fits, so it may be too wide, never too narrow.
    assert inside / times >= 0.93


@pytest.mark.parametrize("square", [-0.00012, 0.0])
def test_a_fit_that_falls_below_zero_predicts_nothing_there(square: float) -> None:
    start = 0.02 if square else -0.0049
    fit = fit_growth(DURATIONS, [start + 0.005 * d + square * d**2 for d in DURATIONS])
    at = 100 if square else 0.5
    assert fit.predict(at).value is None
    assert "falls below zero there; measure it" in fit.predict(at).note
    assert fit.predict(16).value == pytest.approx(start + 0.08 + 256 * square)
