"""`stopwav diff`: what changed from one saved run to another, item by item and metric by metric."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.stats import DEFAULT_THRESHOLD, Rule
from stopwav.stats.change import Change, Question, answer_all
from stopwav.studies.budget import verdict_rule
from stopwav.studies.comparable import (
    Comparable,
    ComparableItem,
    Errors,
    RoundMetric,
    Values,
    ask_error_rate,
    ask_metric,
)
from stopwav.studies.corpus_header import first_names
from stopwav.studies.diff.obstacles import check_comparable, differences, visible
from stopwav.studies.run_choice import choose_pair, choose_run
from stopwav.studies.stored_fields import readable
from stopwav.studies.study import check_run, study_of

Run = Record | Path | str


@dataclass(frozen=True)
class ItemDiff:
    """One item of both runs: its changes, on how many utterances they rest, and which ones b lost."""

    name: str
    changes: tuple[Change, ...]
    utterances: int
    lost: tuple[str, ...] = ()
    # Of a part of another item, such as a module: its name in the tree of parts, and how deep it stands there.
    part: str = ""
    depth: int = 0


@dataclass(frozen=True)
class Diff:
    """The changes from run a to run b; `forced` lists the obstacles to comparing them that were overridden."""

    a: Path
    b: Path
    study: str
    items: tuple[ItemDiff, ...]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    forced: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    # How the verdicts from rounds are made.
    rule: Rule = "fixed"
    # Those of `only_a` that b should have: without them it may look better than it is.
    lost: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as `--json` prints it."""
        return {
            "study": self.study,
            "a": str(self.a),
            "b": str(self.b),
            "forced": list(self.forced),
            "remarks": list(self.remarks),
            "only_a": list(self.only_a),
            "only_b": list(self.only_b),
            "results": [
                {
                    "name": item.name,
                    "utterances": item.utterances,
                    "lost": list(item.lost),
                    **({"part": item.part, "depth": item.depth} if item.part else {}),
                    "changes": [change.to_json() for change in item.changes],
                }
                for item in self.items
            ],
        }


def diff(
    a: Run,
    b: Run,
    *,
    threshold: float = DEFAULT_THRESHOLD,
    thresholds: Mapping[str, float] | None = None,
    force: bool = False,
) -> Diff:
    """Return what changed from run `a` to run `b`, with one confidence of 95 % for all verdicts together.

    `threshold` is the relative change that is of no concern; `thresholds` names metrics for which it is another one.
    Raises where the runs cannot be compared, unless `force` is given.
    """
    before, after = open_pair(a, b)
    if before.header.study != after.header.study:
        raise StopwavError(
            f"{before.path}: a run of {before.header.study!r}; {after.path}: a run of {after.header.study!r}; "
            "compare runs of the same study"
        )
    before, after = read_run(before), read_run(after)
    with readable(after, f"changes from {before.path}"):
        return _diff(before, after, threshold, thresholds, force)


def _diff(before: Record, after: Record, threshold: float, thresholds: Mapping[str, float] | None, force: bool) -> Diff:
    comparable = comparable_of(before)
    limits = limits_by_metric(comparable, threshold, thresholds)
    in_a, in_b = items_of(before), items_of(after)
    shared = [name for name in in_a if name in in_b]
    forced = check_comparable(before, after, comparable, shared, force)
    if not shared:
        raise StopwavError(
            f"{before.path} and {after.path} have no {comparable.noun} in common: "
            f"{visible(first_names(list(in_a)) or 'none')} against {visible(first_names(list(in_b)) or 'none')}; "
            f"name the {comparable.noun} the same way in both runs"
        )
    pairs = {name: (in_a[name], in_b[name]) for name in shared}
    # Two runs by a fixed plan have as many rounds whatever these said; where a budget or a person ended one, it may be
    # because of what was seen.
    rule: Rule = "anytime" if "anytime" in map(verdict_rule, (before, after)) else "fixed"
    items = _compare(comparable, pairs, limits, rule)
    return Diff(
        a=before.path,
        b=after.path,
        study=before.header.study,
        items=items,
        only_a=tuple(name for name in in_a if name not in in_b),
        lost=tuple(name for name, item in in_a.items() if name not in in_b and not item.optional),
        only_b=tuple(name for name in in_b if name not in in_a),
        forced=forced,
        remarks=(*differences(before, after), *_remarks(comparable.sample, pairs, items)),
        rule=rule,
    )


def open_pair(a: Run, b: Run) -> tuple[Record, Record]:
    """Return two runs that are to be compared; names of folders stand for runs of one study."""
    if not isinstance(a, Record) and not isinstance(b, Record):
        a, b = (choice.path for choice in choose_pair(a, b))
    study = next((run.header.study for run in (a, b) if isinstance(run, Record)), None)
    before, after = (run if isinstance(run, Record) else Record.read(choose_run(run, study).path) for run in (a, b))
    return before, after


def read_run(run: Run) -> Record:
    """Return the run in a file, the newest one in a folder, or the one that is given; an edited one is an error."""
    record = run if isinstance(run, Record) else Record.read(choose_run(run).path)
    check_run(record, study_of(record))
    return record


def items_of(record: Record) -> dict[str, ComparableItem]:
    """Return what a run has to compare; a value in it that cannot be read is an error that names the run."""
    with readable(record, "values to compare"):
        items = comparable_of(record).items(record)
    return {name: _guarded(record, item) for name, item in items.items()}


