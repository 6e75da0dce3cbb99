"""`stopwav diff`: what changed from one saved run to another, item by item and metric by metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.stats import DEFAULT_THRESHOLD, Rule
from stopwav.stats.change import Change, Question, answer_all
from stopwav.studies.budget import verdict_rule
from stopwav.studies.comparable import Comparable, ComparableItem
from stopwav.studies.corpus_header import first_names
from stopwav.studies.diff.items import (
    common_utterances,
    comparable_of,
    item_questions,
    items_of,
    limits_by_metric,
)
from stopwav.studies.diff.models import ModelPair, match_items, pair_models
from stopwav.studies.diff.obstacles import Items, check_comparable, differences, model_differences, visible
from stopwav.studies.run_choice import choose_run, choose_runs
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
    # The pairs of models of which b has another one, or another setting of it.
    models: tuple[ModelPair, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as `--json` prints it."""
        return {
            "study": self.study,
            "a": str(self.a),
            "b": str(self.b),
            "forced": list(self.forced),
            "remarks": list(self.remarks),
            "models": [pair.to_json() for pair in self.models],
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


@dataclass(frozen=True)
class Diffs:
    """The changes from the first of several runs to each of the others; all verdicts have one confidence of 95 %."""

    diffs: tuple[Diff, ...]

    @property
    def a(self) -> Path:
        """The run that the others are held against."""
        return self.diffs[0].a

    def to_json(self) -> dict[str, Any]:
        """Return the comparisons as `--json` prints them: of two runs that one."""
        if len(self.diffs) == 1:
            return self.diffs[0].to_json()
        first = self.diffs[0]
        return {"study": first.study, "a": str(first.a), "diffs": [compared.to_json() for compared in self.diffs]}


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
    Engines are paired by their names, which labels give; where each run has a single one, these are a pair whatever
    they are called. Raises where the runs cannot be compared, unless `force` is given.
    """
    return diff_runs([a, b], threshold=threshold, thresholds=thresholds, force=force).diffs[0]


def diff_runs(
    runs: Sequence[Run],
    *,
    threshold: float = DEFAULT_THRESHOLD,
    thresholds: Mapping[str, float] | None = None,
    force: bool = False,
    by_name: bool = False,
) -> Diffs:
    """Return what changed from the first run to each of the others, as `diff` does.

    All verdicts together have one confidence of 95 %. With `by_name`, engines of different names are never a pair.
    """
    if len(runs) < 2:
        raise StopwavError(f"{len(runs)} run to compare; name two or more, the one to compare with first")
    before, *others = open_runs(runs)
    for after in others:
        if before.header.study != after.header.study:
            raise StopwavError(
                f"{before.path}: a run of {before.header.study!r}; {after.path}: a run of {after.header.study!r}; "
                "compare runs of the same study"
            )
    before, *others = [read_run(record) for record in (before, *others)]
    limits = limits_by_metric(comparable_of(before), threshold, thresholds)
    with ExitStack() as stack:
        for after in others:
            stack.enter_context(readable(after, f"changes from {before.path}"))
        matched = [match_runs(before, after, limits, force=force, by_name=by_name) for after in others]
        return Diffs(tuple(answered(matched)))


def open_runs(runs: Sequence[Run]) -> list[Record]:
    """Return runs that are to be compared; names of folders stand for runs of one study."""
    if not any(isinstance(run, Record) for run in runs):
        runs = [choice.path for choice in choose_runs([run for run in runs if not isinstance(run, Record)])]
    study = next((run.header.study for run in runs if isinstance(run, Record)), None)
    return [run if isinstance(run, Record) else Record.read(choose_run(run, study).path) for run in runs]


def read_run(run: Run) -> Record:
    """Return the run in a file, the newest one in a folder, or the one that is given; an edited one is an error."""
    record = run if isinstance(run, Record) else Record.read(choose_run(run).path)
    check_run(record, study_of(record))
    return record


@dataclass(frozen=True)
class MatchedRuns:
    """Two runs whose items are matched, by what the comparison calls them, and the questions about each item."""

    before: Record
    after: Record
    pairs: Mapping[str, tuple[ComparableItem, ComparableItem]]
    common: Mapping[str, list[str] | None]
    asked: Mapping[str, list[Question]]
    # The diff without its items.
    outline: Diff


def match_runs(
    before: Record, after: Record, limits: Mapping[str, float], *, force: bool, by_name: bool
) -> MatchedRuns:
    """Return the items that two runs have in common, and the questions about them; an error where there is none."""
    comparable = comparable_of(before)
    in_a, in_b = items_of(before), items_of(after)
    models = pair_models(before, after, comparable, by_name=by_name)
    matched = match_items(in_a, in_b, models)
    forced = check_comparable(before, after, comparable, matched, force, one_model=by_name)
    if not matched:
        raise StopwavError(_nothing_shared(before, after, comparable, in_a, in_b))
    titles = {name: name if pair is None else pair.title_of(name) for name, (_, pair) in matched.items()}
    pairs = {titles[name]: (in_a[name], in_b[name_b]) for name, (name_b, _) in matched.items()}
    common = {title: common_utterances(*pair) for title, pair in pairs.items()}
    # Two runs by a fixed plan have as many rounds whatever these said; where a budget or a person ended one, it may be
    # because of what was seen.
    rule: Rule = "anytime" if "anytime" in map(verdict_rule, (before, after)) else "fixed"
    other_settings = model_differences(before, after, comparable, matched)
    asked = {
        titles[name]: list(
            item_questions(
                comparable, pairs[titles[name]], common[titles[name]], limits, rule, _bound(comparable, differing)
            )
        )
        for name, differing in other_settings.items()
    }
    only_a, only_b = _unmatched(in_a, matched), [name for name in in_b if name not in dict(matched.values())]
    outline = Diff(
        a=before.path,
        b=after.path,
        study=before.header.study,
        items=(),
        only_a=tuple(only_a),
        lost=tuple(name for name in only_a if not in_a[name].optional),
        only_b=tuple(only_b),
        forced=forced,
        remarks=(*_model_remarks(models, titles, other_settings), *differences(before, after)),
        rule=rule,
        models=tuple(pair for pair in models if pair.differ),
    )
    return MatchedRuns(before, after, pairs, common, asked, outline)


def answered(matched: Sequence[MatchedRuns]) -> Iterator[Diff]:
    """Yield the diff of each pair of runs; all their questions are decided together."""
    keys = [(index, title) for index, runs in enumerate(matched) for title in runs.pairs]
    asked = {(index, title): matched[index].asked[title] for index, title in keys}
    wholes = [(index, title) for index, title in keys if not matched[index].pairs[title][0].part]
    weighted = {**_weighted(asked, wholes), **_weighted(asked, [key for key in keys if key not in set(wholes)])}
    answers = iter(answer_all([question for key in keys for question in weighted[key]]))
    for runs in matched:
        items = tuple(_item(runs, title, [next(answers) for _ in runs.asked[title]]) for title in runs.pairs)
        comparable = comparable_of(runs.before)
        remarks = (*runs.outline.remarks, *_remarks(comparable.sample, runs.pairs, items))
        yield replace(runs.outline, items=items, remarks=remarks)


def _item(runs: MatchedRuns, title: str, changes: Sequence[Change]) -> ItemDiff:
    (a, b), utterances = runs.pairs[title], runs.common[title]
    lost = sorted((a.utterances or {}).keys() - (b.utterances or {}).keys())
    return ItemDiff(title, tuple(changes), 1 if utterances is None else len(utterances), tuple(lost), a.part, a.depth)


def _unmatched(items: Mapping[str, ComparableItem], matched: Items) -> list[str]:
    return [name for name in items if name not in matched]


def _nothing_shared(
    before: Record, after: Record, comparable: Comparable, in_a: Iterable[str], in_b: Iterable[str]
) -> str:
    names_a, names_b = (visible(first_names(list(names)) or "none") for names in (in_a, in_b))
    return (
        f"{before.path} and {after.path} have no {comparable.noun} in common: {names_a} against {names_b}; name the "
        f"{comparable.noun} the same way in both runs; an engine takes a label, such as m=moonshine"
    )


def _bound(comparable: Comparable, differing: Mapping[str, tuple[object, object]]) -> dict[str, str]:
    """The metrics that are not compared as a setting differs, each with the reason."""
    return {
        metric: f"not compared: other {setting} ({before} against {after})"
        for setting, (before, after) in differing.items()
        for metric in comparable.bound_metrics.get(setting, ())
    }


def _model_remarks(
    models: Sequence[ModelPair],
    titles: Mapping[str, str],
    other_settings: Mapping[str, Mapping[str, tuple[object, object]]],
) -> Iterator[str]:
    """What differs between the models: their settings, and what came with them."""
    yield from filter(None, (pair.remark for pair in models))
    for name, differing in other_settings.items():
        for setting, (before, after) in differing.items():
            yield f"{titles[name]}: other {setting} ({before} against {after})"


def _weighted(
    asked: Mapping[tuple[int, str], Sequence[Question]], keys: Sequence[tuple[int, str]]
) -> dict[tuple[int, str], list[Question]]:
    """The questions about these items with the same weight for each, 1 for all of them together.

    So wholes and parts have a half of the probability of error each: a step with a hundred modules is decided by
    nearly as few rounds as one with two.
    """
    tests = sum(question.p_value is not None for key in keys for question in asked[key])
    return {key: [replace(question, weight=1 / max(1, tests)) for question in asked[key]] for key in keys}


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
