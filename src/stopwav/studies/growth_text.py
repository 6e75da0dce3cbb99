"""A scaling fit in words: its formula, the evidence for its quadratic term, and the held-out check."""

from __future__ import annotations

from typing import Any

from stopwav.record import Result
from stopwav.stats import Estimate


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
        return f"{estimate.value:.3g} s"
    return f"{estimate.value:.3g} [{estimate.low:.3g}–{estimate.high:.3g}] s"


def _term(estimate: Estimate, factor: str) -> str:
    if estimate.value is None:
        return ""
    return f"{'-' if estimate.value < 0 else '+'} {abs(estimate.value):.3g}{factor}"


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
        f"; fitted without {at:g}{unit}: predicted {seconds_text(time)}, measured {measured_s:.3g} s, "
        f"{100 * error.value:+.1f} %"
    )
