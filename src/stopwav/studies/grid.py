"""`stopwav grid`: real-time factor and peak memory of a recogniser over audio duration × batch size."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, PositiveFloat, PositiveInt, field_validator

from stopwav.errors import StopwavError
from stopwav.measure.plan import REPORT, Plan
from stopwav.record import Header, Record
from stopwav.studies.grid_cell import BUNDLED, Cell, CellWorkload, audio_digest
from stopwav.studies.grid_pieces import cell_place
from stopwav.studies.recorded_rounds import take_round
from stopwav.studies.resumption import open_record
from stopwav.studies.spec import DEFAULT_FOLDER, Progress, checked, header_of

# Those of the tables that the field knows.
DURATIONS_S = (1.0, 2.0, 5.0, 8.0, 32.0)
BATCH_SIZES = (1, 4, 8)


class GridSpec(BaseModel, extra="forbid", allow_inf_nan=False):
    """What is asked for; two runs with equal specs measure the same thing."""

    engine: str
    # Seconds of audio, the rows; and how many of them at once, the columns. Kept in rising order, each once.
    durations: list[PositiveFloat] = Field(default=list(DURATIONS_S), min_length=1)
    batch_sizes: list[PositiveInt] = Field(default=list(BATCH_SIZES), min_length=1)
    audio: str = BUNDLED
    device: str | None = None
    triangle: bool = False
    frontier: bool = False
    rounds: int = Field(default=3, gt=0)
    # Seconds that loading, and then measuring, may take in one round of a cell before it is killed.
    time_limit_s: float = Field(default=300.0, gt=0)
    # Billions of bytes of host memory that the process of a cell may take.
    memory_limit_gb: float | None = Field(default=None, gt=0)
    # Seconds of audio for which the fitted law is asked.
    predict_s: float | None = Field(default=None, gt=0)
    seed: int = Field(default=0, ge=0)
    # How a round is taken, where it is not as the default plan says.
    plan: dict[str, Any] | None = None

    @field_validator("durations", "batch_sizes")
    @classmethod
    def _rising(cls, values: list[Any]) -> list[Any]:
        return sorted(set(values))


def grid(
    engine: str,
    *,
    durations: Sequence[float] = DURATIONS_S,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    audio: Path | str = BUNDLED,
    device: str | None = None,
    triangle: bool = False,
    frontier: bool = False,
    rounds: int = 3,
    time_limit_s: float = 300.0,
    memory_limit_gb: float | None = None,
    predict_s: float | None = None,
    seed: int = 0,
    plan: Plan | None = None,
    traces: bool = False,
    save: Path | str = DEFAULT_FOLDER,
    resume: bool = False,
    progress: Progress | None = None,
) -> Record:
    """The record of a grid run: every cell in `rounds` fresh processes, in an order drawn anew for each round.

    `audio` is `bundled` speech, `noise`, or a file, cut or repeated to the length. `plan` says how a round is taken;
    its rounds, limits and seed are those given here. With `traces`, each cell that went well is profiled once more
    after the sweep, in a pass that feeds no number; its trace is written beside the run file.
    """
    spec = checked(
        GridSpec,
        engine=engine,
        durations=list(durations),
        batch_sizes=list(batch_sizes),
        audio=str(audio),
        device=device,
        triangle=triangle,
        frontier=frontier,
        rounds=rounds,
        time_limit_s=time_limit_s,
        memory_limit_gb=memory_limit_gb,
        predict_s=predict_s,
        seed=seed,
        plan=None if plan is None else asdict(plan),
    )
    report = progress or (lambda task, done, total: None)
    header, same = partial(_header, spec), partial(_is_same, spec)
    with open_record("grid", spec, Path(save), resume, header, same=same, append=traces) as record:
        if not record.complete:
            _run(spec, record, report)
            record.finish()
        if traces:
            from stopwav.studies.grid_traces import trace_cells

            trace_cells(spec, record, report)
    return record


def plan_of(spec: GridSpec) -> Plan:
    """How the rounds of a run are taken."""
    limit_bytes = None if spec.memory_limit_gb is None else round(spec.memory_limit_gb * 1e9)
    base = REPORT if spec.plan is None else Plan(**spec.plan)
    return replace(
        base, rounds=spec.rounds, time_limit_s=spec.time_limit_s, memory_limit_bytes=limit_bytes, seed=spec.seed
    )


def cells_of(spec: GridSpec) -> list[Cell]:
    """Every cell of the grid, those that are skipped included, row by row."""
    return [Cell(duration_s, size) for duration_s in spec.durations for size in spec.batch_sizes]


def is_skipped(spec: GridSpec, cell: Cell) -> bool:
    """Whether `triangle` leaves the cell out, by the rule of SpeechBrain's `triangle_only`.

    With places counted from 0, a cell is left out where row + column ≥ (rows + columns) / 2, but never in the first
    row or the first column.
    """
    row, column = spec.durations.index(cell.duration_s), spec.batch_sizes.index(cell.batch_size)
    heavy = row + column >= (len(spec.durations) + len(spec.batch_sizes)) / 2
    return spec.triangle and heavy and row > 0 and column > 0


def round_order(spec: GridSpec, index: int) -> list[Cell]:
    """The cells of one round, shuffled by the seed: what drifts meanwhile does not become a trend along an axis."""
    cells = [cell for cell in cells_of(spec) if not is_skipped(spec, cell)]
    random.Random(f"{spec.seed} {index}").shuffle(cells)
    return cells


def engine_of(spec: GridSpec) -> str:
    """The engine's name, with its device in it where one is asked for."""
    from stopwav.engines.registry import has_option, parse_spec

    own = parse_spec(spec.engine).options.get("device")
    if spec.device is None or own == spec.device:
        return spec.engine
    if own is not None:
        raise StopwavError(f"--device {spec.device}: engine {spec.engine!r} names another one; give one of them")
    # An engine without that option is where it was asked to be.
    if spec.device == "cpu" and not has_option(spec.engine, "device"):
        return spec.engine
    return f"{spec.engine},device={spec.device}"


