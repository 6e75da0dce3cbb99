"""Runs for trackers of experiments: what each of them is given, and the trackers by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from stopwav.errors import StopwavError, suggestion
from stopwav.record import Record, Result
from stopwav.report.chart import Chart
from stopwav.report.provenance import machine_line
from stopwav.report.text import plain

# A line per tracker: its name, the package that it needs, which is also its extra, and the function that writes to it.
TRACKERS = {
    "tensorboard": ("tensorboardX", "stopwav.report.tensorboard_events:write_events"),
    "mlflow": ("mlflow", "stopwav.report.mlflow_runs:write_runs"),
}
# MLflow takes 6,000 characters for a setting; nobody reads more of one in either tracker.
LONGEST_SETTING = 1000
# What stands in the names of engines and may stand in neither a file's name nor MLflow's names.
_UNSAFE = re.compile(r"[^A-Za-z0-9_.=,-]+")
LONGEST_NAME = 120


@dataclass(frozen=True)
class TrackedRun:
    """A run as trackers take it: its results, its charts by name, and the same as Markdown, CSV and a page."""

    record: Record
    results: Sequence[Result]
    charts: Mapping[str, Chart]
    markdown: str
    csv: str
    page: str

    @property
    def name(self) -> str:
        """The name of the run file."""
        return safe_name(self.record.path.stem)

    @property
    def started_s(self) -> float:
        """When the run was started, in seconds since 1970; now where the file does not say it as we write it."""
        try:
            return datetime.fromisoformat(self.record.header.started).timestamp()
        except ValueError:
            return datetime.now().timestamp()


@dataclass(frozen=True)
class TrackerPlace:
    """Where runs are sent: a tracker, and a place of it."""

    tracker: str
    place: str

    def send(self, runs: Sequence[TrackedRun]) -> str:
        """Write the runs, and return where they are in words."""
        module, _, function = TRACKERS[self.tracker][1].partition(":")
        written: str = getattr(import_module(module), function)(runs, self.place)
        return written


def parse_target(text: str) -> TrackerPlace:
    """Return the place that `TRACKER:PLACE` names; raise where there is no such tracker, or its package is missing."""
    tracker, colon, place = text.partition(":")
    if tracker not in TRACKERS:
        raise StopwavError(f"--to {text!r}: no tracker {tracker!r}: {suggestion(tracker, TRACKERS)}")
    if not colon or not place:
        example = "tensorboard:FOLDER" if tracker == "tensorboard" else "mlflow:URI"
        raise StopwavError(f"--to {text!r}: where to? write {example}")
    if find_spec(TRACKERS[tracker][0]) is None:
        raise StopwavError(f"--to {text!r}: needs a package that is not installed: pip install 'stopwav[{tracker}]'")
    return TrackerPlace(tracker, place)


def named_results(run: TrackedRun) -> Iterator[tuple[str, Result]]:
    """Yield the results, each with a name of its own that is safe in a path."""
    names: set[str] = set()
    for result in run.results:
        name = stem = safe_name(result.name)
        number = 2
        while name.lower() in names:  # some file systems know no capital letters
            name, number = f"{stem}-{number}", number + 1
        names.add(name.lower())
        yield name, result


def safe_name(name: str) -> str:
    """Return the name with nothing in it that a path or a tracker gives a meaning."""
    return _UNSAFE.sub("-", name).strip("-.")[:LONGEST_NAME] or "unnamed"


def numbers(result: Result) -> dict[str, float]:
    """Return the value, interval and count of each metric by names with a slash; what is missing has none."""
    values = {
        f"{safe_name(name)}/{part}": number
        for name, estimate in result.metrics.items()
        for part, number in (("value", estimate.value), ("low", estimate.low), ("high", estimate.high))
        if number is not None
    }
    counts = {f"{safe_name(name)}/n": float(estimate.n) for name, estimate in result.metrics.items() if estimate.n}
    return values | counts


def settings(run: TrackedRun, result: Result | None = None) -> dict[str, str | float | bool]:
    """Return the settings of a run, of one of its results, the machine and the version, flat, by dotted names."""
    header = run.record.header
    fields: dict[str, Any] = {
        "study": header.study,
        "stopwav": header.stopwav,
        "started": header.started,
        "machine": machine_line(header),
        "corpus": header.corpus.get("name"),
        "corpus_digest": header.corpus.get("digest"),
        "normaliser": header.normaliser,
        "setting": header.spec,
    }
    if result is not None:
        fields |= {"name": result.name, "status": result.status, "kind": result.kind, "param": result.params}
    return dict(_flat("", fields))


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str | float | bool]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(f"{prefix}.{safe_name(str(name))}".lstrip("."), inner)
    elif isinstance(value, (bool, int, float)):
        yield prefix, value
    elif value is not None:
        yield prefix, plain(value if isinstance(value, str) else json.dumps(value), LONGEST_SETTING)
