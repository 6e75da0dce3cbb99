"""How long a grid run may take: from its cells, the limits of its plan, and earlier runs of its engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from stopwav.engines.label import read_label
from stopwav.errors import StopwavError
from stopwav.measure.plan import Plan
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
from stopwav.studies.grid.cell import GridCell
from stopwav.studies.grid.cells import measurements, round_order
from stopwav.studies.grid.spec import GridSpec, engine_of, plan_of
from stopwav.studies.grid.stored_pieces import has_own_passes
from stopwav.studies.stored_fields import stored_spec
from stopwav.studies.stored_rounds import round_time_s


def forecast(spec: GridSpec) -> Forecast:
    """Return seconds and their basis: the budget, or what the rounds of a fixed plan take."""
    audio_digest(spec.audio)  # raises what is wrong with the audio
    cells = round_order(spec, 0)
    work = f"cells: {len(cells)}, {sum(cell.audio_s for cell in cells):.0f} s of audio in one call of each"
    if spec.is_budgeted:
        total_s, basis = spec.total_s, [work, "the budget, unless all is precise before"]
    else:
        plan = plan_of(spec)
        values = f"values for {plan.min_values_s:g} to {plan.max_values_s:g} s per round, by the plan"
        total_s, basis = 0.0, [f"{work}, rounds: {len(planned_rounds(spec.rounds))}", values]
        for lane in spec.lanes:
            seconds, speed = _engine_s(spec, plan, lane, [cell for cell in cells if cell.lane == lane])
            total_s += seconds
            basis.append(speed)
        if spec.frontier:
            basis.append("the search for the largest batch is not included")
    if spec.traces:
        basis.append("traces are not included")
    return Forecast(total_s, tuple(basis))


def _engine_s(spec: GridSpec, plan: Plan, lane: str, cells: Sequence[GridCell]) -> tuple[float, str]:
    """The seconds that an engine takes of a fixed plan, and what that rests on."""
    engine = spec.engine(lane)
    earlier = earlier_speed(named_engine(engine, spec.device), spec.save, "grid")
    rtf, load_s, run = earlier or (ASSUMED_RTF, ASSUMED_LOAD_S, "")
    visits_s = sum(round_time_s(plan, rtf * cell.audio_s, 0.0) for cell in cells)
    total_s = len(planned_rounds(spec.rounds)) * (load_s + visits_s)
    if has_own_passes(spec):
        total_s += len(cells) * load_s + 2 * rtf * sum(cell.audio_s for cell in cells)
    return total_s, measured_basis(engine, rtf, load_s, run) if earlier else assumption([engine], spec.save)


def problems(spec: GridSpec) -> Iterator[tuple[str, str]]:
    """Yield what would stop a run of these settings at once."""
    try:
        engines = [engine_of(spec, lane) for lane in spec.lanes]
    except StopwavError as error:
        yield "engines", str(error)
        return
    yield from engine_problems("engines", engines, spec.time_limit_s)


def speeds(record: Record) -> dict[str, tuple[float, float]]:
    """Return the real-time factor over all cells and the load time of each engine, by its setting with the device."""
    spec = stored_spec(GridSpec, record.header)
    good = [(cell, round_) for cell, measurement in measurements(record) for round_ in measurement.good]
    measured = {}
    for lane in spec.lanes:
        own = [(cell, round_) for cell, round_ in good if cell.lane == lane]
        loads_s = [round_.load_s for _, round_ in own if round_.load_s is not None]
        if loads_s:
            rtf = sum(round_.median_s for _, round_ in own) / sum(cell.audio_s for cell, _ in own)
            measured[named_engine(read_label(spec.engine(lane)).setting, spec.device)] = (rtf, median(loads_s))
    return measured


def named_engine(engine: str, device: str | None) -> str:
    """Return the engine's name with the device that it was asked to be on."""
    return engine if device is None else f"{engine},device={device}"
