"""How long a grid run may take: from its cells, the limits of its plan, and earlier runs of its engine."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.studies.audio_input import audio_digest
from stopwav.studies.budget import planned_rounds
from stopwav.studies.forecast import (
    ASSUMED_LOAD_S,
    ASSUMED_RTF,
    Forecast,
    assumption,
    earlier_speed,
    engine_problems,
    measured_basis,
)
from stopwav.studies.grid.cells import measurements, round_order
from stopwav.studies.grid.spec import GridSpec, engine_of, plan_of
from stopwav.studies.grid.stored_pieces import has_own_passes
from stopwav.studies.stored_rounds import round_time_s


def forecast(spec: GridSpec) -> Forecast:
    """Return seconds and their basis: the budget, or what the rounds of a fixed plan take."""
    audio_digest(spec.audio)  # raises what is wrong with the audio
    cells = round_order(spec, 0)
    earlier = earlier_speed(named_engine(spec.engine, spec.device), spec.save, "grid")
    rtf, load_s, run = earlier or (ASSUMED_RTF, ASSUMED_LOAD_S, "")
    speed = measured_basis(spec.engine, rtf, load_s, run) if earlier else assumption([spec.engine], spec.save)
    audio_s = sum(cell.audio_s for cell in cells)
    work = f"cells: {len(cells)}, {audio_s:.0f} s of audio in one call of each"
    if spec.is_budgeted:
        total_s, basis = spec.total_s, [work, "the budget, unless all is precise before"]
    else:
        plan = plan_of(spec)
        rounds = len(planned_rounds(spec.rounds))
        visits_s = sum(round_time_s(plan, rtf * cell.audio_s, 0.0) for cell in cells)
        total_s = rounds * (load_s + visits_s)
        if has_own_passes(spec):
            total_s += len(cells) * load_s + 2 * rtf * audio_s
        values = f"values for {plan.min_values_s:g} to {plan.max_values_s:g} s per round, by the plan"
        basis = [f"{work}, rounds: {rounds}", values, speed]
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


def speeds(record: Record) -> dict[str, tuple[float, float]]:
    """Return the real-time factor over all cells and the load time of the engine, by its name with the device."""
    good = [(cell, round_) for cell, measurement in measurements(record) for round_ in measurement.good]
    loads_s = [round_.load_s for _, round_ in good if round_.load_s is not None]
    if not loads_s:
        return {}
    rtf = sum(round_.median_s for _, round_ in good) / sum(cell.audio_s for cell, _ in good)
    return {named_engine(record.header.spec["engine"], record.header.spec.get("device")): (rtf, median(loads_s))}


def named_engine(engine: str, device: str | None) -> str:
    """Return the engine's name with the device that it was asked to be on."""
    return engine if device is None else f"{engine},device={device}"
