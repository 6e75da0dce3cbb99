"""The growth fit of times along one axis: y ≈ a + b·x, with c·x² where the data show it, and its predictions.

Points are weighted by 1/y²: noise is proportional to the time, so a point of 1 ms counts as much as one of 10 s. For
the same reason the interval of a prediction is on the logarithmic scale, and never reaches 0.
A point summarises its rounds; they are not points of their own, since all miss the fitted line by the same amount.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stopwav.stats.estimate import Estimate, is_rough
from stopwav.stats.intervals import WIDEST, t_quantile, t_tail

# The quadratic term is kept where chance alone would make one as large less often than this.
SIGNIFICANCE = 0.05
# A line goes through any two points, whatever they are: only a third can disagree with it.
FEWEST_POINTS = 3
# Relative residuals below this are rounding of double precision, not spread.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Polynomial:
    """A fitted polynomial: its coefficients from the constant on, their covariance, and the spread of the residuals.

    `spread` is the residual standard deviation relative to the fitted value.
    """

    coefficients: tuple[float, ...]
    covariance: NDArray[np.float64]
    spread: float
    df: int

    def __call__(self, x: float) -> float:
        """Return the value of the polynomial at x."""
        return float(sum(coefficient * x**power for power, coefficient in enumerate(self.coefficients)))

    def predict(self, x: float) -> tuple[float, float | None, float | None]:
        """Return the value at x and the ends of the 95 % interval of a new measurement there.

        There are no ends where the value is not positive, or they are too far apart.
        """
        value = self(x)
        if value <= 0:
            return value, None, None
        powers = float(x) ** np.arange(len(self.coefficients))
        variance = (self.spread * value) ** 2 + float(powers @ self.covariance @ powers)
        half = t_quantile(0.975, self.df) * math.sqrt(max(0.0, variance)) / value
        if half > WIDEST:
            return value, None, None
        return value, value * math.exp(-half), value * math.exp(half)


@dataclass(frozen=True)
class GrowthFit:
    """The chosen fit of one axis, the quadratic fit where the points allow one, and the evidence for it.

    `p_value` is that of the F test of the quadratic term, given the linear one; None where there are too few points.
    """

    chosen: Polynomial
    quadratic: Polynomial | None
    p_value: float | None
    low_x: float
    high_x: float

    @property
    def is_quadratic(self) -> bool:
        """Whether the chosen fit has a quadratic term."""
        return len(self.chosen.coefficients) == 3

    def predict(self, x: float, unit: str = "s") -> Estimate:
        """Return the prediction at x; where a quadratic term cannot be excluded, its interval covers that fit too.

        Where the fitted line is at zero or below there is no prediction.
        """
        value, low, high = self.chosen.predict(x)
        outside = "" if self.low_x <= x <= self.high_x else f", outside the measured range ({self._range})"
        note = f"prediction{outside}"
        if value <= 0:
            return Estimate(None, unit=unit, note=f"no {note}: the fitted line falls below zero there; measure it")
        ends = [(low, high)]
        if self.quadratic is not None and not self.is_quadratic:
            ends.append(self.quadratic.predict(x)[1:])
        lows, highs = ([end for end in column if end is not None] for column in zip(*ends, strict=True))
        if len(lows) < len(ends):
            return Estimate(value, unit=unit, note=f"{note}; no interval: too uncertain there; measure it")
        return Estimate(value, min(lows), max(highs), unit=unit, note=note, rough=self.rough)

    @property
    def rough(self) -> bool:
        """Whether its intervals rest on few points."""
        return is_rough(self.chosen.df + len(self.chosen.coefficients))

    @property
    def _range(self) -> str:
        return f"{self.low_x:g} to {self.high_x:g}"


def fit_growth(x: ArrayLike, y: ArrayLike) -> GrowthFit:
    """Fit points with positive y: by a parabola where the F test shows a quadratic term, otherwise by a line.

    A fit takes at least three points, a quadratic term four.
    """
    positions, times = np.asarray(x, dtype=float).ravel(), np.asarray(y, dtype=float).ravel()
    different = np.unique(positions).size
    if different < FEWEST_POINTS or positions.size != times.size:
        raise ValueError(f"a growth fit needs three different x and a y for each, got {different} and {times.size}")
    if not (np.isfinite(times).all() and times.min() > 0):
        raise ValueError("a growth fit needs positive times")
    linear = _fit(positions, times, 1)
    ends = float(positions.min()), float(positions.max())
    if different < FEWEST_POINTS + 1:
        return GrowthFit(linear, None, None, *ends)
    quadratic = _fit(positions, times, 2)
    p_value = _p_value(quadratic)
    return GrowthFit(quadratic if p_value < SIGNIFICANCE else linear, quadratic, p_value, *ends)


def _fit(x: NDArray[np.float64], y: NDArray[np.float64], degree: int) -> Polynomial:
    """Return the weighted least-squares polynomial."""
    # Columns of about equal size: 32² next to 1 would cost digits.
    scale = float(np.abs(x).max()) or 1.0
    powers = np.vander(x / scale, degree + 1, increasing=True)
    weighted = powers / y[:, None]
    solution, *_ = np.linalg.lstsq(weighted, np.ones_like(y), rcond=None)
    df = y.size - degree - 1
    sizes = scale ** -np.arange(degree + 1.0)
    residuals = weighted @ solution - 1.0
    spread = math.sqrt(float(residuals @ residuals) / df)
    if spread < _ROUNDING:
        spread = 0.0
    inverse = np.linalg.pinv(weighted.T @ weighted) * spread**2
    return Polynomial(tuple(float(c) for c in solution * sizes), inverse * np.outer(sizes, sizes), spread, df)


def _p_value(quadratic: Polynomial) -> float:
    """Return the p value of the quadratic term: F with 1 and df degrees of freedom is the square of Student's t."""
    error = math.sqrt(float(quadratic.covariance[2, 2]))
    term = quadratic.coefficients[2]
    size = abs(term) / max(map(abs, quadratic.coefficients)) if term else 0.0
    if error == 0:
        return 0.0 if size > _ROUNDING else 1.0
    return 2 * t_tail(abs(term) / error, quadratic.df)
