"""`stopwav load`: how many people a recogniser or server can serve at once, under a named objective."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial

import psutil

from stopwav.errors import StopwavError
from stopwav.record import Header, Record
from stopwav.speech.audio_file import duration_s
from stopwav.speech.utterance import Corpus, Utterance
from stopwav.studies.budget import Budget, is_finished, open_budget, store_spent
from stopwav.studies.corpus_header import corpus_to_json, header_utterances
from stopwav.studies.corpus_settings import run_normaliser
from stopwav.studies.digests import audio_digests, engine_digests
from stopwav.studies.load.corpus import choose_utterances
from stopwav.studies.load.judgement import judge
from stopwav.studies.load.level_table import level_pieces, level_tables
from stopwav.studies.load.plan import level_s, plan_level, steady_s
from stopwav.studies.load.search import MOST_ROUNDS, LevelState
from stopwav.studies.load.spec import LoadSpec
from stopwav.studies.load.state import target_states
from stopwav.studies.load.stored_pieces import missing_keys
from stopwav.studies.load.target import Target
from stopwav.studies.load.virtual import VirtualTarget
from stopwav.studies.piece_kinds import finish_run
from stopwav.studies.resume import open_record
from stopwav.studies.spec import make_header, study_function
from stopwav.studies.worker import outcome_to_piece

# A level of a target that is measured next: its streams, its round, and whether with faulty sessions.
Turn = tuple[str, int, int, bool]


@study_function(LoadSpec, "targets")
def load(spec: LoadSpec) -> Record:
    """Return the run of a load study: levels of streams through each target, until its capacity is known.

    Levels are those that `streams` names, each in rounds, or those of a search: doubling, bisection, then rounds in
    fresh processes at the capacity and the level above. Several targets take turns.
    """
    begun_s = time.monotonic()
    if spec.pid is not None and not psutil.pid_exists(spec.pid):
        raise StopwavError(f"--pid {spec.pid}: there is no such process; give that of the server, or leave it out")
    with open_record("load", spec, partial(_header, spec)) as record:
        if not is_finished(record, spec):
            budget = open_budget(spec, record, begun_s)
            _measure(spec, record, budget)
            finish_run(record, missing_keys(record))
    return record


def _header(spec: LoadSpec) -> Header:
    from stopwav.studies.engine_check import check_engines

    spec.report("checking targets", 0, 1)
    inspections = check_engines(spec.targets, streaming=spec.pace == "virtual", servers=True)
    spec.report("checking targets", 1, 1)
    corpus, digest = choose_utterances(spec)
    _check_transcripts(spec, corpus)
    normaliser = run_normaliser(spec.normaliser, corpus)
    return make_header(
        "load",
        spec,
        normaliser=normaliser.to_json(),
        corpus={**corpus_to_json(corpus, corpus.utterances, normaliser), "digest": digest},
        digests={
            **engine_digests(spec.targets, inspections),
            **audio_digests(corpus.utterances, spec.progress),
        },
    )


def _check_transcripts(spec: LoadSpec, corpus: Corpus) -> None:
    """Raise where the objective is about words, and nobody knows which were spoken: no level could ever hold."""
    if any(utterance.text for utterance in corpus.utterances):
        return
    if run_normaliser(spec.normaliser, corpus).by_character and any(
        condition.metric == "wer" for condition in spec.objective.conditions
    ):
        raise StopwavError(
            f"--slo {spec.slo}: --corpus {spec.corpus} is in {', '.join(corpus.languages)}, written without spaces, so "
            "it has no word error rate; leave out wer"
        )
    about_words = [condition.text for condition in spec.objective.conditions if condition.needs_transcript]
    if about_words:
        raise StopwavError(
            f"--slo {about_words[0]}: --corpus {spec.corpus} has no transcripts, so words have no latency; add them, "
            "or limit final_latency_p95, which then counts from the end of the audio"
        )


def _measure(spec: LoadSpec, record: Record, budget: Budget) -> None:
    utterances = header_utterances(record.header)
    kind = VirtualTarget if spec.pace == "virtual" else Target
    with ExitStack() as stack:
        named = zip(spec.names, spec.targets, strict=True)
        targets = {name: kind(name, target, spec, utterances) for name, target in named}
        for target in targets.values():
            stack.callback(target.close)
        for turn in _turns(spec, record, budget, utterances):
            name, _, index, _ = turn
            for other in targets.values():
                # One at a time: a server that waits takes memory, and some take processor time too.
                if other.name != name or index > 0:
                    other.close()
            _take(spec, record, targets[name], turn, utterances)
            store_spent(record, budget)
            spec.show(record, "", budget.left_s if spec.is_budgeted else None)


def _take(
    spec: LoadSpec, record: Record, target: Target | VirtualTarget, turn: Turn, utterances: Sequence[Utterance]
) -> None:
    name, streams, index, faulty = turn
    lengths_s = [duration_s(utterance) for utterance in utterances]
    spec.report(_task(spec, turn), 0, 1)
    steady = _steady_s(spec, record, turn, lengths_s)
    outcome = target.measure(plan_level(spec, streams, lengths_s, steady, index, faulty))
    spec.report(_task(spec, turn), 1, 1)
    record.append(outcome_to_piece(("level", index, name, streams, int(faulty)), outcome))


def _turns(spec: LoadSpec, record: Record, budget: Budget, utterances: Sequence[Utterance]) -> Iterator[Turn]:
    """Yield what to measure next, as long as there is time and something is open; targets take turns."""
    lengths_s = [duration_s(utterance) for utterance in utterances]
    following = _searched if spec.is_search else _listed
    while True:
        turns = [turn for turn in following(spec, record) if _key(turn) not in record]
        if not turns:
            return
        for turn in turns:
            has_answer = any(key[0] == "level" and key[2] == turn[0] for key in record.keys)
            needed_s = level_s(spec, lengths_s, _steady_s(spec, record, turn, lengths_s))
            if spec.is_budgeted and has_answer and not budget.fits(needed_s):
                return
            yield turn


def _key(turn: Turn) -> tuple[str | int, ...]:
    name, streams, index, faulty = turn
    return ("level", index, name, streams, int(faulty))


def _searched(spec: LoadSpec, record: Record) -> list[Turn]:
    """The next level of each target's search."""
    turns = []
    pieces = level_pieces(record)
    for name, state in target_states(record, spec).items():
        streams = state.next_level(spec)
        if streams is not None:
            # Rounds that failed have their numbers too.
            turns.append((name, streams, len(pieces.get((name, streams, False), ())), False))
    return turns


