"""`stopwav gate --race`: baseline and change take turns in one run, so that a drift of the machine moves both alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.stats import DEFAULT_THRESHOLD, Estimate, Rule
from stopwav.stats.change import Change, Question, answer_all
from stopwav.studies.budget import FEWEST_ROUNDS, half_width, pieces_by_round, rounds_text, spent_s, verdict_rule
from stopwav.studies.comparable import Comparable, ComparableItem, Values, ask_metric
from stopwav.studies.diff.diff import Diff, ItemDiff, Run, read_run
from stopwav.studies.diff.gate import CONDITIONS, Gate, RaceFacts, check_conditions, condition_of, judge
from stopwav.studies.diff.items import common_utterances, comparable_of, error_questions, items_of, limits_by_metric
from stopwav.studies.diff.obstacles import shared_settings
from stopwav.studies.engine_check import check_engines
from stopwav.studies.engine_names import engine_names
from stopwav.studies.spec import StudySpec, checked
from stopwav.studies.stored_fields import readable
from stopwav.studies.study import Study, find_study, piece_kinds

# The studies of a race: where both engines stream, and where they do not.
STREAMING, OFFLINE = "latency", "compare"
# The values of each metric in one round, of the baseline and of the change.
RoundValues = dict[str, tuple[Values, Values]]


@dataclass(frozen=True)
class Terms:
    """What a race is judged by; `precision` is the half-width of a ratio below which no more rounds are asked for."""

    fail_on: tuple[str, ...]
    threshold: float = DEFAULT_THRESHOLD
    thresholds: Mapping[str, float] | None = None
    precision: float = 0.0
    # The rounds that were read before, each with its number of pieces: a race is looked at after every round.
    known: dict[int, tuple[int, RoundValues]] = field(default_factory=dict)


def gate_race(
    base: str,
    change: str,
    *,
    study: str | None = None,
    fail_on: Sequence[str] = tuple(CONDITIONS),
    threshold: float = DEFAULT_THRESHOLD,
    thresholds: Mapping[str, float] | None = None,
    **settings: Any,
) -> Gate:
    """Measure the engine `change` and the engine `base`, interleaved in one run, and return whether `change` holds.

    The run is of `study`: by default `latency` where both engines stream, else `compare`; `settings` are those of the
    study, such as `budget_s`, `corpus` and `save`. It stops as soon as every condition of `fail_on` is decided, or its
    budget is spent; with `rounds` it is a fixed plan. A ratio that is known to `precision` is not measured further.
    """
    check_conditions(fail_on)
    chosen, reason = (study, "") if study is not None else race_study([base, change])
    found = find_study(chosen)
    settings = {name: value for name, value in settings.items() if value is not None}
    spec = _checked(found, [base, change], settings)
    precision = float(getattr(spec, "precision", 0.0)) if "precision" in settings else 0.0
    terms = Terms(tuple(fail_on), threshold, thresholds, precision)
    limits_by_metric(found.comparable, threshold, thresholds)  # type: ignore[arg-type]
    record = found.run(engines=[base, change], until=lambda record: is_decided(record, terms), **settings)
    judged = judge_race(record, terms)
    return replace(judged, diff=replace(judged.diff, remarks=(*([reason] if reason else ()), *judged.diff.remarks)))


def race_study(engines: Sequence[str]) -> tuple[str, str]:
    """Return the study for these engines and, where it is not the one of streams, why not."""
    for engine, inspection in zip(engines, check_engines(engines), strict=True):
        if not inspection.streaming:
            known = inspection.streaming is not None
            reason = f"{engine} does not stream" if known else f"whether {engine} streams is known only once it loads"
            return OFFLINE, f"measured by {OFFLINE}: {reason}; --study {STREAMING} measures streams"
    return STREAMING, ""


def judge_race(run: Run, terms: Terms) -> Gate:
    """Return whether the second engine of a run holds against its first, round by round."""
    record = read_run(run if isinstance(run, Record) else Path(run))
    with readable(record, "changes between its engines"):
        return _judge(record, terms)


def is_decided(record: Record, terms: Terms) -> bool:
    """Whether every condition is decided, so that the run may stop: what decides has to be valid at any stop.

    An error rate has no such rule. Where rounds bring further utterances, it lets the run stop only while no utterance
    differs; where they do not, more rounds would not decide it.
    """
    try:
        judged = _judge(record, terms)
    except StopwavError:  # nothing to compare: not yet, or never, where the baseline fails
        base, _ = _two_engines(record)
        return any(piece.status != "ok" and base in piece.key for piece in record.pieces)
    (item,) = judged.diff.items
    if not item.changes:
        return True
    comparable = comparable_of(record)
    enough = judged.race is not None and judged.race.rounds >= FEWEST_ROUNDS
    growing = comparable.rounds_add_utterances and any(
        change.p_value is not None
        for change in item.changes
        if change.by == "difference" and condition_of(change) in terms.fail_on
    )
    return enough and not growing and not _open_changes(comparable, item.changes, terms)


def _checked(study: Study, engines: list[str], settings: Mapping[str, Any]) -> StudySpec:
    """The settings of the run; an error where the study cannot have two engines take turns, or lacks a setting."""
    if study.comparable is None or not study.comparable.races:
        raise StopwavError(f"--study {study.name}: it does not measure two engines in one run; use latency or compare")
    return checked(study.spec, engines=engines, **settings)


def _judge(record: Record, terms: Terms) -> Gate:
    comparable = comparable_of(record)
    base, change = _two_engines(record)
    paired = _paired_pieces(record, base, change)
    items = items_of(paired)
    utterances = common_utterances(items[base], items[change])
    if not utterances:
        _check_measured(record, base, change)
    by_round = list(_round_values(paired, base, change, terms.known))
    rule = verdict_rule(record)
    limits = limits_by_metric(comparable, terms.threshold, terms.thresholds)
    questions: list[Question] = []
    if utterances and by_round:
        pair = items[base], items[change]
        questions += _questions(comparable, *pair, set(utterances), by_round, limits, rule)
        questions += error_questions(comparable, *pair, utterances, limits)
    lost = sorted((items[base].utterances or {}).keys() - (items[change].utterances or {}).keys())
    item = ItemDiff(change, tuple(answer_all(questions)), len(utterances or ()), tuple(lost))
    remarks = tuple(_remarks(record, comparable, base, change, item))
    diff = Diff(record.path, record.path, record.header.study, (item,), remarks=remarks, rule=rule)
    facts = RaceFacts(base, change, len(by_round), rounds_text(record, piece_kinds(record)))
    open_changes = _open_changes(comparable, item.changes, terms)
    return replace(judge(diff, terms.fail_on), race=_with_open(facts, record, open_changes))


def _two_engines(record: Record) -> tuple[str, str]:
    """The engines of the run by name: baseline and change."""
    names = engine_names(list(record.header.spec.get("engines", ())))
    if len(names) != 2:
        raise StopwavError(f"{record.path}: a race has two engines, this run has {len(names)}")
    return names[0], names[1]


def _paired_pieces(record: Record, base: str, change: str) -> Record:
    """The run without what only one of the engines has done so far: it may have been stopped at any moment."""
    other = {base: change, change: base}

    def is_paired(key: Sequence[str | int]) -> bool:
        return not other.keys() & set(key) or tuple(other.get(str(part), part) for part in key) in record

    pieces = [piece for piece in record.pieces if is_paired(piece.key)]
    return Record(record.path, record.header, pieces, complete=record.complete)


def _check_measured(record: Record, base: str, change: str) -> None:
    """Raise where no utterance completed and the change is not to blame: nothing can be said of it."""
    if not items_of(record)[base].utterances and record.complete:
        raise StopwavError(
            f"{record.path}: nothing was measured of the baseline {base}, so there is nothing to hold against it; "
            "stopwav report says why"
        )
    if not any(piece.status != "ok" and change in piece.key for piece in record.pieces):
        raise StopwavError(f"{record.path}: no round is complete yet; continue with --resume and a larger --budget")


def _round_values(
    paired: Record, base: str, change: str, known: dict[int, tuple[int, RoundValues]]
) -> Iterator[RoundValues]:
    """The values of both engines in each round, over the utterances that both completed in it."""
    pieces = pieces_by_round(paired, piece_kinds(paired))
    for index, own in pieces.items():
        if index is None:
            continue
        if index not in known or known[index][0] != len(own):
            alone = Record(paired.path, paired.header, [*pieces[None], *own], complete=paired.complete)
            known[index] = len(own), _values(comparable_of(paired), *(items_of(alone)[name] for name in (base, change)))
        if known[index][1]:
            yield known[index][1]


def _values(comparable: Comparable, a: ComparableItem, b: ComparableItem) -> RoundValues:
    """The values of one round; none where it has no utterance in common."""
    utterances = common_utterances(a, b)
    if utterances is not None and not utterances:
        return {}
    chosen = set(utterances or ())
    metrics = comparable.metrics_of(a, b)
    return {metric.name: (a.values(metric, chosen), b.values(metric, chosen)) for metric in metrics}


def _questions(
    comparable: Comparable,
    base: ComparableItem,
    change: ComparableItem,
    utterances: set[str],
    by_round: Sequence[RoundValues],
    limits: Mapping[str, float],
    rule: Rule,
) -> Iterator[Question]:
    """The question about each metric, from the rounds in which both have a value."""
    for metric in comparable.metrics_of(base, change):
        # Of all rounds first: one that has no value because of its value must not be left out in silence.
        a, b = base.values(metric, utterances), change.values(metric, utterances)
        if isinstance(a, list) and isinstance(b, list):
            pairs = [pair for values in by_round if (pair := _pair(values.get(metric.name))) is not None]
            a, b = [first for first, _ in pairs], [second for _, second in pairs]
        yield ask_metric(metric, a, b, limits[metric.name], paired=True, rule=rule)


def _pair(values: tuple[Values, Values] | None) -> tuple[float, float] | None:
    """The values of one round; None where one engine has none, such as a peak that was not measured."""
    a, b = values or ([], [])
    return (a[0], b[0]) if isinstance(a, list) and isinstance(b, list) and a and b else None


def _open_changes(comparable: Comparable, changes: Sequence[Change], terms: Terms) -> list[Change]:
    """The changes for which a condition is neither violated nor known to hold.

    A condition is violated by any of its metrics; then the others no longer matter. It holds where the interval is not
    above the threshold: whether the change is `same` or `faster` is of no concern to a gate.
    """
    violated = {condition_of(change) for change in changes if change.is_worse}
    return [
        change
        for change in changes
        if (condition := condition_of(change)) in terms.fail_on
        and condition not in violated
        and not _is_settled(comparable, change, terms.precision)
    ]


def _is_settled(comparable: Comparable, change: Change, precision: float) -> bool:
    """Whether no more rounds are asked for: the metric has no value, or its condition holds, or it is precise."""
    if change.by == "difference":
        return change.verdict != "undecided" or not comparable.rounds_add_utterances
    if change.value is None:
        return True
    if change.high is not None and change.high <= 1 + change.threshold:
        return True
    return half_width(Estimate(change.value, change.low, change.high)) <= precision


def _with_open(facts: RaceFacts, record: Record, changes: Sequence[Change]) -> RaceFacts:
    """The facts with the conditions that are open, and what should decide them by the time that rounds took."""
    names = tuple(dict.fromkeys(map(condition_of, changes)))
    rounds = [change.more_rounds for change in changes if change.more_rounds is not None]
    if not rounds:
        return replace(facts, open=names)
    more = max(rounds)
    spent = spent_s(record)
    more_s = more * spent / facts.rounds if spent and facts.rounds else None
    return replace(
        facts, open=names, more_rounds=more, more_s=more_s, total_s=None if more_s is None else spent + more_s
    )


def _remarks(record: Record, comparable: Comparable, base: str, change: str, item: ItemDiff) -> Iterator[str]:
    """What is to be read with the verdicts."""
    settings = [comparable.item_settings(record, name) for name in (base, change)]
    for setting, before, after in shared_settings(settings[0], settings[1], ""):
        if before != after:
            yield f"other {setting} ({before} against {after})"
    if not record.complete:
        yield "the run stopped early: only what it holds is compared; continue with --resume"
    if item.lost and item.changes:
        yield f"{item.name}: lost {len(item.lost)} of the utterances, left out of the comparison"
    codes = dict.fromkeys(warning["code"] for warning in record.header.warnings)
    if codes:
        yield f"measured under warnings: {', '.join(codes)}"