def device_of(spec: GridSpec) -> str:
    """The device whose clock times the engine."""
    from stopwav.engines.registry import parse_spec

    return str(spec.device or parse_spec(spec.engine).options.get("device") or "cpu")


def _is_same(spec: GridSpec, other: Header) -> bool:
    """Whether a run is of this spec and this audio: a file of the same name may hold other audio by now."""
    digest = other.corpus.get("digest")
    return other.spec == spec.model_dump() and digest == audio_digest(spec.audio, spec.seed)


def _header(spec: GridSpec) -> Header:
    from stopwav.engines.registry import prepare

    if spec.predict_s is not None and len(spec.durations) < 2:
        raise StopwavError(f"--predict {spec.predict_s:g}: a law takes two --durations or more; there is one")
    prepare(engine_of(spec))  # an engine that cannot be had is an error before anything is measured
    return header_of("grid", spec, corpus={"name": spec.audio, "digest": audio_digest(spec.audio, spec.seed)})


def _run(spec: GridSpec, record: Record, report: Progress) -> None:
    """Measure what is not in the record yet: round by round, each cell once a round."""
    total = spec.rounds * len(round_order(spec, 0))
    done = 0
    for index in range(spec.rounds):
        for cell in round_order(spec, index):
            workload = CellWorkload(engine_of(spec), cell, spec.audio, spec.seed)
            take_round(record, cell_place(cell), index, workload, plan_of(spec), device_of(spec))
            done += 1
            report("measuring", done, total)
    if spec.frontier:
        from stopwav.studies.grid_frontier import find_frontier

        for row, duration_s in enumerate(spec.durations):
            report("largest batch", row, len(spec.durations))
            find_frontier(spec, record, duration_s)
