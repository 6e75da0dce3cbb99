"""`stopwav grid`: real-time factor and peak memory of a recogniser over audio duration × batch size."""

from __future__ import annotations

from functools import partial

from stopwav.errors import StopwavError
from stopwav.record import Header, Record
from stopwav.studies.audio_input import audio_digest, audio_warnings, input_digests
from stopwav.studies.digests import engine_digests
from stopwav.studies.grid.cell import CellWorkload, cell_place, round_order
from stopwav.studies.grid.frontier import find_frontier
from stopwav.studies.grid.spec import GridSpec, device_of, engine_of, plan_of
from stopwav.studies.grid.stored_pieces import missing_keys
from stopwav.studies.grid.traces import trace_cells
from stopwav.studies.piece_kinds import finish_run
from stopwav.studies.resume import open_record
from stopwav.studies.spec import make_header, study_function
from stopwav.studies.stored_rounds import take_round


@study_function(GridSpec, "engine")
def grid(spec: GridSpec) -> Record:
    """Return the run of a grid: every cell in `rounds` fresh processes, in an order drawn again for each round.

    `audio` is `bundled` speech, `noise`, a file or a folder, cut or repeated to the length. `plan` says how a round is
    measured; its rounds, limits and seed are those given here. With `traces`, each cell that completed is profiled once
    more after the sweep, in a pass that no number comes from; its trace is written beside the run file.
    """
    header, same = partial(_header, spec), partial(_is_same, spec)
    with open_record("grid", spec, header, same=same, append=spec.traces) as record:
        if not record.complete:
            _run(spec, record)
            finish_run(record, missing_keys(record))
        if spec.traces:
            trace_cells(spec, record)
    return record


def _is_same(spec: GridSpec, other: Header) -> bool:
    """Whether a run is of this spec; one of an older version, without digests of its files, also of this audio."""
    same_audio = other.digests or other.corpus.get("digest") == audio_digest(spec.audio, spec.seed)
    return other.spec == spec.stored() and bool(same_audio)


def _header(spec: GridSpec) -> Header:
    from stopwav.studies.engine_check import check_engine

    if spec.predict_s is not None and len(spec.durations) < 2:
        raise StopwavError(f"--predict {spec.predict_s:g}: a fit needs at least two --durations; there is one")
    engine = engine_of(spec)
    # One that is not available is an error before anything is measured.
    inspection = check_engine(engine, spec.time_limit_s)
    warnings = audio_warnings(spec.audio, max(spec.durations))
    corpus = {
        "name": spec.audio,
        "digest": audio_digest(spec.audio, spec.seed),
        "cautions": [{"code": warning.code, "message": warning.message} for warning in warnings],
    }
    digests = {**engine_digests([engine], [inspection]), **input_digests(spec.audio, max(spec.durations))}
    return make_header("grid", spec, corpus=corpus, digests=digests)


def _run(spec: GridSpec, record: Record) -> None:
    """Measure what is not in the record yet: round by round, each cell once a round."""
    total = spec.rounds * len(round_order(spec, 0))
    done = 0
    for index in range(spec.rounds):
        for cell in round_order(spec, index):
            workload = CellWorkload(engine_of(spec), cell, spec.audio, spec.seed)
            take_round(record, cell_place(cell), index, workload, plan_of(spec), device_of(spec))
            done += 1
            spec.report("measuring", done, total)
    if spec.frontier:
        for row, duration_s in enumerate(spec.durations):
            spec.report("largest batch", row, len(spec.durations))
            find_frontier(spec, record, duration_s)
