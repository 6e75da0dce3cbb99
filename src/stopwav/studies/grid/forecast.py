"""How long a grid run may take: from its cells, the limits of its plan, and earlier runs of its engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from stopwav.errors import StopwavError
from stopwav.studies.audio_input import audio_digest
from stopwav.studies.forecast import (
    ASSUMED_LOAD_S,
    ASSUMED_RTF,
    Forecast,
    assumption,
    earlier_runs,
    engine_problems,
    measured_basis,
)
from stopwav.studies.grid.cell import measurements, round_order
from stopwav.studies.grid.spec import GridSpec, engine_of, plan_of
from stopwav.studies.stored_rounds import round_time_s


def forecast(spec: GridSpec) -> Forecast:
    """Return seconds and their basis: rounds × the time that the plan gives a round of each cell."""
    audio_digest(spec.audio, spec.seed)  # raises what is wrong with the audio
    plan, cells = plan_of(spec), round_order(spec, 0)
    earlier = _earlier(spec, spec.save)
    rtf, load_s, run = earlier or (ASSUMED_RTF, ASSUMED_LOAD_S, "")
    total_s = spec.rounds * sum(round_time_s(plan, rtf * cell.audio_s, load_s) for cell in cells)
    audio_s = sum(cell.audio_s for cell in cells)
    basis = [
        f"cells: {len(cells)}, {audio_s:.0f} s of audio in one call of each, rounds: {spec.rounds}",
        f"values for {plan.min_values_s:g} to {plan.max_values_s:g} s per round, by the plan",
        measured_basis(spec.engine, rtf, load_s, run) if earlier else assumption([spec.engine], spec.save),
    ]
    if spec.frontier:
        basis.append("the search for the largest batch is not included")
    if spec.traces:
        basis.append("traces are not included")
    return Forecast(total_s, tuple(basis))


def problems(spec: GridSpec) -> Iterator[tuple[str, str]]:
    """Yield what would stop a run of these settings at once."""
    try:
        engine = engine_of(spec)
    except StopwavError as error:
        yield "engine", str(error)
        return
    yield from engine_problems("engine", [engine], spec.time_limit_s)


def _earlier(spec: GridSpec, folder: Path) -> tuple[float, float, str] | None:
    """Real-time factor over all cells, load time, and in which run they were measured."""
    same = (spec.engine, spec.device)
    runs = earlier_runs(folder, "grid", lambda header: (header.spec.get("engine"), header.spec.get("device")) == same)
    for record in runs:
        good = [(cell, round_) for cell, measurement in measurements(record) for round_ in measurement.good]
        loads_s = [round_.load_s for _, round_ in good if round_.load_s is not None]
        if loads_s:
            rtf = sum(round_.median_s for _, round_ in good) / sum(cell.audio_s for cell, _ in good)
            return rtf, median(loads_s), record.path.name
    return None