def _listed(spec: LoadSpec, record: Record) -> list[Turn]:
    """The next round of every level that is asked for, with and without faulty sessions in turn."""
    assert spec.streams is not None
    states = target_states(record, spec)
    turns: list[Turn] = []
    for streams in spec.streams:
        for name in spec.names:
            pieces = level_pieces(record)
            for faulty in (False, True) if spec.faults else (False,):
                index = len(pieces.get((name, streams, faulty), ()))
                if index < _rounds_wanted(spec, states[name].states.get(streams)):
                    turns.append((name, streams, index, faulty))
    # First everything once.
    fewest = min((turn[2] for turn in turns), default=0)
    return [turn for turn in turns if turn[2] == fewest]


def _rounds_wanted(spec: LoadSpec, state: LevelState | None) -> int:
    """How many rounds of a listed level are measured in all: under a budget until it is settled."""
    if spec.soak_s is not None:
        return spec.rounds or 1
    if spec.rounds is not None:
        return spec.rounds
    settled = state is not None and state.settled
    return 1 if settled and not spec.faults else MOST_ROUNDS


def _steady_s(spec: LoadSpec, record: Record, turn: Turn, lengths_s: Sequence[float]) -> float:
    name, streams, index, faulty = turn
    table = level_tables(record).get((name, streams, faulty))
    if table is None:
        return steady_s(spec, streams, lengths_s, index, 0)
    judgement = judge(spec.objective, table)
    if judgement.verdict == "invalid":
        # Nothing is known of it: another first look, since a long one would be spoiled as easily.
        index = 0
    return steady_s(spec, streams, lengths_s, index, table.sessions, judgement.shown_failing)


def _task(spec: LoadSpec, turn: Turn) -> str:
    name, streams, index, faulty = turn
    of = f"{name}: " if len(spec.targets) > 1 else ""
    again = f", round {index + 1}" if index else ""
    return f"{of}{streams} {'stream' if streams == 1 else 'streams'}{again}{', with faults' if faulty else ''}"
