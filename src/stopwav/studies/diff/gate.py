"""`stopwav gate`: whether a run holds against a baseline, for a CI to act on; and its thresholds, from repeated runs.

Rounds show how much processes differ within a run. What moves a whole run (heat, the hour, a neighbour) shows only
between runs, and no interval from two runs can contain it; so a gate's thresholds have to.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.stats import DEFAULT_THRESHOLD, Estimate, t_quantile
from stopwav.stats.change import Change, Quantity
from stopwav.studies.comparable import Comparable, ComparableItem, NoValue
from stopwav.studies.diff.diff import Diff, Run, diff_runs, open_runs, read_run
from stopwav.studies.diff.items import comparable_of, items_of
from stopwav.studies.diff.models import match_items, pair_models
from stopwav.studies.diff.obstacles import check_comparable, visible
from stopwav.studies.stored_fields import readable
from stopwav.studies.study import find_study

# What can fail a gate, and what each means. `missing` is there because a run that lost its slow streams looks fast.
CONDITIONS = {
    "slower": "a time or the real-time factor is larger",
    "bigger": "memory, or the number of parameters, is larger",
    "more-energy": "energy is larger",
    "fewer": "a capacity or a largest batch is smaller",
    "wrong": "a loss no longer matches the oracle",
    "worse-wer": "the word error rate is larger",
    "worse-cer": "the character error rate is larger",
    "missing": "an item, or an utterance or batch of it that completed in the baseline, is lost",
}
# The condition that a change for the worse violates; that of an error rate is named by the rate.
_OF_QUANTITY: dict[Quantity, str] = {
    "time": "slower",
    "size": "bigger",
    "energy": "more-energy",
    "capacity": "fewer",
    "correctness": "wrong",
}


@dataclass(frozen=True)
class Failure:
    """One violated condition: of which item, in which metric ("" for what is missing), in words."""

    condition: str
    name: str
    metric: str
    message: str


@dataclass(frozen=True)
class RaceFacts:
    """Baseline and change of a race, which are engines of one run; its rounds and time, and what is still open."""

    base: str
    change: str
    # Rounds in which both were measured, and the rounds and time of the run in words.
    rounds: int
    extent: str
    # The conditions asked for that are neither violated nor known to hold.
    open: tuple[str, ...] = ()
    # What should decide them: further rounds (None where no number would), the time of these, and that of the whole run
    # including them (None where the run does not say how long its rounds took).
    more_rounds: int | None = None
    more_s: float | None = None
    total_s: float | None = None


@dataclass(frozen=True)
class Gate:
    """The outcome of a gate: the comparison, the conditions asked for, and which were violated beyond noise."""

    diff: Diff
    fail_on: tuple[str, ...]
    failures: tuple[Failure, ...]
    # (item, metric) of every verdict that is still open; these never fail.
    undecided: tuple[tuple[str, str], ...]
    # Of a gate that measured both in one run.
    race: RaceFacts | None = None

    @property
    def passed(self) -> bool:
        """Whether no condition was violated."""
        return not self.failures

    def to_json(self) -> dict[str, Any]:
        """Return the gate as `--json` prints it: the comparison, and what it means."""
        return {
            "passed": self.passed,
            "fail_on": list(self.fail_on),
            "failures": [vars(failure) for failure in self.failures],
            "undecided": [{"name": name, "metric": metric} for name, metric in self.undecided],
            **({} if self.race is None else {"run": str(self.diff.b), "race": asdict(self.race)}),
            **self.diff.to_json(),
        }


def gate(
    baseline: Run,
    run: Run,
    *,
    fail_on: Sequence[str] = tuple(CONDITIONS),
    threshold: float = DEFAULT_THRESHOLD,
    thresholds: Mapping[str, float] | None = None,
    force: bool = False,
    allow_incomplete: bool = False,
) -> Gate:
    """Return whether `run` holds against `baseline`: fails where a condition of `fail_on` is violated beyond noise.

    Raises for runs that cannot be compared, unless `force` is given, and for one that is not complete, unless
    `allow_incomplete` is: what it lacks might have failed.
    """
    check_conditions(fail_on)
    runs = _read(open_runs([baseline, run]), allow_incomplete)
    compared = diff_runs(runs, threshold=threshold, thresholds=thresholds, force=force, by_name=True)
    return judge(compared.diffs[0], fail_on)


def check_conditions(fail_on: Sequence[str]) -> None:
    """Raise for a condition that there is not."""
    for condition in fail_on:
        if condition not in CONDITIONS:
            raise StopwavError(f"--fail-on {condition!r}: no such condition; there are {', '.join(CONDITIONS)}")


def judge(compared: Diff, fail_on: Sequence[str]) -> Gate:
    """Return which conditions of `fail_on` the changes violate."""
    return Gate(
        diff=compared,
        fail_on=tuple(fail_on),
        failures=tuple(failure for failure in _violations(compared) if failure.condition in fail_on),
        undecided=tuple(
            (item.name, change.metric)
            for item in compared.items
            for change in item.changes
            if change.verdict == "undecided"
        ),
    )


def read_thresholds(path: Path) -> dict[str, float]:
    """Return the thresholds by metric in a file that `stopwav gate --calibrate` wrote."""
    try:
        thresholds = json.loads(path.read_text(encoding="utf-8"))["thresholds"]
        return {str(name): float(value) for name, value in thresholds.items()}
    except OSError as error:
        raise StopwavError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StopwavError(
            f'{path}: not a file of thresholds ({{"thresholds": {{"rtf": 0.02}}}}); '
            "make one with stopwav gate --calibrate RUN RUN RUN"
        ) from error


def _violations(compared: Diff) -> Iterator[Failure]:
    """Every condition that is violated, asked for or not."""
    for name in compared.lost:
        yield Failure("missing", name, "", "in the baseline, not in the run")
    comparable = find_study(compared.study).comparable
    assert comparable is not None
    for item in compared.items:
        if not item.changes:
            yield Failure("missing", item.name, "", f"no {comparable.sample} completed in every round of both")
        elif item.lost and not item.part:
            count = comparable.counted(len(item.lost))
            yield Failure("missing", item.name, "", f"{count} lost that completed in the baseline")
        for change in item.changes:
            if change.is_worse:
                message = f"{change.verdict}, beyond {change.threshold:.3g}"
                yield Failure(condition_of(change), item.name, change.metric, message)


def condition_of(change: Change) -> str:
    """Return the condition that a change for the worse violates; "" where neither more nor less is worse."""
    if change.quantity == "errors":
        return f"worse-{change.metric}"
    return "" if change.quantity is None else _OF_QUANTITY.get(change.quantity, "")


def thresholds_of(comparable: Comparable, limits: Mapping[str, float]) -> dict[str, float]:
    """Return the threshold of each metric that may violate one of these conditions, by the threshold of these."""
    conditions = {metric.name: _OF_QUANTITY.get(metric.quantity, "") for metric in comparable.metrics}
    conditions |= {rate: f"worse-{rate}" for rate in comparable.error_rates}
    return {metric: limits[condition] for metric, condition in conditions.items() if condition in limits}


FEWEST_RUNS = 3  # two runs have one difference: a spread with one degree of freedom bounds nothing
HOW = (
    "by how much two runs of the same thing may differ, 95 times in 100: t(0.975, k - 1) · √2 · standard deviation of "
    "the k runs' mean log round values, the largest over engines; at least the default threshold"
)


@dataclass(frozen=True)
class Calibration:
    """A threshold for every metric, the run-to-run standard deviation behind it, and which runs those were.

    A metric that is not in `spreads` has no known spread; its threshold is the default one.
    """

    thresholds: Mapping[str, float]
    spreads: Mapping[str, float]
    runs: tuple[Path, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the calibration as `--calibrate` prints it and `--thresholds` takes it."""
        return {
            "thresholds": dict(self.thresholds),
            "spreads": dict(self.spreads),
            "runs": [str(path) for path in self.runs],
            "how": HOW,
        }