def _guarded(record: Record, item: ComparableItem) -> ComparableItem:
    def values(metric: RoundMetric, utterances: set[str]) -> Values:
        with readable(record, metric.name):
            return item.values(metric, utterances)

    def errors(rate: str, utterances: Sequence[str]) -> Errors:
        assert item.errors is not None
        with readable(record, rate):
            return item.errors(rate, utterances)

    return replace(item, values=values, errors=None if item.errors is None else errors)


def comparable_of(record: Record) -> Comparable:
    """Return how runs of this study are compared; an error where they are not."""
    comparable = study_of(record).comparable
    if comparable is None:
        raise StopwavError(f"{record.path}: comparing two runs is not supported for {record.header.study} runs")
    return comparable


def limits_by_metric(
    comparable: Comparable, threshold: float, thresholds: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the threshold of every metric."""
    names = comparable.metric_names
    for name, value in {"threshold": threshold, **(thresholds or {})}.items():
        if not (math.isfinite(value) and value >= 0):
            raise StopwavError(f"threshold {value} of {name}: must be 0 or more, such as 0.01 for 1 %")
    unknown = [name for name in thresholds or {} if name not in names]
    if unknown:
        raise StopwavError(f"threshold for {unknown[0]!r}: no such metric here; there are {', '.join(names)}")
    return {name: (thresholds or {}).get(name, threshold) for name in names}


def common_utterances(a: ComparableItem, b: ComparableItem) -> list[str] | None:
    """Return the utterances that completed in every round of both runs, with the same transcript, in a's order."""
    if a.utterances is None or b.utterances is None:
        return None
    return [name for name, text in a.utterances.items() if name in b.utterances and b.utterances[name] == text]


def _compare(
    comparable: Comparable,
    pairs: Mapping[str, tuple[ComparableItem, ComparableItem]],
    limits: Mapping[str, float],
    rule: Rule,
) -> tuple[ItemDiff, ...]:
    """The diff of each item; all their questions are decided together."""
    common = {name: common_utterances(*pair) for name, pair in pairs.items()}
    asked = {name: list(_questions(comparable, *pair, common[name], limits, rule)) for name, pair in pairs.items()}
    wholes = [name for name, (a, _) in pairs.items() if not a.part]
    weighted = {**_weighted(asked, wholes), **_weighted(asked, [name for name in pairs if name not in wholes])}
    answers = iter(answer_all([question for name in pairs for question in weighted[name]]))
    return tuple(
        ItemDiff(
            name,
            tuple(next(answers) for _ in asked[name]),
            1 if (utterances := common[name]) is None else len(utterances),
            tuple(sorted((a.utterances or {}).keys() - (b.utterances or {}).keys())),
            a.part,
            a.depth,
        )
        for name, (a, b) in pairs.items()
    )


def _weighted(asked: Mapping[str, Sequence[Question]], names: Sequence[str]) -> dict[str, list[Question]]:
    """The questions about these items with the same weight for each, 1 for all of them together.

    So wholes and parts have a half of the probability of error each: a step with a hundred modules is decided by
    nearly as few rounds as one with two.
    """
    tests = sum(question.p_value is not None for name in names for question in asked[name])
    return {name: [replace(question, weight=1 / max(1, tests)) for question in asked[name]] for name in names}


def _questions(
    comparable: Comparable,
    a: ComparableItem,
    b: ComparableItem,
    utterances: Sequence[str] | None,
    limits: Mapping[str, float],
    rule: Rule,
) -> Iterator[Question]:
    """The questions about one item; none where it has no utterance in common."""
    if utterances is not None and not utterances:
        return
    chosen = set(utterances or ())
    for metric in comparable.metrics_of(a, b):
        values = a.values(metric, chosen), b.values(metric, chosen)
        yield ask_metric(metric, *values, limits[metric.name], rule=rule)
    yield from error_questions(comparable, a, b, utterances or (), limits)


def error_questions(
    comparable: Comparable,
    a: ComparableItem,
    b: ComparableItem,
    utterances: Sequence[str],
    limits: Mapping[str, float],
) -> Iterator[Question]:
    """Yield the question about each error rate, over these utterances."""
    if a.errors is not None and b.errors is not None:
        for rate in comparable.error_rates:
            errors_a, errors_b = (errors(rate, utterances) for errors in (a.errors, b.errors))
            yield ask_error_rate(rate, errors_a, errors_b, limits[rate])


def _remarks(
    sample: str, pairs: Mapping[str, tuple[ComparableItem, ComparableItem]], items: Sequence[ItemDiff]
) -> Iterator[str]:
    """The rounds and utterances of each item that could not be used; what a part lacks, its whole lacks too."""
    for item in (item for item in items if not item.part):
        a, b = pairs[item.name]
        for which, side in (("a", a), ("b", b)):
            if side.unfinished_rounds:
                total = side.unfinished_rounds + side.rounds
                yield f"{item.name}: {side.unfinished_rounds} unfinished of {total} rounds left out of {which}"
        if not item.changes:
            yield f"{item.name}: no {sample} completed in every round of both runs, so nothing is compared"
        elif item.lost:
            yield f"{item.name}: b lost {first_names(item.lost)}, left out of the comparison"
        gained = sorted((b.utterances or {}).keys() - (a.utterances or {}).keys())
        if gained:
            yield f"{item.name}: a lost {first_names(gained)}, left out of the comparison"
