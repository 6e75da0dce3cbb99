"""`stopwav compare`: parameters, operations, latency, energy and word errors of recognisers, side by side."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, field_validator

from stopwav.errors import StopwavError
from stopwav.measure.meter_log import read_meter_log
from stopwav.measure.plan import COMPARISON, Plan
from stopwav.measure.rounds import alternating_order
from stopwav.record import Header, Record
from stopwav.speech.corpus import BUNDLED, Utterance, load_corpus
from stopwav.studies.compare.engine_runner import LengthWorkload
from stopwav.studies.compare.expectation import parse_expectation
from stopwav.studies.compare.passes import (
    EnergyPass,
    keep_meter_log,
    take_meters,
    take_model,
)
from stopwav.studies.compare.pieces import length_place, not_loaded
from stopwav.studies.compare.side import Side, device_of
from stopwav.studies.corpus_header import corpus_to_json, engine_names, utterance_from_json
from stopwav.studies.resume import open_record
from stopwav.studies.spec import DEFAULT_FOLDER, Progress, checked, header_of
from stopwav.studies.stored_rounds import take_round_in_turn

# Seconds 1 to 16, doubling: what the published comparisons of recognisers plot their curves over.
FRAMES = (100, 200, 400, 800, 1600)
# As many as older reports take their means over; enough for a P95.
SAMPLES = 100
# The fewest rounds with a Student interval; each loads the engine anew, once for all lengths.
ENERGY_ROUNDS = 3

# The engines that are measured: the name in the run, and what it is made of.
Sides = list[tuple[str, str]]


class CompareSpec(BaseModel, extra="forbid"):
    """What is asked for; two runs with equal specs measure the same thing."""

    engines: list[str] = Field(min_length=1)
    # Lengths of input, in frames of 10 ms. Kept in rising order, each once.
    frames: list[int] = Field(default=list(FRAMES), min_length=1)
    samples: int = Field(default=SAMPLES, gt=0)
    corpus: str = BUNDLED
    energy: bool = False
    # Seconds for which the work repeats at each length, all rounds together, unless its energy is known before.
    energy_time_s: float = Field(default=60.0, gt=0)
    meter_csv: str | None = None
    rounds: int = Field(default=COMPARISON.rounds, gt=0)
    # Levels of modules by which parameters and operations are given.
    depth: int = Field(default=1, ge=0)
    expect: list[str] = []
    # Seconds that loading, and then one piece of work, may take before the process is killed.
    time_limit_s: float = Field(default=300.0, gt=0)
    seed: int = Field(default=0, ge=0)
    # How a round is taken, where it is not as the default plan says.
    plan: dict[str, Any] | None = None

    @field_validator("frames")
    @classmethod
    def _rising(cls, values: list[int]) -> list[int]:
        if not min(values) > 0:
            raise ValueError("each must be above 0")
        return sorted(set(values))


def compare(
    engines: Sequence[str],
    *,
    frames: Sequence[int] = FRAMES,
    samples: int = SAMPLES,
    corpus: str = BUNDLED,
    energy: bool = False,
    energy_time_s: float = 60.0,
    meter_csv: Path | str | None = None,
    rounds: int = COMPARISON.rounds,
    depth: int = 1,
    expect: Sequence[str] = (),
    time_limit_s: float = 300.0,
    seed: int = 0,
    plan: Plan | None = None,
    save: Path | str = DEFAULT_FOLDER,
    resume: bool = False,
    progress: Progress | None = None,
) -> Record:
    """The record of a comparison: every engine at every length in `rounds` fresh processes, and over `samples` inputs.

    The samples are dealt out over the rounds; engines take turns at each. A length that ran out of memory or time, or
    failed in its first round, is not tried again. `expect` states hypotheses, such as
    `"a faster b"`. `meter_csv` is the log of an external power meter, which may grow while the run does, and implies
    `energy`. `plan` says how a round is taken; its rounds, limit and seed are those given here.
    `stopwav.card(record)` has the verdicts.
    """
    spec = checked(
        CompareSpec,
        engines=list(engines),
        frames=list(frames),
        samples=samples,
        corpus=str(corpus),
        energy=energy or meter_csv is not None,
        energy_time_s=energy_time_s,
        meter_csv=None if meter_csv is None else str(meter_csv),
        rounds=rounds,
        depth=depth,
        expect=list(expect),
        time_limit_s=time_limit_s,
        seed=seed,
        plan=None if plan is None else asdict(plan),
    )
    _check(spec)
    report = progress or (lambda task, done, total: None)
    with open_record("compare", spec, Path(save), resume, partial(_header, spec)) as record:
        if not record.complete:
            _run(spec, record, report)
            record.finish()
    return record


def plan_of(spec: CompareSpec) -> Plan:
    """How the rounds of a run are taken."""
    base = COMPARISON if spec.plan is None else Plan(**spec.plan)
    return replace(base, rounds=spec.rounds, time_limit_s=spec.time_limit_s, seed=spec.seed)


def length_workload(spec: CompareSpec, name: str, frames: int) -> LengthWorkload:
    """What an engine is timed on at a length."""
    engine = spec.engines[engine_names(spec.engines).index(name)]
    return LengthWorkload(engine, frames, spec.seed)


def drawn(utterances: Sequence[Utterance], samples: int, seed: int) -> list[Utterance]:
    """The inputs, drawn by seed: the corpus shuffled, again and again where it has fewer."""
    generator = random.Random(seed)
    found: list[Utterance] = []
    while len(found) < samples:
        once = list(utterances)
        generator.shuffle(once)
        found += once
    return found[:samples]


def share(spec: CompareSpec, index: int) -> range:
    """Which of the inputs a round takes: they are dealt out, so that each is taken once by each engine."""
    return range(index, spec.samples, spec.rounds)


def energy_rounds(spec: CompareSpec) -> int:
    """How many rounds of energy there are."""
    return min(ENERGY_ROUNDS, spec.rounds) if spec.energy else 0


def _check(spec: CompareSpec) -> None:
    """Raise for an engine that cannot be had, or a hypothesis that says nothing."""
    from stopwav.engines.registry import prepare

    for engine in spec.engines:
        prepare(engine)
    names = engine_names(spec.engines)
    for text in spec.expect:
        parse_expectation(text, names, spec.frames)


def _header(spec: CompareSpec) -> Header:
    from stopwav.speech.text import NORMALISER, NORMALISER_VERSION

    if spec.meter_csv is not None:
        _check_meter_log(Path(spec.meter_csv))
    corpus = load_corpus(spec.corpus)
    inputs = drawn(corpus.utterances, spec.samples, spec.seed)
    return header_of(
        "compare",
        spec,
        normaliser={"name": NORMALISER, "version": NORMALISER_VERSION},
        corpus={
            **corpus_to_json(corpus, {one.id: one for one in inputs}.values()),
            # In the order in which they are taken, some again and again where the corpus has fewer.
            "inputs": [one.id for one in inputs],
        },
    )


def _check_meter_log(path: Path) -> None:
    """Raise for what is wrong with a meter's log before anything is measured; it may begin while the run goes on."""
    if path.exists():
        read_meter_log(path)
    elif not path.parent.is_dir():
        raise StopwavError(f"--meter-csv {path}: there is no folder {path.parent}; name the file that the meter writes")


