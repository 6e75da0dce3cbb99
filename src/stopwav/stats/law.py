"""The law that times follow along one axis: y ≈ a + b·x, or with c·x² where the data show it, and what it predicts.

Points are weighted by 1/y²: what varies about a time is a share of it, so a cell of 1 ms counts as much as one of 10 s.
Each point is one cell, not one of its rounds: rounds of a cell all miss the law by the same amount.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stopwav.stats.estimate import Estimate
from stopwav.stats.intervals import t_quantile, t_tail

# The quadratic term is taken for real where chance alone would make one as large less often than this.
SIGNIFICANCE = 0.05
# Relative residuals below this are rounding of double precision, not spread.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Polynomial:
    """A polynomial through points: coefficients from the constant on, their covariance, and what the points miss it by.

    `spread` is the residual standard deviation relative to the fitted value; None where no point is left to tell.
    """

    coefficients: tuple[float, ...]
    covariance: NDArray[np.float64]
    spread: float | None
    df: int

    def __call__(self, x: float) -> float:
        """The value of the polynomial."""
        return float(sum(coefficient * x**power for power, coefficient in enumerate(self.coefficients)))

    def predict(self, x: float) -> tuple[float, float | None, float | None]:
        """The value at x, and the ends of the 95 % interval in which a new measurement there would lie."""
        value = self(x)
        if self.spread is None:
            return value, None, None
        powers = float(x) ** np.arange(len(self.coefficients))
        variance = (self.spread * value) ** 2 + float(powers @ self.covariance @ powers)
        half = t_quantile(0.975, self.df) * math.sqrt(max(0.0, variance))
        return value, value - half, value + half


@dataclass(frozen=True)
class Law:
    """The law of one axis: the one that is chosen, the quadratic one where it could be fitted, and the evidence for it.

    `p_value` is that of the F test of the quadratic term, given the linear one; None where there are too few points.
    """

    chosen: Polynomial
    quadratic: Polynomial | None
    p_value: float | None
    low_x: float
    high_x: float

    @property
    def is_quadratic(self) -> bool:
        """Whether the chosen law has a quadratic term."""
        return len(self.chosen.coefficients) == 3

    def predict(self, x: float, unit: str = "s") -> Estimate:
        """What the law predicts at x; its interval covers the quadratic law too, where that cannot be excluded.

        Where it falls to zero and below it predicts nothing.
        """
        value, low, high = self.chosen.predict(x)
        outside = "" if self.low_x <= x <= self.high_x else f", beyond what was measured ({self._range})"
        note = f"prediction{outside}"
        if value <= 0:
            return Estimate(None, unit=unit, note=f"no {note}: the law falls below zero there; measure it")
        if low is None or high is None:
            return Estimate(value, unit=unit, note=f"{note}; no interval: as many coefficients as cells")
        if self.quadratic is not None and not self.is_quadratic:
            _, other_low, other_high = self.quadratic.predict(x)
            if other_low is not None and other_high is not None:
                low, high = min(low, other_low), max(high, other_high)
        # No time is below zero, whatever a straight line says.
        return Estimate(value, max(0.0, low), high, unit=unit, note=note)

    @property
    def _range(self) -> str:
        return f"{self.low_x:g} to {self.high_x:g}"


def fit_law(x: ArrayLike, y: ArrayLike) -> Law:
    """The law through points with positive y: quadratic where the F test shows that it must be, otherwise linear.

    Two points have a line and no interval; three have an interval; four are the fewest that can show a quadratic term.
    """
    across, along = np.asarray(x, dtype=float).ravel(), np.asarray(y, dtype=float).ravel()
    if np.unique(across).size < 2 or across.size != along.size:
        raise ValueError(f"a law needs two different x and a y for each, got {across.size} and {along.size}")
    if not (np.isfinite(along).all() and along.min() > 0):
        raise ValueError("a law of times needs positive ones")
    linear = _fit(across, along, 1)
    ends = float(across.min()), float(across.max())
    if np.unique(across).size < 4:
        return Law(linear, None, None, *ends)
    quadratic = _fit(across, along, 2)
    p_value = _p_value(quadratic)
    return Law(quadratic if p_value < SIGNIFICANCE else linear, quadratic, p_value, *ends)


def _fit(x: NDArray[np.float64], y: NDArray[np.float64], degree: int) -> Polynomial:
    """The weighted least-squares polynomial."""
    # Columns of about equal size: 32² beside 1 would cost digits.
    scale = float(np.abs(x).max()) or 1.0
    powers = np.vander(x / scale, degree + 1, increasing=True)
    weighted = powers / y[:, None]
    solution, *_ = np.linalg.lstsq(weighted, np.ones_like(y), rcond=None)
    df = y.size - degree - 1
    sizes = scale ** -np.arange(degree + 1.0)
    residuals = weighted @ solution - 1.0
    spread = math.sqrt(float(residuals @ residuals) / df) if df > 0 else None
    if spread is not None and spread < _ROUNDING:
        spread = 0.0
    inverse = np.linalg.pinv(weighted.T @ weighted) * (spread or 0.0) ** 2
    return Polynomial(tuple(float(c) for c in solution * sizes), inverse * np.outer(sizes, sizes), spread, df)


def _p_value(quadratic: Polynomial) -> float:
    """The p value of the quadratic term: F with 1 and df degrees of freedom is the square of Student's t."""
    error = math.sqrt(float(quadratic.covariance[2, 2]))
    term = quadratic.coefficients[2]
    size = abs(term) / max(map(abs, quadratic.coefficients)) if term else 0.0
    if error == 0:
        return 0.0 if size > _ROUNDING else 1.0
    return 2 * t_tail(abs(term) / error, quadratic.df)
