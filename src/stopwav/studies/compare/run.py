"""`stopwav compare`: parameters, operations, latency, energy and word errors of recognisers, side by side."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from stopwav.measure.rounds import alternating_order
from stopwav.record import Header, Record
from stopwav.speech.corpus import Utterance, load_corpus
from stopwav.studies.compare.engine_runner import LengthWorkload, device_of
from stopwav.studies.compare.expectation import parse_expectation
from stopwav.studies.compare.external_meter import await_readings, check_meter_log
from stopwav.studies.compare.passes import (
    describe_engine,
    engine_worker,
    find_run_meters,
    measure_energy,
    measure_sample,
)
from stopwav.studies.compare.pieces import inputs_of, length_place, load_failure
from stopwav.studies.compare.spec import CompareSpec, energy_rounds, plan_of, round_inputs
from stopwav.studies.compare.stored_pieces import missing_keys
from stopwav.studies.corpus_header import corpus_to_json, engine_names
from stopwav.studies.digests import audio_digests, engine_digests
from stopwav.studies.piece_kinds import finish_run
from stopwav.studies.resume import open_record
from stopwav.studies.spec import make_header, study_function
from stopwav.studies.stored_rounds import take_round_in_turn

# The engines that are measured, each as the user wrote it, by its name in the run.
Engines = dict[str, str]


@study_function(CompareSpec, "engines")
def compare(spec: CompareSpec) -> Record:
    """Return the run of a comparison: each engine at each length, in `rounds` processes, and over `samples` inputs.

    The samples are divided among the rounds; engines alternate at each. A length that ran out of memory or time, or
    failed in its first round, is not tried again. `expect` states hypotheses, such as `"a faster b"`. `meter_csv` is
    the log of an external power meter, which may grow during the run, and implies `energy`; the run holds a copy of its
    readings, and stays incomplete until they cover the last window. `plan` says how a round is
    measured; its rounds, limit and seed are those given here. `stopwav.card(record)` has the verdicts.
    """
    _check(spec)
    with open_record("compare", spec, partial(_header, spec)) as record:
        if not record.complete and _run(spec, record):
            finish_run(record, missing_keys(record))
    return record


def draw_inputs(utterances: Sequence[Utterance], samples: int, seed: int) -> list[Utterance]:
    """Return the inputs, drawn by seed: the corpus shuffled, again and again where it has fewer utterances."""
    generator = random.Random(seed)
    inputs: list[Utterance] = []
    while len(inputs) < samples:
        shuffled = list(utterances)
        generator.shuffle(shuffled)
        inputs += shuffled
    return inputs[:samples]


def _check(spec: CompareSpec) -> None:
    """Raise for an engine that is not available, or a hypothesis that cannot be understood."""
    from stopwav.studies.engine_check import check_engines

    check_engines(spec.engines, spec.time_limit_s)
    names = engine_names(spec.engines)
    for text in spec.expect:
        parse_expectation(text, names, spec.frames)


def _header(spec: CompareSpec) -> Header:
    from stopwav.speech.text import NORMALISER, NORMALISER_VERSION
    from stopwav.studies.engine_check import check_engines

    if spec.meter_csv is not None:
        check_meter_log(Path(spec.meter_csv))
    corpus = load_corpus(spec.corpus)
    inputs = draw_inputs(corpus.utterances, spec.samples, spec.seed)
    return make_header(
        "compare",
        spec,
        normaliser={"name": NORMALISER, "version": NORMALISER_VERSION},
        corpus={
            **corpus_to_json(corpus, {utterance.id: utterance for utterance in inputs}.values()),
            # In the order in which they are transcribed, some several times where the corpus has fewer.
            "inputs": [utterance.id for utterance in inputs],
        },
        digests={
            **engine_digests(spec.engines, check_engines(spec.engines, spec.time_limit_s)),
            **audio_digests(inputs, spec.progress),
        },
    )


def _run(spec: CompareSpec, record: Record) -> bool:
    """Measure what is not in the record yet: each engine's size, then lengths and inputs by round, then energy.

    An engine that did not load to be described is not tried again; the others are measured. Return whether the run is
    complete: it is not while the log of an external meter lacks its last readings.
    """
    named = dict(zip(engine_names(spec.engines), spec.engines, strict=True))
    for done, (name, engine) in enumerate(named.items()):
        spec.report("parameters and operations", done, len(named))
        describe_engine(spec, record, name, engine)
    spec.report("parameters and operations", len(named), len(named))
    engines = {name: engine for name, engine in named.items() if load_failure(record.pieces, name) is None}
    for index in range(spec.rounds if engines else 0):
        _run_lengths(spec, record, engines, index)
        _run_samples(spec, record, engines, index)
    if not spec.energy:
        return True
    _run_energy(spec, record, engines)
    if spec.meter_csv is None:
        return True
    spec.report("waiting for the meter log", 0, 1)
    covered = await_readings(Path(spec.meter_csv), record)
    spec.report("waiting for the meter log", 1, 1)
    return covered


def _run_lengths(spec: CompareSpec, record: Record, engines: Engines, index: int) -> None:
    """Measure one round of every length, in an order drawn for the round; the engines alternate at each."""
    devices = [device_of(engine) for engine in engines.values()]
    order = list(spec.frames)
    random.Random(f"{spec.seed} {index}").shuffle(order)
    for done, frames in enumerate(order, start=index * len(order) + 1):
        places = [length_place(name, frames) for name in engines]
        workloads = [LengthWorkload(engine, frames, spec.seed) for engine in engines.values()]
        take_round_in_turn(record, places, index, workloads, plan_of(spec), devices)
        spec.report("latency over length", done, spec.rounds * len(order))


def _run_samples(spec: CompareSpec, record: Record, engines: Engines, index: int) -> None:
    """Measure the inputs of one round; the engines alternate at each."""
    inputs, plan, names = inputs_of(record), plan_of(spec), list(engines)
    done = sum(len(round_inputs(spec, earlier)) for earlier in range(index))
    with ExitStack() as stack:
        workers = [stack.enter_context(engine_worker(engine)) for engine in engines.values()]
        for number, place in enumerate(round_inputs(spec, index)):
            for which in alternating_order(len(workers), number + index):
                measure_sample(record, workers[which], ("sample", index, names[which], place), inputs[place], plan)
            spec.report("samples", done + number + 1, spec.samples)


def _run_energy(spec: CompareSpec, record: Record, engines: Engines) -> None:
    """Measure the energy of every length in few rounds, one engine after the other; skipped without a meter."""
    if not find_run_meters(spec, record):
        return
    rounds, named = energy_rounds(spec), list(engines.items())
    total, done = rounds * len(spec.frames) * len(engines), 0
    for index in range(rounds):
        for which in alternating_order(len(named), index):
            name, engine = named[which]
            # One at a time: an engine that is loaded and waits would add to the joules of the other.
            with engine_worker(engine) as worker:
                for frames in spec.frames:
                    measure_energy(spec, record, worker, ("energy", index, name, frames))
                    done += 1
                    spec.report("energy", done, total)
