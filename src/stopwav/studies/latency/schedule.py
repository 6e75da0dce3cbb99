"""Which engines a budgeted run streams next: all of them once, then those of which something is still open."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from stopwav.record import Record, Result
from stopwav.stats.change import Change
from stopwav.studies.budget import FEWEST_ROUNDS, Budget, half_width, spent_s
from stopwav.studies.engine_names import engine_names
from stopwav.studies.latency.explain import explanation
from stopwav.studies.latency.pairs import engine_verdicts
from stopwav.studies.latency.results import latency_results
from stopwav.studies.latency.spec import LatencySpec
from stopwav.studies.latency.stored_pieces import missing_keys

# What people read first: the wait for a word and for the first text, and the speed.
HEADLINE = ("word_latency_p50", "first_word_latency_p50", "rtf")
# Rounds over which the narrowing of an interval is looked at: from one to the next it is mostly chance.
WINDOW = 2
# With more rounds an interval narrows by their square root. Where it narrows by less than half of that, utterances
# differ and not rounds, of which no number helps.
LEAST_NARROWING = 0.5
# A round takes longer than the last one now and then.
SLOWER = 1.1


class LatencySchedule:
    """The rounds of a budgeted run, one after the other."""

    def __init__(self, spec: LatencySpec, record: Record, budget: Budget) -> None:
        self._spec, self._record, self._budget = spec, record, budget
        self._names = engine_names(spec.engines)
        # Seconds of the last round of each engine.
        self._seconds: dict[str, float] = {}
        # Half-widths of intervals by the number of rounds behind them, of each engine and metric.
        self._widths: dict[tuple[str, str], dict[int, float]] = {}
        rounds = {int(key[1]) for key in record.keys if key[0] == "stream"}
        self._resumed = bool(rounds)
        # The number of the next round.
        self.index = max(rounds, default=0)
        if rounds:
            share_s = spent_s(record) / (len(rounds) * len(self._names))
            self._seconds = dict.fromkeys(self._names, share_s)

    def next_engines(self) -> list[str]:
        """Return the engines of the next round, in their order; none where nothing is open, or no time is left."""
        if any(True for _ in missing_keys(self._record)):
            self.index = 0
            return self._names
        if self._resumed:
            self._resumed = False
            if unfinished := self._unfinished():
                return unfinished
        self.index = 1 + max(int(key[1]) for key in self._record.keys if key[0] == "stream")
        groups = list(self._open_groups())
        everything = [name for name in self._names if any(name in group for group in groups)]
        # Where there is no time for all, the first group that there is time for.
        fitting = (names for names in [everything, *groups] if names and self._fits(names))
        return next(fitting, [])

    def note(self, seconds: Mapping[str, float]) -> None:
        """Note how long each engine took in a round."""
        self._seconds |= seconds

    def _fits(self, names: list[str]) -> bool:
        return self._budget.fits(SLOWER * sum(self._seconds.get(name, 0.0) for name in names))

    def _unfinished(self) -> list[str]:
        """The engines of the last round that was begun and not finished; a run that was stopped ends with it."""
        count = len(self._record.header.corpus["utterances"])
        streamed = [str(key[2]) for key in self._record.keys if key[:2] == ("stream", self.index)]
        unfinished = (
            name
            for name in self._names
            if 0 < streamed.count(name) < count
            or (name in streamed and ("memory", self.index, name) not in self._record)
        )
        return list(unfinished)

    def _open_groups(self) -> Iterator[list[str]]:
        """Yield engines that need another round, together with those that they are compared with; the surest first."""
        results = [result for result in latency_results(self._record) if result.metrics]
        measured = [result.name for result in results]
        until = getattr(self._spec, "until", None)
        if until is not None:
            if not until(self._record):
                yield measured
            return
        yield from (pair for _, pair in sorted(self._undecided()))
        for result in results:
            if self._is_wide(result):
                yield [result.name]

    def _undecided(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the pairs whose verdict some number of rounds would decide, each with that number."""
        explained, compared = explanation(self._record), engine_verdicts(self._record)
        changes: list[tuple[str, tuple[Change, ...]]] = []
        if explained is not None:
            engines = {knob.setting: knob.engine for knob in self._spec.knobs or () if knob.engine is not None}
            changes = [(engines[gain.setting], (gain.felt,)) for gain in explained.gains]
        elif compared is not None:
            changes = [(verdict.engine, (verdict.felt, verdict.rtf)) for verdict in compared.verdicts]
        for name, asked in changes:
            more = [change.more_rounds for change in asked if change.verdict == "undecided" and change.more_rounds]
            if more:
                yield min(more), [self._names[0], name]

    def _is_wide(self, result: Result) -> bool:
        """Whether an interval of an engine is wide, and more rounds would narrow it."""
        rounds = int(str(result.params["rounds"]))
        if rounds < FEWEST_ROUNDS:  # until then intervals do not include how rounds differ
            return True
        wide = False
        for metric in HEADLINE:
            width = half_width(result.metrics[metric])
            # An interval that includes 0, or that is missing for lack of utterances: no number of rounds helps.
            if math.isinf(width):
                continue
            widths = self._widths.setdefault((result.name, metric), {})
            widths[rounds] = width
            wide = wide or (widths[rounds] > self._spec.precision and not _is_stalled(widths, rounds))
        return wide


def _is_stalled(widths: Mapping[int, float], rounds: int) -> bool:
    """Whether more rounds no longer narrow an interval."""
    before = widths.get(rounds - WINDOW)
    if before is None:
        return False
    by_rounds = 1 - math.sqrt((rounds - WINDOW) / rounds)
    return 1 - widths[rounds] / before < LEAST_NARROWING * by_rounds
