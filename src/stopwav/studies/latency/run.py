"""`stopwav latency`: how long a listener waits for each word of a streaming recogniser, and why."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic import BaseModel, Field

from stopwav.measure.pacer import Pace
from stopwav.measure.plan import Plan
from stopwav.measure.rounds import alternating_order
from stopwav.record import Header, Record
from stopwav.speech.corpus import Corpus, load_corpus
from stopwav.studies.latency.contender import Contender, duration_s
from stopwav.studies.latency.tried_knobs import TriedKnob, tried_knobs, with_settings
from stopwav.studies.resume import open_record
from stopwav.studies.spec import DEFAULT_FOLDER, Progress, checked, header_of


class LatencySpec(BaseModel, extra="forbid", allow_inf_nan=False):
    """What is asked for; two runs with equal specs measure the same thing."""

    engines: list[str] = Field(min_length=1)
    corpus: str = "bundled"
    words: str | None = None
    chunk_ms: float | None = Field(default=None, gt=0)
    pace: Pace = "virtual"
    limit: int | None = Field(default=None, gt=0)
    rounds: int = Field(default=3, gt=0)
    # Seconds an engine may take for one utterance, beyond the audio's length where it is paced, before it is killed.
    time_limit_s: float = Field(default=60.0, gt=0)
    seed: int = Field(default=0, ge=0)
    # Where the other engines are the first one with one setting exchanged each: which settings there are.
    knobs: list[TriedKnob] | None = None


def latency(
    engines: Sequence[str],
    *,
    corpus: str = "bundled",
    words: str | None = None,
    chunk_ms: float | None = None,
    pace: Pace = "virtual",
    limit: int | None = None,
    rounds: int = 3,
    time_limit_s: float = 60.0,
    seed: int = 0,
    explain: bool = False,
    save: Path | str = DEFAULT_FOLDER,
    resume: bool = False,
    progress: Progress | None = None,
) -> Record:
    """The record of a latency run: every engine streams every utterance, in `rounds` fresh processes each.

    With `explain`, one engine is measured beside itself with each setting that it offers to try, all interleaved;
    `stopwav.explanation(record)` says what each setting gains.
    """
    knobs = tried_knobs(list(engines)) if explain else None
    spec = checked(
        LatencySpec,
        engines=with_settings(list(engines), knobs),
        corpus=str(corpus),
        words=None if words is None else str(words),
        chunk_ms=chunk_ms,
        pace=pace,
        limit=limit,
        rounds=rounds,
        time_limit_s=time_limit_s,
        seed=seed,
        knobs=knobs,
    )
    report = progress or (lambda task, done, total: None)
    header, same = partial(_header, spec, report), partial(_is_same, spec)
    with open_record("latency", spec, Path(save), resume, header, same=same) as record:
        if not record.complete:
            _run(spec, record, report)
            record.finish()
    return record


def _is_same(spec: LatencySpec, other: Header) -> bool:
    """Whether a run is of this spec; one from before settings could be tried does not say that it tried none."""
    return {"knobs": None, **other.spec} == spec.model_dump()


def _check_engines(engines: list[str]) -> None:
    """Raise for an engine that cannot be had before anything is measured."""
    from stopwav.engines.registry import prepare

    for text in engines:
        prepare(text)


def _prepare_corpus(spec: LatencySpec, report: Progress) -> Corpus:
    """The utterances to stream, in an order drawn by seed, each with the times of its words where they can be had."""
    from stopwav.speech.align import align_corpus

    corpus = load_corpus(spec.corpus, words=None if spec.words is None else Path(spec.words))
    # Drawn over the whole corpus: the first N of a sorted one are all alike.
    drawn = list(corpus.utterances)
    random.Random(spec.seed).shuffle(drawn)
    drawn = drawn[: spec.limit]
    chosen = replace(corpus, utterances=tuple(drawn))
    return align_corpus(chosen, progress=lambda done, total: report("aligning words", done, total))


def _header(spec: LatencySpec, report: Progress) -> Header:
    from stopwav.speech.text import NORMALISER, NORMALISER_VERSION

    _check_engines(spec.engines)
    corpus = _prepare_corpus(spec, report)
    return header_of(
        "latency",
        spec,
        normaliser={"name": NORMALISER, "version": NORMALISER_VERSION},
        corpus=corpus_to_json(corpus, corpus.utterances),
    )


def _run(spec: LatencySpec, record: Record, report: Progress) -> None:
    """Stream what is not in the record yet, the engines taking turns utterance by utterance."""
    utterances = [utterance_from_json(fields) for fields in record.header.corpus["utterances"]]
    names = engine_names(spec.engines)
    total = len(names) * len(utterances) * spec.rounds
    done = 0
    plan = Plan(rounds=spec.rounds, seed=spec.seed)
    for index in range(spec.rounds):
        contenders = [
            Contender(name, engine, index, spec.chunk_ms, spec.pace, spec.time_limit_s, plan, record)
            for name, engine in zip(names, spec.engines, strict=True)
        ]
        try:
            for turn, utterance in enumerate(utterances):
                for which in alternating_order(len(contenders), turn + index):
                    contenders[which].take(utterance)
                    done += 1
                    report("streaming", done, total)
            longest = max(utterances, key=duration_s)
            for contender in contenders:
                contender.finish_round(longest)
        finally:
            for contender in contenders:
                contender.close()