def calibrate(runs: Sequence[Run], *, force: bool = False, allow_incomplete: bool = False) -> Calibration:
    """Return thresholds at which runs of the same thing do not differ, from three or more of them."""
    _check_number(runs)
    records = _read(runs, allow_incomplete)
    with readable(records[0], "values to calibrate from"):
        return _calibrate(records, force)


def _calibrate(records: Sequence[Record], force: bool) -> Calibration:
    comparable = comparable_of(records[0])
    items = [items_of(record) for record in records]
    names = [name for name in items[0] if all(name in by_name for by_name in items)]
    if not names:
        raise StopwavError(
            f"{records[0].path} and the others have no {comparable.noun} in common; repeat the same command"
        )
    for record in records[1:]:
        models = pair_models(records[0], record, comparable, by_name=True)
        check_comparable(records[0], record, comparable, match_items(names, names, models), force)
    spreads: dict[str, float] = {}
    for name in names:
        for metric, spread in _spreads(comparable, name, [by_name[name] for by_name in items]).items():
            spreads[metric] = max(spread, spreads.get(metric, 0.0))
    reach = t_quantile(0.975, len(records) - 1) * math.sqrt(2)
    thresholds = {
        metric: max(DEFAULT_THRESHOLD, round(math.expm1(reach * spreads.get(metric, 0.0)), 4))
        for metric in comparable.metric_names
    }
    return Calibration(thresholds, spreads, tuple(record.path for record in records))


