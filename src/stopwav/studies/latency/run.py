"""`stopwav latency`: how long a listener waits for each word of a streaming recogniser, and why."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from pathlib import Path

from stopwav.measure.plan import Plan
from stopwav.measure.rounds import alternating_order
from stopwav.record import Header, Record
from stopwav.speech.corpus import load_corpus
from stopwav.speech.utterance import Corpus
from stopwav.studies.corpus_header import corpus_to_json, duration_s, engine_names, utterance_from_json
from stopwav.studies.digests import audio_digests, engine_digests
from stopwav.studies.latency.explain import tried_knobs, with_knobs
from stopwav.studies.latency.spec import LatencySpec
from stopwav.studies.latency.stored_pieces import missing_keys
from stopwav.studies.latency.streams import EngineRound
from stopwav.studies.piece_kinds import finish_run
from stopwav.studies.resume import open_record
from stopwav.studies.spec import make_header, study_function


@study_function(LatencySpec, "engines")
def latency(spec: LatencySpec) -> Record:
    """Return the run of a latency study: every engine streams every utterance, in `rounds` fresh processes each.

    With `explain`, one engine is measured together with itself under each setting that it offers to try, all
    interleaved; `stopwav.explanation(record)` says what each setting gains.
    """
    if spec.explain:
        knobs = tried_knobs(spec.engines, spec.time_limit_s)
        spec = spec.model_copy(update={"knobs": knobs, "engines": with_knobs(spec.engines, knobs)})
    with open_record("latency", spec, partial(_header, spec), same=partial(_is_same, spec)) as record:
        if not record.complete:
            _run(spec, record)
            finish_run(record, missing_keys(record))
    return record


def _is_same(spec: LatencySpec, other: Header) -> bool:
    """Whether a run is of this spec; the oldest runs have no key for settings to try."""
    return {"knobs": None, **other.spec} == spec.stored()


def _header(spec: LatencySpec) -> Header:
    from stopwav.speech.text import NORMALISER, NORMALISER_VERSION
    from stopwav.studies.engine_check import check_engines

    # One that is not available is an error before anything is measured.
    inspections = check_engines(spec.engines, spec.time_limit_s)
    corpus = _prepare_corpus(spec)
    return make_header(
        "latency",
        spec,
        normaliser={"name": NORMALISER, "version": NORMALISER_VERSION},
        corpus=corpus_to_json(corpus, corpus.utterances),
        digests={
            **engine_digests(spec.engines, inspections),
            **audio_digests(corpus.utterances, spec.progress),
        },
    )


def _prepare_corpus(spec: LatencySpec) -> Corpus:
    """The utterances to stream, in an order drawn by seed, each with the times of its words where they are known."""
    from stopwav.speech.align import align_corpus

    corpus = load_corpus(spec.corpus, words=None if spec.words is None else Path(spec.words))
    # Drawn over the whole corpus: the first N of a sorted one are all alike.
    drawn = list(corpus.utterances)
    random.Random(spec.seed).shuffle(drawn)
    chosen = replace(corpus, utterances=tuple(drawn[: spec.limit]))
    return align_corpus(chosen, progress=partial(spec.report, "aligning words"))


def _run(spec: LatencySpec, record: Record) -> None:
    """Stream what is not in the record yet, the engines taking turns utterance by utterance."""
    utterances = [utterance_from_json(fields) for fields in record.header.corpus["utterances"]]
    longest = max(utterances, key=duration_s)
    names = engine_names(spec.engines)
    done, total = 0, len(names) * len(utterances) * spec.rounds
    plan = Plan(rounds=spec.rounds, seed=spec.seed)
    for index in range(spec.rounds):
        engines = [
            EngineRound(name, engine, index, spec, plan, record)
            for name, engine in zip(names, spec.engines, strict=True)
        ]
        try:
            for turn, utterance in enumerate(utterances):
                for position in alternating_order(len(engines), turn + index):
                    engines[position].stream(utterance)
                    done += 1
                    spec.report("streaming", done, total)
            for engine_round in engines:
                engine_round.measure_memory(longest)
        finally:
            for engine_round in engines:
                engine_round.close()
