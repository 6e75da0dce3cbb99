"""`stopwav compare`: parameters, operations, latency, energy and word errors of recognisers, side by side."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from stopwav.record import Header, Record
from stopwav.speech.corpus import Utterance, load_corpus
from stopwav.studies.budget import Budget, is_finished, open_budget, store_spent
from stopwav.studies.compare.energy_pass import run_energy
from stopwav.studies.compare.engine_rounds import EngineRounds
from stopwav.studies.compare.expectation import parse_expectation
from stopwav.studies.compare.external_meter import await_readings, check_meter_log
from stopwav.studies.compare.passes import describe_engine
from stopwav.studies.compare.pieces import load_failure
from stopwav.studies.compare.run_data import read_run
from stopwav.studies.compare.schedule import next_index, next_work, planned_work, sweep_work
from stopwav.studies.compare.spec import CompareSpec
from stopwav.studies.compare.stored_pieces import missing_keys
from stopwav.studies.corpus_header import corpus_to_json
from stopwav.studies.corpus_settings import run_normaliser
from stopwav.studies.digests import audio_digests, engine_digests
from stopwav.studies.engine_names import engine_names
from stopwav.studies.forecast import ASSUMED_LOAD_S
from stopwav.studies.piece_kinds import finish_run, first_missing
from stopwav.studies.resume import open_record
from stopwav.studies.spec import make_header, study_function

# Of the first sweep, the part in which all engines together are described: operations are counted, not compared.
DESCRIPTION_SHARE = 0.3


@study_function(CompareSpec, "engines")
def compare(spec: CompareSpec) -> Record:
    """Return the run of a comparison: each engine at each length, and over inputs of a corpus.

    A round is one fresh process of each engine; they are loaded together and take turns at every length and input.
    There are as many rounds as `budget_s` has time for, or `rounds` of a fixed plan. A length that ran out of memory or
    time, or failed in its first round, is not tried again. `expect` states hypotheses, such as `"a faster b"`.
    `meter_csv` is the log of an external power meter, which may grow during the run, and implies `energy`; the run
    holds a copy of its readings, and stays incomplete until they cover the last window. `plan` says how a round is
    measured; its rounds, limit and seed are those given here. `stopwav.card(record)` has the verdicts.
    """
    begun_s = time.monotonic()
    _check(spec)
    with open_record("compare", spec, partial(_header, spec)) as record:
        if not is_finished(record, spec) and _run(spec, record, open_budget(spec, record, begun_s)):
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
    from stopwav.studies.engine_check import check_engines

    if spec.meter_csv is not None:
        check_meter_log(Path(spec.meter_csv))
    corpus = load_corpus(spec.corpus, language=spec.language, progress=spec.report)
    normaliser = run_normaliser(spec.normaliser, corpus)
    inputs = draw_inputs(corpus.utterances, spec.samples, spec.seed)
    return make_header(
        "compare",
        spec,
        normaliser=normaliser.to_json(),
        corpus={
            **corpus_to_json(corpus, {utterance.id: utterance for utterance in inputs}.values(), normaliser),
            # In the order in which they are transcribed, some several times where the corpus has fewer.
            "inputs": [utterance.id for utterance in inputs],
        },
        digests={
            **engine_digests(spec.engines, check_engines(spec.engines, spec.time_limit_s)),
            **audio_digests(inputs, spec.progress),
        },
    )


def _run(spec: CompareSpec, record: Record, budget: Budget) -> bool:
    """Measure what is not in the record yet: each engine's size, then lengths and inputs by round, then energy.

    An engine that did not load to be described is not tried again; the others are measured. Return whether the run is
    complete: it is not while the log of an external meter lacks its last readings.
    """
    named = dict(zip(engine_names(spec.engines), spec.engines, strict=True))
    time_s = DESCRIPTION_SHARE * budget.sweep_left_s / len(named) if spec.is_budgeted else math.inf
    for done, (name, engine) in enumerate(named.items()):
        spec.report("parameters and operations", done, len(named))
        describe_engine(spec, record, name, engine, budget, time_s)
    spec.report("parameters and operations", len(named), len(named))
    engines = {name: engine for name, engine in named.items() if load_failure(record.pieces, name) is None}
    rounds = EngineRounds(spec, record, engines, budget)
    if engines and spec.is_budgeted:
        _spend_budget(spec, rounds)
    elif engines:
        for index in range(spec.rounds or 0):
            rounds.take(index, planned_work(spec, list(engines), index))
        run_energy(spec, rounds)
    if spec.meter_csv is None:
        return True
    spec.report("waiting for the meter log", 0, 1)
    covered = await_readings(Path(spec.meter_csv), record)
    spec.report("waiting for the meter log", 1, 1)
    return covered


def _spend_budget(spec: CompareSpec, rounds: EngineRounds) -> None:
    """Measure a first sweep, then energy, then rounds of what is open, until nothing is or the budget is spent."""
    record, budget = rounds.record, rounds.budget
    if first_missing(missing_keys(record)) is not None:
        store_spent(record, budget)
        rounds.take(0, sweep_work(spec, list(rounds.engines), budget))
        store_spent(record, budget)
    if spec.energy:
        run_energy(spec, rounds)
        store_spent(record, budget)
    load_s = rounds.load_s or ASSUMED_LOAD_S * len(rounds.engines)
    while (work := next_work(spec, read_run(record), record, budget, load_s)) is not None:
        index = next_index(record)
        rounds.take(index, work)
        store_spent(record, budget)
        spec.show(record, f"round {index + 2}", budget.left_s)
        load_s = rounds.load_s