def inputs_of(record: Record) -> list[Utterance]:
    """The inputs of a run, in the order in which they are taken."""
    corpus = record.header.corpus
    utterances = {fields["id"]: utterance_from_json(fields) for fields in corpus["utterances"]}
    return [utterances[name] for name in corpus["inputs"]]


def _run(spec: CompareSpec, record: Record, report: Progress) -> None:
    """Take what is not in the record yet: what the engines are, then round by round lengths and inputs, then energy.

    An engine that could not be loaded to be looked at is not tried again; the others are measured.
    """
    engines = dict(zip(engine_names(spec.engines), spec.engines, strict=True))
    for done, (name, engine) in enumerate(engines.items()):
        report("parameters and operations", done, len(engines))
        take_model(spec, record, name, engine)
    report("parameters and operations", len(engines), len(engines))
    sides = [(name, engine) for name, engine in engines.items() if not_loaded(record.pieces, name) is None]
    for index in range(spec.rounds if sides else 0):
        _run_lengths(spec, record, sides, index, report)
        _run_samples(spec, record, sides, index, report)
    if spec.energy:
        _run_energy(spec, record, sides, report)


def _run_lengths(spec: CompareSpec, record: Record, sides: Sides, index: int, report: Progress) -> None:
    """One round of every length, in an order drawn anew; the engines take turns at each."""
    devices = [device_of(engine) for _, engine in sides]
    order = list(spec.frames)
    random.Random(f"{spec.seed} {index}").shuffle(order)
    for done, frames in enumerate(order, start=index * len(order) + 1):
        places = [length_place(name, frames) for name, _ in sides]
        workloads = [length_workload(spec, name, frames) for name, _ in sides]
        take_round_in_turn(record, places, index, workloads, plan_of(spec), devices)
        report("latency over length", done, spec.rounds * len(order))


def _run_samples(spec: CompareSpec, record: Record, sides: Sides, index: int, report: Progress) -> None:
    """The inputs of one round; the engines take turns at each."""
    inputs = inputs_of(record)
    takers = [Side(name, engine, index, spec.time_limit_s, plan_of(spec), record) for name, engine in sides]
    try:
        for turn, place in enumerate(share(spec, index)):
            for which in alternating_order(len(takers), turn + index):
                takers[which].take(place, inputs[place])
            taken = sum(len(share(spec, earlier)) for earlier in range(index)) + turn + 1
            report("samples", taken, spec.samples)
    finally:
        for taker in takers:
            taker.close()


def _run_energy(spec: CompareSpec, record: Record, sides: Sides, report: Progress) -> None:
    """The energy of every length, in few rounds, the engines taking turns; nothing where there is no meter."""
    rounds = energy_rounds(spec)
    if not take_meters(spec, record):
        return
    total, done = rounds * len(spec.frames) * len(sides), 0
    time_s, external = spec.energy_time_s / rounds, spec.meter_csv is not None
    for index in range(rounds):
        for which in alternating_order(len(sides), index):
            # One at a time: an engine that only waits, loaded, would be in the other's joules.
            with closing(EnergyPass(*sides[which], index, time_s, external, plan_of(spec), record)) as energy:
                for frames in spec.frames:
                    energy.take(frames)
                    done += 1
                    report("energy", done, total)
    keep_meter_log(spec, record)
