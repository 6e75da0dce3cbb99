"""Rounds of a comparison: which lengths and inputs, in which order and time, by engines that are loaded together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from stopwav.record import Record
from stopwav.speech.corpus import Utterance
from stopwav.studies.budget import Budget
from stopwav.studies.compare.passes import engine_worker
from stopwav.studies.compare.pieces import length_place
from stopwav.studies.compare.samples import inputs_of
from stopwav.studies.compare.spec import CompareSpec, plan_of
from stopwav.studies.compare.turns import EnginesDoNotFit, Group, take_input, take_length, warm_group
from stopwav.studies.launch.shards import share_out
from stopwav.studies.piece_kinds import first_missing
from stopwav.studies.stored_rounds import missing_rounds
from stopwav.studies.worker import MAX_DEATHS

# Of the time of a round that has both, lengths and inputs get as much each.
LENGTHS_SHARE = 0.5


@dataclass(frozen=True)
class Work:
    """One round: the lengths in the order of their visits, the places of its inputs, and the seconds that it may take.

    At least `fewest` inputs are taken, whatever the time. `calls_s` has what one call of each engine takes at a length,
    together, where that is known.
    """

    engines: Sequence[str]
    lengths: Sequence[int]
    places: Sequence[int]
    time_s: float
    fewest: int
    calls_s: Mapping[int, float] = field(default_factory=dict)


@dataclass
class EngineRounds:
    """The rounds of a run as they are measured; the engines by name, each as the user wrote it."""

    spec: CompareSpec
    record: Record
    engines: Mapping[str, str]
    budget: Budget
    # Seconds in which the engines of the last round were loaded and warm.
    load_s: float = 0.0
    # Whether engines are measured one after the other, since they do not fit into memory together.
    apart: bool = False

    def take(self, index: int, work: Work) -> None:
        """Measure a round; pieces that the record has already are left as they are."""
        try:
            if not self.apart:
                self._take(index, work)
                return
        except EnginesDoNotFit:
            self.spec.say("the engines do not fit into memory together: they are measured one after the other")
            self.apart = True
        alone = replace(work, time_s=work.time_s / len(work.engines))
        for name in work.engines:
            taken = self._take(index, replace(alone, engines=[name]))
            # The others get the same inputs.
            alone = replace(alone, places=alone.places[:taken], fewest=taken)
        # An engine that runs out of memory by itself is no reason to keep them apart.
        self.apart = not any(
            piece.status == "oom" for piece in self.record.pieces if piece.key[:2] == ["length", index]
        )

    def _take(self, index: int, work: Work) -> int:
        """Measure a round of engines that are loaded together, and return how many inputs they have transcribed."""
        begin_s, inputs = self.budget.spent_s, inputs_of(self.record)
        names = [name for name in work.engines if self._lacks(index, name, work)]
        if not names:
            return work.fewest
        with ExitStack() as stack:
            workers = {name: stack.enter_context(engine_worker(self.engines[name], self.budget)) for name in names}
            plan, first = plan_of(self.spec), inputs[work.places[0] if work.places else 0]
            group = Group(self.record, index, workers, plan, self.budget, self.spec.is_budgeted, first)
            warm_group(group)
            self.load_s = self.budget.spent_s - begin_s
            left_s = work.time_s - self.load_s
            self._take_lengths(group, work, left_s * LENGTHS_SHARE if work.places else left_s)
            return self._take_inputs(group, work, inputs, begin_s + work.time_s)

    def _lacks(self, index: int, name: str, work: Work) -> bool:
        """Whether the run lacks something of an engine in a round: an earlier command may have measured it all."""
        places = (length_place(name, frames) for frames in work.lengths)
        inputs = (("sample", index, name, place) for place in work.places[: work.fewest])
        return any(first_missing(missing_rounds(self.record, place, index)) for place in places) or any(
            key not in self.record for key in inputs
        )

    def _take_lengths(self, group: Group, work: Work, time_s: float) -> None:
        """Visit the lengths: each has time for a call of each engine, and an equal part of what is left besides."""
        end_s, calls_s = self.budget.spent_s + time_s, dict(work.calls_s)
        for position, frames in enumerate(work.lengths):
            self._show(f"round {group.index + 1}, {frames} frames")
            to_come = work.lengths[position:]
            if position and frames not in calls_s:
                before = work.lengths[position - 1]
                calls_s[frames] = calls_s[before] * frames / before
            needed_s = sum(calls_s.get(length, 0.0) for length in to_come)
            spare_s = max(0.0, end_s - self.budget.spent_s - needed_s) / len(to_come)
            if self.budget.fits(calls_s.get(frames, 0.0)):
                share_s = calls_s.get(frames, 0.0) + spare_s
                calls_s[frames] = take_length(group, frames, position, share_s) or calls_s.get(frames, 0.0)
            done = group.index * len(work.lengths) + position + 1
            self._report("latency over length", done, (self.spec.rounds or 0) * len(work.lengths))

    def _take_inputs(self, group: Group, work: Work, inputs: Sequence[Utterance], end_s: float) -> int:
        """Transcribe inputs, the engines alternating at each, until the time is over; return how many."""
        begin_s = self.budget.spent_s
        for worker in group.workers.values():
            worker.max_deaths = MAX_DEATHS
        # Counted once: of a large corpus it takes as long as an input.
        before = len({key[3] for key in self.record.keys if key[0] == "sample"} - set(work.places))

        def take(engines: Group, number: int, place: int) -> bool:
            now_s = self.budget.spent_s
            expected_s = (now_s - begin_s) / number if number else 0.0
            if not self.budget.fits(expected_s) or (number >= work.fewest and now_s + expected_s > end_s):
                return False
            if not take_input(engines, inputs[place], place, number):
                return False
            self._show(f"round {group.index + 1}, input {number + 1}")
            self._report("samples", before + number + 1, self.spec.samples)
            return True

        return share_out(work.places, group, partial(self._more_engines, group), take)

    @contextmanager
    def _more_engines(self, group: Group) -> Iterator[Group]:
        """The engines of a group once more, loaded and warm on another machine."""
        with ExitStack() as stack:
            workers = {
                name: stack.enter_context(engine_worker(self.engines[name], self.budget)) for name in group.workers
            }
            more = replace(group, workers=workers)
            warm_group(more)
            yield more

    def _report(self, task: str, done: int, total: int) -> None:
        """Move the bar of a fixed plan, or that of the budget."""
        if self.spec.is_budgeted:
            task, done, total = "budget, s", round(self.budget.spent_s), round(self.budget.total_s)
        self.spec.report(task, min(done, total), total)

    def _show(self, upcoming: str) -> None:
        self.spec.show(self.record, upcoming, self.budget.left_s if self.spec.is_budgeted else None)
