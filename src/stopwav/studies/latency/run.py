"""`stopwav latency`: how long a listener waits for each word of a streaming recogniser, and why."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

from stopwav.measure.rounds import alternating_order
from stopwav.record import Header, Record
from stopwav.speech.audio_file import duration_s
from stopwav.speech.utterance import Utterance
from stopwav.studies.budget import SWEEP_SHARE, Budget, is_finished, open_budget, store_spent
from stopwav.studies.corpus_header import corpus_to_json
from stopwav.studies.corpus_settings import run_normaliser
from stopwav.studies.digests import audio_digests, engine_digests
from stopwav.studies.engine_names import engine_names
from stopwav.studies.latency.explain import tried_knobs, with_knobs
from stopwav.studies.latency.opening import Opening
from stopwav.studies.latency.schedule import LatencySchedule
from stopwav.studies.latency.selection import aligned, choose_utterances, draw, stream_cost
from stopwav.studies.latency.spec import LatencySpec
from stopwav.studies.latency.stored_pieces import missing_keys
from stopwav.studies.latency.streams import BudgetSpentError, EngineRound, OpenedEngine
from stopwav.studies.launch.shards import share_out
from stopwav.studies.piece_kinds import finish_run
from stopwav.studies.resume import open_record
from stopwav.studies.spec import make_header, study_function
from stopwav.studies.utterance_table import UtteranceTable


@study_function(LatencySpec, "engines")
def latency(spec: LatencySpec) -> Record:
    """Return the run of a latency study: every engine streams every utterance, in a fresh process each round.

    Rounds are as many as `rounds` says, or as the budget has time for. With `explain`, one engine is measured together
    with itself under each setting that it offers to try, all interleaved; `stopwav.explanation(record)` says what each
    setting gains.
    """
    begun_s = time.monotonic()
    if spec.explain:
        knobs = tried_knobs(spec.engines, spec.time_limit_s)
        spec = spec.model_copy(update={"knobs": knobs, "engines": with_knobs(spec.engines, knobs)})
    with (
        Opening() as opening,
        open_record("latency", spec, partial(_header, spec, opening, begun_s), same=partial(_is_same, spec)) as record,
    ):
        if not is_finished(record, spec):
            budget = open_budget(spec, record, begun_s)
            run = _run_budget if spec.is_budgeted else _run_plan
            run(_bounded(spec), record, budget, opening.engines)
            finish_run(record, missing_keys(record))
    return record


def _is_same(spec: LatencySpec, other: Header) -> bool:
    """Whether a run is of this spec; older runs have no key for settings to try, streams, and the kind of text."""
    older = {"knobs": None, "streams": 1, "normaliser": None, "language": None, "aligner": None}
    return {**older, **other.spec} == spec.stored()


def _bounded(spec: LatencySpec) -> LatencySpec:
    """The settings to measure with: no single utterance may take longer than the first sweep."""
    return spec.model_copy(update={"time_limit_s": min(spec.time_limit_s, SWEEP_SHARE * spec.total_s)})


def _header(spec: LatencySpec, opening: Opening, begun_s: float) -> Header:
    from stopwav.studies.engine_check import check_engines

    spec.report("checking engines", 0, 1)
    inspections = check_engines(spec.engines, spec.time_limit_s, streaming=True, servers=True)
    spec.report("checking engines", 1, 1)
    drawn, digest = draw(spec)
    budget = Budget(spec.total_s, time.monotonic() - begun_s)
    opening.load(_bounded(spec), drawn.utterances[0], budget)
    if spec.is_budgeted:
        corpus = choose_utterances(spec, drawn, stream_cost(spec, opening.engines.values()), budget)
    else:
        corpus = aligned(spec, drawn)
    normaliser = run_normaliser(spec.normaliser, drawn)
    return make_header(
        "latency",
        spec,
        normaliser=normaliser.to_json(),
        # Runs of one corpus have one digest, whatever was drawn of it, and however many a budget had time for.
        corpus={**corpus_to_json(corpus, corpus.utterances, normaliser), "digest": digest},
        digests={
            **engine_digests(spec.engines, inspections),
            **audio_digests(corpus.utterances, spec.progress),
        },
    )


def _run_plan(spec: LatencySpec, record: Record, budget: Budget, opened: Mapping[str, OpenedEngine]) -> None:
    """Stream what is not in the record yet, in every round of a fixed plan."""
    assert spec.rounds is not None
    names, utterances = engine_names(spec.engines), UtteranceTable.of_header(record.header)
    longest = max(utterances, key=duration_s)
    for index in range(spec.rounds):
        _Round(spec, record, budget, index, names, opened if index == 0 else {}).take(utterances, longest)


def _run_budget(spec: LatencySpec, record: Record, budget: Budget, opened: Mapping[str, OpenedEngine]) -> None:
    """Stream all utterances once, and then again and again for what is open, as long as there is time."""
    schedule, utterances = LatencySchedule(spec, record, budget), UtteranceTable.of_header(record.header)
    longest = max(utterances, key=duration_s)
    while (names := schedule.next_engines()) and budget.left_s:
        round_ = _Round(spec, record, budget, schedule.index, names, opened if schedule.index == 0 else {})
        try:
            round_.take(utterances, longest)
        except BudgetSpentError:
            break
        finally:
            schedule.note(round_.seconds)
            store_spent(record, budget)


class _Round:
    """One round: a fresh process for each of its engines, which take turns utterance by utterance."""

    def __init__(
        self,
        spec: LatencySpec,
        record: Record,
        budget: Budget,
        index: int,
        names: Sequence[str],
        opened: Mapping[str, OpenedEngine],
    ) -> None:
        self._spec, self._record, self._budget, self._index = spec, record, budget, index
        self._names = names
        self._engines = self._open(opened)

    @property
    def seconds(self) -> dict[str, float]:
        """The seconds that each engine took."""
        return {engine.name: engine.seconds for engine in self._engines}

    def take(self, utterances: UtteranceTable, longest: Utterance) -> None:
        """Stream what is not in the record yet, and measure memory with the longest utterance."""
        done, total, size = 0, len(self._engines) * (len(utterances) + 1), self._spec.streams
        fixed = self._spec.rounds
        # The bar of a fixed plan is that of the whole run.
        before, whole = (0, total) if fixed is None else (self._index * total, fixed * total)
        task = "streaming" if fixed is not None else "first sweep" if self._index == 0 else f"round {self._index + 1}"

        def report(count: int) -> None:
            nonlocal done
            done += count
            self._spec.report(task, before + done, whole)

        def show() -> None:
            left_s = None if fixed is not None else self._budget.left_s
            self._spec.show(self._record, f"round {self._index + 1}", left_s)

        def take(engines: Sequence[EngineRound], turn: int, start: int) -> bool:
            group = utterances[start : start + size]
            for position in alternating_order(len(engines), turn + self._index):
                engines[position].stream(group)
                report(len(group))
            show()
            return True

        with _closing(self._engines):
            share_out(range(0, len(utterances), size), self._engines, self._more_engines, take)
            for engine in self._engines:
                engine.measure_memory(longest)
                report(1)
            show()

    def _open(self, opened: Mapping[str, OpenedEngine]) -> list[EngineRound]:
        """The engines of this round, those that are opened as they are."""
        specs = dict(zip(engine_names(self._spec.engines), self._spec.engines, strict=True))
        of_all = (self._index, self._spec, self._record, self._budget)
        return [EngineRound(name, specs[name], *of_all, opened.get(name)) for name in self._names]

    @contextmanager
    def _more_engines(self) -> Iterator[list[EngineRound]]:
        """The engines of this round once more, on another machine."""
        with _closing(engines := self._open({})):
            yield engines


@contextmanager
def _closing(engines: Sequence[EngineRound]) -> Iterator[None]:
    """End the processes of engines at the end."""
    try:
        yield
    finally:
        for engine in engines:
            engine.close()
