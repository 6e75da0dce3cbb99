"""The results of a grid run: real-time factor and memory of every cell, growth fits, and the frontier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stopwav.engines.label import read_label
from stopwav.errors import Caution, Status, StopwavError
from stopwav.measure.rounds import Measurement, Round
from stopwav.record import Header, Record, Result, read_header
from stopwav.stats import FEWEST_POINTS, Estimate, GrowthFit, fit_growth, summarise_rounds
from stopwav.stats.estimate import inverse, scaled
from stopwav.studies.audio_input import NOISE
from stopwav.studies.budget import verdict_rule
from stopwav.studies.corpus_header import header_warnings
from stopwav.studies.frontier import Frontier, largest_estimate, next_batch
from stopwav.studies.grid.absence import Absence, absences
from stopwav.studies.grid.cell import GridCell
from stopwav.studies.grid.cells import cells_of, measurements, opened_rounds, result_name
from stopwav.studies.grid.frontier import grid_frontier
from stopwav.studies.grid.real_time import implausible, more_s, real_time_verdict
from stopwav.studies.grid.spec import GridSpec, device_of
from stopwav.studies.grid.stored_pieces import searched_rows
from stopwav.studies.grid.traces import trace_warnings
from stopwav.studies.growth import Axis, coefficients, held_out
from stopwav.studies.run_folder import paths_in
from stopwav.studies.stored_rounds import failure_message
from stopwav.studies.study import check_run, study_of

NO_CUDA = "no CUDA device"
NO_PEAK = "no peak was measured"
ALONE = "a larger --budget, or --thorough, gives it a process of its own"


def grid_results(record: Record) -> list[Result]:
    """Return a result per cell, engine by engine and row by row, then one per fit, then one per searched duration."""
    spec = GridSpec(**record.header.spec)
    measured = dict(measurements(record))
    absent, suspects = absences(record, spec, measured), implausible(measured)
    warnings = {lane: tuple(_run_warnings(record, spec, lane, measured)) for lane in spec.lanes}
    cells = []
    for cell in cells_of(spec):
        if cell in absent:
            cells.append(_absent_result(spec, cell, absent[cell]))
            continue
        own = (_implausible(measured[cell]),) if cell in suspects else ()
        warned = (*own, *trace_warnings(record, cell), *warnings[cell.lane])
        cells.append(_cell_result(record, spec, cell, measured[cell], warned))
    frontiers = [
        _frontier_result(spec, lane, duration_s, grid_frontier(record, lane, duration_s))
        for lane, duration_s in searched_rows(spec)
    ]
    return [*cells, *growth_results(spec, measured), *frontiers]


def _shared(spec: GridSpec, lane: str) -> dict[str, object]:
    """The parameters of every result of an engine: what it is called, its setting, and where it ran on what."""
    setting = read_label(spec.engine(lane)).setting
    return {"of": spec.name(lane), "setting": setting, "audio": spec.audio, "device": device_of(spec, lane)}


def _absent_result(spec: GridSpec, cell: GridCell, absence: Absence) -> Result:
    params = {**_place(cell), **_shared(spec, cell.lane), "rounds": 0, "call_s": absence.call_s}
    return Result(result_name(spec, cell), params, "skipped", {}, (absence.caution,), kind="cell")


def _cell_result(
    record: Record, spec: GridSpec, cell: GridCell, measured: Measurement, warnings: tuple[Caution, ...]
) -> Result:
    good = measured.good
    # Of a cell that failed, the rounds that were tried.
    params = {**_place(cell), **_shared(spec, cell.lane), "rounds": len(good) or len(measured.rounds)}
    metrics: dict[str, Estimate] = {}
    if good:
        verdict = real_time_verdict(cell, measured, verdict_rule(record))
        params |= {"engine": good[0].facts["engine"], "real_time": verdict.side, "rule": verdict.rule}
        params |= {"more_rounds": verdict.more_rounds, "more_s": more_s(measured, verdict)}
        metrics = _metrics(cell, measured, opened_rounds(record, cell, measured))
    all_warnings = (*_failures(measured), *measured.cautions, *warnings)
    return Result(result_name(spec, cell), params, measured.status, metrics, all_warnings, kind="cell")


def _implausible(measured: Measurement) -> Caution:
    """The warning about a cell whose time no honest growth explains, and after how many rounds that is so."""
    rounds = f"{len(measured.good)} round{'' if len(measured.good) == 1 else 's'}"
    message = f"does not fit to its neighbours after {rounds}: something else may have run; measure again"
    return Caution("implausible", message)


def _place(cell: GridCell) -> dict[str, object]:
    return {"kind": "cell", "duration_s": cell.duration_s, "batch_size": cell.batch_size}


def _failures(measured: Measurement) -> Iterator[Caution]:
    """How the rounds of a cell of which none completed ended, with its last words."""
    if measured.good:
        return
    first = measured.rounds[0]
    whole = "; --time-limit is for a whole round: first call, warm-up and values" if first.status == "timeout" else ""
    yield Caution(f"cell-{first.status}", failure_message(first) + whole)


def _metrics(cell: GridCell, measured: Measurement, opened: Sequence[Round]) -> dict[str, Estimate]:
    """The metrics of a cell; `opened` are the rounds whose process began with it."""
    time = measured.time
    rtf = scaled(time, 1 / cell.audio_s)
    return {
        "rtf": rtf,
        "rtfx": inverse(rtf),
        "batch_time": time,
        **_device_metrics(cell, measured),
        "first_call_time": _of_rounds([round_.samples.first_s for round_ in opened if round_.samples]),
        "load_time": _of_rounds([round_.load_s for round_ in measured.good if round_.load_s is not None]),
        **_memory_metrics(measured, opened),
    }


def _device_metrics(cell: GridCell, measured: Measurement) -> dict[str, Estimate]:
    """The device time of a batch and the share of the host; without values where there is no device."""
    values = [round_.samples.device_values_s for round_ in measured.good if round_.samples]
    if not all(values):
        none = Estimate(None, note=NO_CUDA)
        return {"device_rtf": none, "device_time": Estimate(None, unit="s", note=NO_CUDA), "host_share": none}
    time = summarise_rounds(values)
    # Shares of each round by itself: wall and device time of a round rise and fall together.
    shares = [
        [1 - device_s / wall_s for wall_s, device_s in zip(samples.values_s, samples.device_values_s, strict=True)]
        for samples in (round_.samples for round_ in measured.good)
        if samples is not None
    ]
    share = summarise_rounds(shares, unit="")
    return {"device_rtf": scaled(time, 1 / cell.audio_s), "device_time": time, "host_share": share}


def _memory_metrics(measured: Measurement, opened: Sequence[Round]) -> dict[str, Estimate]:
    """Four peaks, each absolute and over the loaded model, as the largest over rounds: a peak is no mean."""
    rounds = list({id(round_): round_ for round_ in (*measured.good, *opened)}.values())
    cuda = [round_.cuda_memory for round_ in rounds if round_.cuda_memory]
    metrics = _host_peaks([round_ for round_ in rounds if round_.memory])
    for kind in ("allocated", "reserved", "device"):
        field = f"{kind}_bytes"
        pairs = [(getattr(memory.peak, field), getattr(memory.baseline, field)) for memory in cuda]
        by = f"by {cuda[0].device_method}, other processes included" if cuda and kind == "device" else ""
        metrics |= _peaks(kind, pairs, by, NO_CUDA)
    return metrics


def _host_peaks(rounds: Sequence[Round]) -> dict[str, Estimate]:
    """The peaks of the host: of rounds with nothing left from other cells; else the least that is surely enough."""
    exact = [round_.memory for round_ in rounds if round_.memory and not round_.leftover_bytes]
    note = next((memory.note for memory in exact if memory.note), "") or ""
    if exact or not rounds:
        return _peaks("host", [(memory.peak_bytes, memory.baseline_bytes) for memory in exact], note, NO_PEAK)
    lowest = min(rounds, key=lambda round_: round_.memory.peak_bytes if round_.memory else 0)
    assert lowest.memory is not None
    left = f"at most: earlier cells of the process left {lowest.leftover_bytes / 1e6:.0f} MB in it"
    bounds = _peaks("host", [(lowest.memory.peak_bytes, lowest.memory.baseline_bytes)], f"{left}; {ALONE}", NO_PEAK)
    return {name: replace(estimate, code="upper-bound") for name, estimate in bounds.items()}


def _peaks(kind: str, pairs: Sequence[tuple[int, int]], note: str, absent: str) -> dict[str, Estimate]:
    """The peak and the peak over its baseline, from a pair of both per round; without any, why there is none."""
    values = {"": [float(peak) for peak, _ in pairs], "_over_baseline": [float(peak - base) for peak, base in pairs]}
    return {f"peak_{kind}{suffix}_bytes": _largest(of_rounds, note, absent) for suffix, of_rounds in values.items()}


def _largest(values: Sequence[float], note: str, absent: str) -> Estimate:
    if not values:
        return Estimate(None, unit="B", note=absent)
    # From the smallest to the largest round: not a confidence interval, and said to be none.
    spread = f"largest of {len(values)} rounds, smallest {min(values):.0f}" if len(values) > 1 else ""
    return Estimate(max(values), n=len(values), unit="B", note="; ".join(filter(None, (spread, note))))


def _of_rounds(values_s: Sequence[float]) -> Estimate:
    """The location of a time that each round has once."""
    if not values_s:
        return Estimate(None, unit="s", note=f"no process began with this cell; {ALONE}")
    return summarise_rounds([[value_s] for value_s in values_s], unit="s")


def _run_warnings(
    record: Record, spec: GridSpec, lane: str, all_measured: Mapping[GridCell, Measurement]
) -> Iterator[Caution]:
    """The warnings that are about every cell of an engine."""
    yield from header_warnings(record.header)
    measured = {cell: measurement for cell, measurement in all_measured.items() if cell.lane == lane}
    engine: Mapping[str, Any] = next(
        (measurement.good[0].facts["engine"] for measurement in measured.values() if measurement.good), {}
    )
    versions = dict.fromkeys(
        round_.facts["engine"].get("version") for measurement in measured.values() for round_ in measurement.good
    )
    if len(versions) > 1:
        message = f"the rounds are of versions {' and '.join(map(repr, versions))} of the engine; measure again"
        yield Caution("engine-changed", message)
    for note in engine.get("notes", ()):
        yield Caution("engine", note)
    device = device_of(spec, lane)
    if engine and str(engine["device"]).split(":")[0] != device.split(":")[0]:
        message = f"the engine runs on {engine['device']} but was timed as on {device}: name it with --device"
        yield Caution("device", message)
    if spec.audio == NOISE and engine.get("data_dependent", True):
        yield Caution(
            "noise", f"how long this engine takes depends on what is said; {_compared_with_speech(record, measured)}"
        )
    if not record.complete:
        yield Caution("incomplete", "the run was stopped; continue with --resume")


def _compared_with_speech(record: Record, measured: Mapping[GridCell, Measurement]) -> str:
    """By how much noise differs from speech, where a run of the same cells, machine and packages is in the folder."""
    for other in _runs_on_speech(record):
        try:
            check_run(other, study_of(other))
            speech = dict(measurements(other))
        except StopwavError:
            continue  # another file, edited since, takes nothing from this run
        ratios = [
            measurement.time.value / speech[cell].time.value  # type: ignore[operator]
            for cell, measurement in measured.items()
            if measurement.good and cell in speech and speech[cell].good
        ]
        if ratios:
            span = f"{min(ratios):.2f} to {max(ratios):.2f}"
            return f"noise took {span} times as long as {other.header.spec['audio']} in {other.path.name}"
    return "measure speech as well (without --audio noise) to see by how much"


def _runs_on_speech(record: Record) -> Iterator[Record]:
    """The complete runs in the same folder that differ from this one in their audio alone, newest first."""
    own = _apart_from_audio(record.header)
    for path in paths_in(record.path.parent, "grid"):
        try:
            # The header first: a run may be of any size.
            header = read_header(path)
            if header.spec.get("audio") == NOISE or _apart_from_audio(header) != own:
                continue
            other = Record.read(path)
        except StopwavError:  # no run, or a broken one
            continue
        if other.complete:
            yield other


def _apart_from_audio(header: Header) -> tuple[object, ...]:
    """What two runs share whose times may be compared: study, settings but for the audio, machine and packages."""
    spec = {**GridSpec(**header.spec).stored(), "audio": "", "predict_s": None, "frontier": False}
    return header.study, spec, header.machine.get("fingerprint"), header.machine.get("packages")


def _frontier_result(spec: GridSpec, lane: str, duration_s: float, frontier: Frontier) -> Result:
    params = {
        "kind": "frontier",
        "of": spec.name(lane),
        "duration_s": duration_s,
        "fails_at": frontier.fails_at,
        "failure": frontier.failure,
    }
    # An error where not even one utterance fitted.
    status: Status = "ok" if frontier.fits else "error"
    largest = largest_estimate(frontier)
    if next_batch(frontier, spec.batch_sizes[0]) is not None:
        status = "skipped"
        largest = replace(largest, note="at least: the search is not finished", code="lower-bound")
    name = f"{spec.name(lane)} {duration_s:g} s, largest batch"
    return Result(name, params, status, {"largest_batch": largest}, kind="frontier")


def growth_results(spec: GridSpec, measured: Mapping[GridCell, Measurement]) -> Iterator[Result]:
    """Yield a result for each row and column of each engine with three measured cells or more."""
    times = {cell: measurement.time.value for cell, measurement in measured.items() if measurement.good}
    for lane in spec.lanes:
        known = {cell: time for cell, time in times.items() if time and cell.lane == lane}
        axes = [
            _axis("duration", float(size), [(c.duration_s, t) for c, t in known.items() if c.batch_size == size])
            for size in spec.batch_sizes
        ]
        for duration_s in spec.durations:
            along = [(float(c.batch_size), t) for c, t in known.items() if c.duration_s == duration_s]
            axes.append(_axis("batch size", duration_s, along))
        yield from (_result(spec, lane, axis) for axis in axes if len(axis.x) >= FEWEST_POINTS)


def _axis(name: str, fixed: float, points: Sequence[tuple[float, float]]) -> Axis:
    rising = sorted(points)
    return Axis(name, fixed, tuple(x for x, _ in rising), tuple(time_s for _, time_s in rising))


def _result(spec: GridSpec, lane: str, axis: Axis) -> Result:
    fit = fit_growth(axis.x, axis.time_s)
    metrics = {**coefficients(fit, axis), **held_out(axis)}
    law = "quadratic" if fit.is_quadratic else "linear"
    params: dict[str, object] = {"kind": "law", "of": spec.name(lane), "axis": axis.name, "law": law}
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
    return Result(f"{spec.name(lane)} {place}, time over {axis.name}", params, "ok", metrics, kind="law")


def _prediction(fit: GrowthFit, axis: Axis, at: float) -> dict[str, Estimate]:
    time = fit.predict(at)
    rtf = scaled(time, 1 / axis.audio_s(at))
    return {"predicted_time": time, "predicted_rtf": rtf, "predicted_rtfx": inverse(rtf)}
