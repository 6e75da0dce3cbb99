"""The scaling fits of a grid: how a batch's time grows with duration at each batch size, and with its size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stopwav.measure.rounds import Measurement
from stopwav.record import Result
from stopwav.stats import Estimate, GrowthFit, fit_growth
from stopwav.stats.estimate import inverse, scaled
from stopwav.studies.grid.cell import GridCell
from stopwav.studies.grid.spec import GridSpec
from stopwav.studies.growth import Axis, coefficients, held_out


def growth_results(spec: GridSpec, measured: Mapping[GridCell, Measurement]) -> Iterator[Result]:
    """Yield a result for each row and column with two measured cells or more."""
    times = {cell: measurement.time.value for cell, measurement in measured.items() if measurement.good}
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
    fit = fit_growth(axis.x, axis.time_s)
    metrics = {**coefficients(fit, axis), **held_out(axis)}
    params: dict[str, object] = {"kind": "law", "axis": axis.name, "law": "quadratic" if fit.is_quadratic else "linear"}
    if axis.name == "duration":
        params["batch_size"] = int(axis.fixed)
        place = f"batch {axis.fixed:g}"
        if spec.predict_s is not None:
            params["predict_s"] = spec.predict_s
            metrics |= _prediction(fit, axis, spec.predict_s)
    else:
        params["duration_s"] = axis.fixed
        place = f"{axis.fixed:g} s"
    params["cells"] = [[x, time_s] for x, time_s in zip(axis.x, axis.time_s, strict=True)]
    return Result(f"{spec.engine} {place}, time over {axis.name}", params, "ok", metrics, kind="law")


def _prediction(fit: GrowthFit, axis: Axis, at: float) -> dict[str, Estimate]:
    time = fit.predict(at)
    rtf = scaled(time, 1 / axis.audio_s(at))
    return {"predicted_time": time, "predicted_rtf": rtf, "predicted_rtfx": inverse(rtf)}
