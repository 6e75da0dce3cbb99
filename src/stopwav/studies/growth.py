"""How time grows with the size of the input: the fitted line, and its check against the farthest point.

Each fit is checked against the farthest point of its axis, by one that does not see it: the hardest test there is, and
chosen before any number is seen.
"""

from __future__ import annotations

from dataclasses import dataclass

from stopwav.stats import Estimate, Law, fit_law, t_quantile

_NOT_QUADRATIC = "not part of the law: the F test does not show it"
_TOO_FEW = "cannot be told: needs 4 cells on the axis"


@dataclass(frozen=True)
class Axis:
    """One row or column of the grid: the cells on it that were measured, by rising x, with their times in seconds."""

    name: str
    fixed: float
    x: tuple[float, ...]
    time_s: tuple[float, ...]

    def audio_s(self, x: float) -> float:
        """Seconds of audio in the batch at x."""
        return x * self.fixed


def coefficients(law: Law, axis: Axis) -> dict[str, Estimate]:
    """The terms of a law with their intervals, and the evidence for the quadratic one."""
    found = {}
    for power, name in enumerate(("law_constant", "law_linear", "law_quadratic")):
        if power >= len(law.chosen.coefficients):
            found[name] = Estimate(None, unit="s", note=_TOO_FEW if law.p_value is None else _NOT_QUADRATIC)
            continue
        value, low, high = law.chosen.coefficients[power], None, None
        if law.chosen.spread is not None:
            half = t_quantile(0.975, law.chosen.df) * float(law.chosen.covariance[power, power]) ** 0.5
            low, high = value - half, value + half
        found[name] = Estimate(value, low, high, len(axis.x), "s")
    found["law_quadratic_p"] = Estimate(law.p_value, n=len(axis.x), note="" if law.p_value is not None else _TOO_FEW)
    spread = law.chosen.spread
    found["law_spread"] = Estimate(spread, n=len(axis.x), note="" if spread is not None else "no cell left to tell")
    return found


def held_out(axis: Axis) -> dict[str, Estimate]:
    """What a fit without the farthest cell says of it, and by what share that is off."""
    *x, at = axis.x
    *time_s, measured_s = axis.time_s
    if len(x) < 2:
        none = "needs 3 cells on the axis"
        return {"held_out_time": Estimate(None, unit="s", note=none), "held_out_error": Estimate(None, note=none)}
    predicted = fit_law(x, time_s).predict(at)
    if predicted.value is None:
        none = f"the law without the cell at {at:g} falls below zero there; it took {measured_s:.4g} s"
        return {"held_out_time": Estimate(None, unit="s", note=none), "held_out_error": Estimate(None, note=none)}
    error = predicted.value / measured_s - 1
    note = f"prediction for {at:g} without that cell, which took {measured_s:.4g} s"
    held_out = Estimate(predicted.value, predicted.low, predicted.high, len(x), "s", note)
    return {"held_out_time": held_out, "held_out_error": Estimate(error, n=1)}
