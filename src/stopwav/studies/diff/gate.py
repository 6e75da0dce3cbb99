"""`stopwav gate`: whether a run holds against a baseline, for a CI to act on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.stats import DEFAULT_THRESHOLD
from stopwav.studies.diff.diff import Diff, Run, diff

# What can fail a gate, and what each means. `missing` is there because a run that lost its slow streams looks fast.
CONDITIONS = {
    "slower": "a time or the real-time factor is larger",
    "bigger": "peak memory is larger",
    "worse-wer": "the word error rate is larger",
    "missing": "an engine, or an utterance that completed in the baseline, is lost",
}


@dataclass(frozen=True)
class Failure:
    """One violated condition: of which engine, in which metric ("" for what is missing), in words."""

    condition: str
    name: str
    metric: str
    message: str


@dataclass(frozen=True)
class Gate:
    """The outcome of a gate: the comparison, the conditions asked for, and which were violated beyond noise."""

    diff: Diff
    fail_on: tuple[str, ...]
    failures: tuple[Failure, ...]
    # (engine, metric) of every verdict that is still open; these never fail.
    undecided: tuple[tuple[str, str], ...]

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
) -> Gate:
    """Return whether `run` holds against `baseline`: fails where a condition of `fail_on` is violated beyond noise."""
    for condition in fail_on:
        if condition not in CONDITIONS:
            raise StopwavError(f"--fail-on {condition!r}: no such condition; there are {', '.join(CONDITIONS)}")
    compared = diff(baseline, run, threshold=threshold, thresholds=thresholds, force=force)
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
    for name in compared.only_a:
        yield Failure("missing", name, "", "in the baseline, not in the run")
    for item in compared.items:
        if not item.changes:
            yield Failure("missing", item.name, "", "no utterance completed in every round of both runs")
        elif item.lost:
            count = f"{len(item.lost)} utterance{'' if len(item.lost) == 1 else 's'}"
            yield Failure("missing", item.name, "", f"{count} lost that completed in the baseline")
        for change in item.changes:
            condition = "worse-wer" if change.verdict == "worse" else change.verdict
            if condition in CONDITIONS:
                yield Failure(condition, item.name, change.metric, f"{change.verdict}, beyond {change.threshold:.3g}")
