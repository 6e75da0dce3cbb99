"""How time grows with the size of the input: the fitted line, and its check against the farthest point.

Each fit is checked against the farthest point of its axis, by one that does not see it: the hardest test there is, and
chosen before any number is seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stopwav.record import Result
from stopwav.report.text import ROUGH, format_digits
from stopwav.stats import FEWEST_POINTS, Estimate, GrowthFit, fit_growth, t_quantile
from stopwav.studies.definition import ratio, seconds

# Points of a fitted curve: smooth on any screen.
CURVE_POINTS = 60
_NOT_QUADRATIC = "not part of the fit: the F test does not show it"
_TOO_FEW = "needs 4 points on the axis"


@dataclass(frozen=True)
class Axis:
    """The points of one axis that were measured, by rising x, with their times in seconds."""

    name: str
    fixed: float
    x: tuple[float, ...]
    time_s: tuple[float, ...]

    def audio_s(self, x: float) -> float:
        """Seconds of audio in the batch at x."""
        return x * self.fixed


def coefficients(fit: GrowthFit, axis: Axis) -> dict[str, Estimate]:
    """Return the terms of a fit with their intervals, and the evidence for the quadratic one."""
    metrics = {}
    for power, name in enumerate(("law_constant", "law_linear", "law_quadratic")):
        if power >= len(fit.chosen.coefficients):
            metrics[name] = Estimate(None, unit="s", note=_TOO_FEW if fit.p_value is None else _NOT_QUADRATIC)
            continue
        value = fit.chosen.coefficients[power]
        half = t_quantile(0.975, fit.chosen.df) * float(fit.chosen.covariance[power, power]) ** 0.5
        metrics[name] = Estimate(value, value - half, value + half, len(axis.x), "s", rough=fit.rough)
    metrics["law_quadratic_p"] = Estimate(fit.p_value, n=len(axis.x), note="" if fit.p_value is not None else _TOO_FEW)
    metrics["law_spread"] = Estimate(fit.chosen.spread, n=len(axis.x))
    return metrics


def held_out(axis: Axis) -> dict[str, Estimate]:
    """Return what a fit without the farthest point predicts for it, and its relative error."""
    *x, at = axis.x
    *time_s, measured_s = axis.time_s
    if len(x) < FEWEST_POINTS:
        return _not_held_out(_TOO_FEW)
    predicted = fit_growth(x, time_s).predict(at)
    if predicted.value is None:
        took = f"it took {format_digits(measured_s, 4)} s"
        return _not_held_out(f"held-out check failed at {at:g}: the fit falls below zero there; {took}")
    error = predicted.value / measured_s - 1
    note = f"prediction for {at:g} without that point, which took {format_digits(measured_s, 4)} s"
    return {"held_out_time": replace(predicted, n=len(x), note=note), "held_out_error": Estimate(error, n=1)}


def _not_held_out(reason: str) -> dict[str, Estimate]:
    return {"held_out_time": Estimate(None, unit="s", note=reason), "held_out_error": Estimate(None, note=reason)}


def growth_curve(fit: Result) -> list[tuple[float, float]]:
    """Return points of the curve of a fit, from the first cell of its axis to the last: x and seconds."""
    cells: Any = fit.params["cells"]
    terms = [fit.metrics[name].value or 0.0 for name in ("law_constant", "law_linear", "law_quadratic")]
    return [
        (float(x), float(sum(term * x**power for power, term in enumerate(terms))))
        for x in np.geomspace(cells[0][0], cells[-1][0], CURVE_POINTS)
    ]


# The metrics of a scaling fit; their names are part of the JSON output.
GROWTH = {
    "law_constant": seconds("a of the fit", "Time ≈ a + b·x + c·x² along the axis: the constant term."),
    "law_linear": seconds("b of the fit", "The linear term, in seconds per second of audio or per utterance."),
    "law_quadratic": seconds("c of the fit", "The quadratic term, where the F test shows that there is one."),
    "law_quadratic_p": ratio("p of the quadratic term", "Probability of as large a quadratic term by chance alone."),
    "law_spread": ratio("spread about the fit", "Standard deviation of the points about the fit, as a share of it."),
    "held_out_time": seconds("held-out check", "Prediction for the farthest point of the axis by a fit without it."),
    "held_out_error": ratio("error of the held-out check", "Predicted / measured - 1 of the held-out point."),
    "predicted_time": seconds("predicted time", "Extrapolation of the fit to the length asked for: not measured."),
    "predicted_rtf": ratio("predicted RTF", "The predicted time / the audio of that batch: not measured."),
    "predicted_rtfx": ratio("predicted RTFx", "1 / predicted RTF: not measured."),
}


def growth_text(fit: Result, variable: str) -> str:
    """Return the fit as a formula in a variable, with the evidence for it."""
    factors = (("law_constant", ""), ("law_linear", f"·{variable}"), ("law_quadratic", f"·{variable}²"))
    terms = [_term(fit.metrics[name], factor) for name, factor in factors]
    formula = " ".join(term for term in terms if term).removeprefix("+ ")
    formula = f"-{formula.removeprefix('- ')}" if formula.startswith("- ") else formula
    return f"time ≈ {formula} s; {_evidence(fit.metrics['law_quadratic_p'])}{_held_out(fit)}"


def seconds_text(estimate: Estimate) -> str:
    """Return a time of three digits with its interval."""
    if estimate.value is None:
        return "–"
    if estimate.low is None or estimate.high is None:
        return f"{format_digits(estimate.value)} s"
    value, low, high = map(format_digits, (estimate.value, estimate.low, estimate.high))
    return f"{value} {ROUGH if estimate.rough else ''}[{low}–{high}] s"


def _term(estimate: Estimate, factor: str) -> str:
    if estimate.value is None:
        return ""
    return f"{'-' if estimate.value < 0 else '+'} {format_digits(abs(estimate.value))}{factor}"


def _evidence(p_value: Estimate) -> str:
    if p_value.value is None:
        return "too few points to test for a quadratic term"
    shown = "p < 0.001" if p_value.value < 0.001 else f"p = {p_value.value:.2g}"
    return f"F test of the quadratic term: {shown}, {'needed' if p_value.value < 0.05 else 'not shown'}"


def _held_out(fit: Result) -> str:
    error, time = fit.metrics["held_out_error"], fit.metrics["held_out_time"]
    if error.value is None or time.value is None:
        return f"; held-out check: {time.note}"
    cells: Any = fit.params["cells"]
    at, measured_s = cells[-1]
    unit = " utterances" if fit.params["axis"] == "batch size" else " s"
    return (
        f"; fitted without {at:g}{unit}: predicted {seconds_text(time)}, measured {format_digits(measured_s)} s, "
        f"{100 * error.value:+.1f} %"
    )
