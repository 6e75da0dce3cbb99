"""`stopwav grid`: real-time factor and peak memory of a recogniser over audio duration × batch size."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

from stopwav.errors import StopwavError
from stopwav.record import Header, Record
from stopwav.stats import FEWEST_POINTS
from stopwav.studies.audio_input import audio_digest, audio_warnings, input_digests
from stopwav.studies.budget import FEWEST_ROUNDS, is_finished, open_budget, planned_rounds, store_spent
from stopwav.studies.digests import engine_digests
from stopwav.studies.grid.cells import (
    asked_cells,
    cell_place,
    lacking_own,
    measurements,
    own_key,
    rising_cells,
    round_order,
)
from stopwav.studies.grid.costs import is_near_limit
from stopwav.studies.grid.frontier import find_frontier
from stopwav.studies.grid.round_process import RoundProcess
from stopwav.studies.grid.schedule import (
    ONE_CALL_S,
    OWN_SHARE,
    Spending,
    own_passes,
    spend_rounds,
    sweep,
)
from stopwav.studies.grid.spec import GridSpec, engine_of, plan_of
from stopwav.studies.grid.stored_pieces import has_own_passes, missing_keys, searched_rows
from stopwav.studies.grid.traces import trace_cells
from stopwav.studies.piece_kinds import finish_run
from stopwav.studies.resume import open_record
from stopwav.studies.spec import make_header, study_function
from stopwav.studies.stored_rounds import round_to_piece, take_visit


@study_function(GridSpec, "engines")
def grid(spec: GridSpec) -> Record:
    """Return the run of a grid: rounds, each a fresh process that goes through cells in an order drawn for it.

    Several engines take turns, one after the other within each round.

    Without `rounds` it spends `budget_s`: a first sweep over every cell, then rounds over those that are open.
    `audio` is `bundled` speech, `noise`, a file or a folder, cut or repeated to the length. `plan` says how a visit of
    a cell is measured; its rounds, limits and seed are those given here. With `traces`, each cell that completed is
    profiled once more after the sweep, in a pass that no number comes from; its trace is written beside the run file.
    """
    begun_s = time.monotonic()
    header, same = partial(_header, spec), partial(_is_same, spec)
    with open_record("grid", spec, header, same=same, append=spec.traces) as record:
        if not is_finished(record, spec):
            if spec.is_budgeted:
                _spend(Spending(spec, record, open_budget(spec, record, begun_s)))
            else:
                _run(spec, record)
            finish_run(record, missing_keys(record))
        if spec.traces:
            trace_cells(spec, record)
    return record


def _is_same(spec: GridSpec, other: Header) -> bool:
    """Whether a run is of this spec; one of an older version, without digests of its files, also of this audio."""
    same_audio = other.digests or other.corpus.get("digest") == audio_digest(spec.audio)
    # Runs of older versions have one engine, under a key of its own.
    stored = {"engines": [other.spec["engine"]], **other.spec} if "engine" in other.spec else other.spec
    return {name: value for name, value in stored.items() if name != "engine"} == spec.stored() and bool(same_audio)


def _header(spec: GridSpec) -> Header:
    from stopwav.studies.engine_check import check_engines

    if spec.predict_s is not None and len(set(spec.durations)) < FEWEST_POINTS:
        raise StopwavError(f"--predict {spec.predict_s:g}: a fit needs at least three --durations")
    spec.report("checking the engines", 0, 1)
    engines = [engine_of(spec, lane) for lane in spec.lanes]
    # One that is not available is an error before anything is measured.
    inspections = check_engines(engines, spec.time_limit_s)
    warnings = audio_warnings(spec.audio, max(spec.durations))
    corpus = {
        "name": spec.audio,
        "digest": audio_digest(spec.audio),
        "cautions": [{"code": warning.code, "message": warning.message} for warning in warnings],
    }
    digests = {**engine_digests(engines, inspections), **input_digests(spec.audio, max(spec.durations))}
    return make_header("grid", spec, corpus=corpus, digests=digests)


def _spend(run: Spending) -> None:
    """Spend the budget: the sweep, the largest batches where asked for, rounds, and passes that a process has alone."""
    sweep(run)
    if run.spec.frontier:
        rows = searched_rows(run.spec)
        for row, (lane, duration_s) in enumerate(rows):
            run.spec.report("largest batch", row, len(rows))
            # Half of what is left: rounds need time too.
            find_frontier(run.spec, run.record, lane, duration_s, run.budget.left_s / 2 / (len(rows) - row))
        store_spent(run.record, run.budget)
    spend_rounds(run, FEWEST_ROUNDS)
    own_passes(run, OWN_SHARE)
    spend_rounds(run)
    own_passes(run)


def _run(spec: GridSpec, record: Record) -> None:
    """Measure what is not in the record yet: round by round, each cell once a round."""
    plan, cells = plan_of(spec), asked_cells(spec)
    # A call for memory is not made where a process of its own makes one too.
    rounds, peaks = planned_rounds(spec.rounds), not has_own_passes(spec)
    done, total = 0, len(rounds) * len(cells)
    for index in rounds:
        with RoundProcess(spec) as process:
            for cell in round_order(spec, index):
                spec.report("measuring", done, total)
                spec.show(record, f"round {index + 1}: {cell}")
                alone = is_near_limit(spec, record.header.machine, dict(measurements(record)), cell)
                visit = partial(process.visit, cell, plan, alone=alone, peaks=peaks)
                take_visit(record, cell_place(cell), index, visit)
                done += 1
    spec.report("measuring", done, total)
    with RoundProcess(spec) as process:
        for cell in lacking_own(record, rising_cells(spec)) if has_own_passes(spec) else ():
            spec.show(record, f"{cell} in a process of its own")
            round_ = process.visit(cell, replace(plan, visit_s=ONE_CALL_S), alone=True)
            record.append(round_to_piece(own_key(cell), round_))
    rows = searched_rows(spec)
    for row, (lane, duration_s) in enumerate(rows):
        spec.report("largest batch", row, len(rows))
        find_frontier(spec, record, lane, duration_s)
