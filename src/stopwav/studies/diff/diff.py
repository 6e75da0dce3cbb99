"""`stopwav diff`: what changed from one saved run to another, item by item and metric by metric."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import Header, Record
from stopwav.report.provenance import normaliser_text
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
    before, after = (run if isinstance(run, Record) else Record.read(Path(run)) for run in (a, b))
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
    forced = check_comparable(before, after, shared, force)
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
        only_b=tuple(name for name in in_b if name not in in_a),
        forced=forced,
        remarks=(*differences(before, after), *_remarks(pairs, items)),
        rule=rule,
    )


def read_run(run: Run) -> Record:
    """Return the run in a file, or the one that is given; one that was edited is an error."""
    record = run if isinstance(run, Record) else Record.read(Path(run))
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


def check_comparable(a: Record, b: Record, names: Sequence[str], force: bool) -> tuple[str, ...]:
    """Return the obstacles to comparing the runs, where `force` overrides them; without it they are an error."""
    against = obstacles(a, b, comparable_of(a), names)
    if against and not force:
        raise StopwavError(
            f"{b.path} cannot be compared with {a.path}: {'; '.join(against)}; "
            "measure both the same way, or add --force to compare them all the same"
        )
    return tuple(against)


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
    answers = iter(answer_all([question for questions in asked.values() for question in questions]))
    return tuple(
        ItemDiff(
            name,
            tuple(next(answers) for _ in asked[name]),
            1 if (utterances := common[name]) is None else len(utterances),
            tuple(sorted((a.utterances or {}).keys() - (b.utterances or {}).keys())),
        )
        for name, (a, b) in pairs.items()
    )


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
    for metric in comparable.metrics:
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


def _remarks(pairs: Mapping[str, tuple[ComparableItem, ComparableItem]], items: Sequence[ItemDiff]) -> Iterator[str]:
    """The rounds and utterances of each item that could not be used."""
    for item in items:
        a, b = pairs[item.name]
        for which, side in (("a", a), ("b", b)):
            if side.unfinished_rounds:
                total = side.unfinished_rounds + side.rounds
                yield f"{item.name}: {side.unfinished_rounds} unfinished of {total} rounds left out of {which}"
        if not item.changes:
            yield f"{item.name}: no utterance completed in every round of both runs, so nothing is compared"
        elif item.lost:
            yield f"{item.name}: b lost {first_names(item.lost)}, left out of the comparison"
        gained = sorted((b.utterances or {}).keys() - (a.utterances or {}).keys())
        if gained:
            yield f"{item.name}: a lost {first_names(gained)}, left out of the comparison"


def obstacles(a: Record, b: Record, comparable: Comparable, names: Sequence[str]) -> list[str]:
    """Return why b cannot be compared with a: another machine, corpus, normaliser or setting of the run or an item."""
    first, second = a.header, b.header
    rows: list[tuple[str, object, object]] = [
        ("machine", _machine(first.machine), _machine(second.machine)),
        ("corpus", _named(first.corpus, "digest"), _named(second.corpus, "digest")),
        ("normaliser", normaliser_text(first), normaliser_text(second)),
    ]
    rows += shared_settings(_alignment(first), _alignment(second), "")
    rows += shared_settings(comparable.settings(a), comparable.settings(b), "")
    for name in names:
        # An engine that never came up has no settings; that it is missing is said elsewhere.
        rows += shared_settings(comparable.item_settings(a, name), comparable.item_settings(b, name), f" of {name}")
    return [visible(f"other {what} ({before} against {after})") for what, before, after in rows if before != after]


def shared_settings(a: Mapping[str, object], b: Mapping[str, object], of: str) -> list[tuple[str, object, object]]:
    """Return the settings that both know, each with its two values."""
    return [(f"{setting}{of}", a[setting], b[setting]) for setting in a if setting in b]


def differences(a: Record, b: Record) -> list[str]:
    """Return what differs between the runs though they may be compared, and the warnings each was measured under."""
    remarks = [f"{what}: {before or 'none'} in a, {after or 'none'} in b" for what, before, after in _software(a, b)]
    for which, record in (("a", a), ("b", b)):
        if not record.complete:
            remarks.append(f"{which} is not complete: only what it holds is compared; --resume continues it")
        codes = dict.fromkeys(warning["code"] for warning in record.header.warnings)
        if codes:
            remarks.append(f"{which} was measured under warnings: {', '.join(codes)}")
    return remarks


def visible(text: str) -> str:
    """Return the text with what cannot be seen as escapes: names come from files, and an error is one line."""
    return repr(text)[1:-1]


def _software(a: Record, b: Record) -> Iterator[tuple[str, object, object]]:
    """Software that is not the same in both runs."""
    if a.header.stopwav != b.header.stopwav:
        yield "stopwav", a.header.stopwav, b.header.stopwav
    first, second = a.header.machine, b.header.machine
    for field in ("system", "python"):
        if first.get(field) != second.get(field):
            yield field, first.get(field), second.get(field)
    for field in ("packages", "threads"):
        before, after = first.get(field) or {}, second.get(field) or {}
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                yield key, before.get(key), after.get(key)


def _alignment(header: Header) -> dict[str, object]:
    """What found the word times, where the run says so."""
    return {"aligner": header.corpus["aligner"]} if "aligner" in header.corpus else {}


def _machine(machine: Mapping[str, Any]) -> str:
    return f"{machine.get('cpu', 'unknown')}, fingerprint {machine.get('fingerprint', 'unknown')}"


def _named(fields: Mapping[str, Any], detail: str) -> str:
    return f"{fields.get('name', 'unknown')}, {detail} {fields.get(detail, 'unknown')}"