def _read(runs: Sequence[Run], allow_incomplete: bool) -> list[Record]:
    """The runs, each complete unless one need not be."""
    records = [read_run(run) for run in runs]
    for record in records:
        check_complete(record, allow_incomplete)
    return records


def check_complete(record: Record, allow_incomplete: bool) -> None:
    """Raise for a run that stopped early, unless it need not be complete."""
    if not record.complete and not allow_incomplete:
        raise StopwavError(
            f"{record.path}: the run is not complete, and what it lacks might have failed; continue it with "
            "--resume, or add --allow-incomplete to judge what is there"
        )


def _check_number(runs: Sequence[Run]) -> None:
    """Raise where the runs to calibrate from are too few, or one is named twice."""
    if len(runs) < FEWEST_RUNS:
        raise StopwavError(
            f"{len(runs)} run{'' if len(runs) == 1 else 's'} to calibrate from: {FEWEST_RUNS} or more are needed, "
            "5 give thresholds a third lower; repeat the same command"
        )
    files = [Path(run).resolve() for run in runs if not isinstance(run, Record)]
    twice = next((file for file in files if files.count(file) > 1), None)
    if twice is not None:
        raise StopwavError(f"{twice} is named twice: a run does not differ from itself; repeat the same command")


def _spreads(comparable: Comparable, name: str, items: Sequence[ComparableItem]) -> dict[str, float]:
    """The standard deviation between runs of the log of each metric of one item."""
    utterances = sorted(set.intersection(*(set(item.utterances or ()) for item in items)))
    if not utterances and any(item.utterances is not None for item in items):
        raise StopwavError(f"{visible(name)}: no utterance completed in every round of every run; see stopwav report")
    levels: dict[str, list[float]] = {}
    for metric in comparable.metrics_of(items[0], items[-1]):
        by_run = [item.values(metric, set(utterances)) for item in items]
        # Counts have no spread: what differs is a change.
        usable = [values for values in by_run if not isinstance(values, NoValue | Estimate)]
        if len(usable) == len(items):
            levels[metric.name] = [float(np.log(values).mean()) for values in usable]
    for name in comparable.error_rates:
        rates = [_error_rate(item, name, utterances) for item in items]
        if all(rates):
            levels[name] = [math.log(rate) for rate in rates]
    return {metric: float(np.std(values, ddof=1)) for metric, values in levels.items()}


def _error_rate(item: ComparableItem, name: str, utterances: Sequence[str]) -> float:
    """The error rate of one run; 0 where there is none."""
    counted = NoValue("") if item.errors is None else item.errors(name, utterances)
    if isinstance(counted, NoValue):
        return 0.0
    errors, words = counted
    return sum(errors) / sum(words) if sum(words) else 0.0
