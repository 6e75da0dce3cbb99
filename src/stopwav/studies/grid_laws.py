"""The laws of a grid: how a batch's time grows with duration at each batch size, and with its size at each duration.

Each law is checked against the farthest cell of its axis, by a fit that does not see it: the hardest test a grid has,
and chosen before any number is seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from stopwav.measure.rounds import Measurement
from stopwav.record import Result
from stopwav.stats import Estimate, GrowthFit, fit_growth, t_quantile
from stopwav.studies.grid import GridSpec
from stopwav.studies.grid_cell import Cell

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


def law_results(spec: GridSpec, measured: Mapping[Cell, Measurement]) -> Iterator[Result]:
    """A result for each row and column with two measured cells or more."""
    times = {cell: one.time.value for cell, one in measured.items() if one.good}
    known = {cell: time for cell, time in times.items() if time}
    for size in spec.batch_sizes:
        axis = _axis("duration", float(size), [(c.duration_s, t) for c, t in known.items() if c.batch_size == size])
        if len(axis.x) > 1:
            yield _result(spec, axis)
    for duration_s in spec.durations:
        along = [(float(c.batch_size), t) for c, t in known.items() if c.duration_s == duration_s]
        axis = _axis("batch size", duration_s, along)
        if len(axis.x) > 1:
            yield _result(spec, axis)


def _axis(name: str, fixed: float, points: Sequence[tuple[float, float]]) -> Axis:
    rising = sorted(points)
    return Axis(name, fixed, tuple(x for x, _ in rising), tuple(time_s for _, time_s in rising))


def _result(spec: GridSpec, axis: Axis) -> Result:
    law = fit_growth(axis.x, axis.time_s)
    metrics = {**coefficients(law, axis), **held_out(axis)}
    params: dict[str, object] = {"kind": "law", "axis": axis.name, "law": "quadratic" if law.is_quadratic else "linear"}
    if axis.name == "duration":
        params["batch_size"] = int(axis.fixed)
        place = f"batch {axis.fixed:g}"
        if spec.predict_s is not None:
            params["predict_s"] = spec.predict_s
            metrics |= _prediction(law, axis, spec.predict_s)
    else:
        params["duration_s"] = axis.fixed
        place = f"{axis.fixed:g} s"
    params["cells"] = [[x, time_s] for x, time_s in zip(axis.x, axis.time_s, strict=True)]
    return Result(f"{spec.engine} {place}, time over {axis.name}", params, "ok", metrics)


def coefficients(law: GrowthFit, axis: Axis) -> dict[str, Estimate]:
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
    predicted = fit_growth(x, time_s).predict(at)
    if predicted.value is None:
        none = f"the law without the cell at {at:g} falls below zero there; it took {measured_s:.4g} s"
        return {"held_out_time": Estimate(None, unit="s", note=none), "held_out_error": Estimate(None, note=none)}
    error = predicted.value / measured_s - 1
    note = f"prediction for {at:g} without that cell, which took {measured_s:.4g} s"
    held_out = Estimate(predicted.value, predicted.low, predicted.high, len(x), "s", note)
    return {"held_out_time": held_out, "held_out_error": Estimate(error, n=1)}


def _prediction(law: GrowthFit, axis: Axis, at: float) -> dict[str, Estimate]:
    from stopwav.studies.grid_results import inverse, scaled

    time = law.predict(at)
    rtf = scaled(time, 1 / axis.audio_s(at))
    return {"predicted_time": time, "predicted_rtf": rtf, "predicted_rtfx": inverse(rtf)}
