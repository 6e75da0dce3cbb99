"""A growth fit as it is shown: its formula with the evidence, its curve, and the meaning of its metrics."""

from __future__ import annotations

from typing import Any

from stopwav.record import Result
from stopwav.stats import Estimate
from stopwav.studies.definition import ratio, seconds

_TERMS = ("law_constant", "law_linear", "law_quadratic")
# Enough that a curve looks smooth across a page.
_CURVE_POINTS = 60

FIT_DEFINITIONS = {
    "law_constant": seconds("scaling fit, a", "Time ≈ a + b·x + c·x² along the axis: the constant term."),
    "law_linear": seconds("scaling fit, b", "The linear term, in seconds per second of audio or per utterance."),
    "law_quadratic": seconds("scaling fit, c", "The quadratic term, where the F test shows that there is one."),
    "law_quadratic_p": ratio("p of the quadratic term", "Probability of as large a quadratic term by chance alone."),
    "law_spread": ratio("spread about the fit", "Standard deviation of the cells about the fit, as a share of it."),
    "held_out_time": seconds("held-out cell", "The prediction of a fit without the farthest cell of the axis for it."),
    "held_out_error": ratio("error of the held-out cell", "Predicted / measured - 1 of the held-out cell."),
}


def growth_text(result: Result, variable: str) -> str:
    """Return the fit as a formula in the variable, with the evidence for its quadratic term and the held-out check."""
    factors = ("", f"·{variable}", f"·{variable}²")
    terms = [_term(result.metrics[name], factor) for name, factor in zip(_TERMS, factors, strict=True)]
    formula = " ".join(term for term in terms if term).removeprefix("+ ")
    formula = f"-{formula.removeprefix('- ')}" if formula.startswith("- ") else formula
    return f"time ≈ {formula} s; {_evidence(result.metrics['law_quadratic_p'])}; {_held_out(result)}"


def growth_curve(result: Result) -> list[tuple[float, float]]:
    """Return points of the fitted curve, from the first cell to the last: x and seconds."""
    import numpy as np

    cells: Any = result.params["cells"]
    terms = [result.metrics[name].value or 0.0 for name in _TERMS]
    return [
        (float(x), float(sum(term * x**power for power, term in enumerate(terms))))
        for x in np.geomspace(cells[0][0], cells[-1][0], _CURVE_POINTS)
    ]


def _term(estimate: Estimate, factor: str) -> str:
    if estimate.value is None:
        return ""
    return f"{'-' if estimate.value < 0 else '+'} {abs(estimate.value):.3g}{factor}"


def _evidence(p_value: Estimate) -> str:
    if p_value.value is None:
        return "too few cells to test for a quadratic term"
    shown = "p < 0.001" if p_value.value < 0.001 else f"p = {p_value.value:.2g}"
    return f"F test of the quadratic term: {shown}, {'needed' if p_value.value < 0.05 else 'not shown'}"


def _held_out(result: Result) -> str:
    error, time = result.metrics["held_out_error"], result.metrics["held_out_time"]
    if error.value is None or time.value is None:
        return f"held-out check: {time.note}"
    cells: Any = result.params["cells"]
    at, measured_s = cells[-1]
    unit = "utterances" if result.params["axis"] == "batch size" else "s"
    interval = "" if time.low is None or time.high is None else f" [{time.low:.3g}–{time.high:.3g}]"
    return (
        f"held-out check at {at:g} {unit}: predicted {time.value:.3g}{interval} s, measured {measured_s:.3g} s, "
        f"{100 * error.value:+.1f} %"
    )
