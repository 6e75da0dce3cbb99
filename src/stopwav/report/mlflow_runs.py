"""Runs as runs of MLflow: one per run file, and below it one per result."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.report.chart import chart_png
from stopwav.report.text import plain
from stopwav.report.tracker import TrackedRun, named_results, numbers, settings

EXPERIMENT = "stopwav"
# MLflow's own variables, where the user has set none. It tells its makers of each use, unless it is told not to; and it
# tries a server that does not answer seven times, for minutes.
_DEFAULTS = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}
# What MLflow takes in one request.
MOST_PARAMS, MOST_METRICS = 100, 1000


def write_runs(runs: Sequence[TrackedRun], place: str) -> str:
    """Write the runs to a server, a database or a folder, and return where they are."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    with _understood(place):
        from mlflow import MlflowClient

        client = MlflowClient(tracking_uri=place)
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
        experiment = client.get_experiment_by_name(name)
        number = client.create_experiment(name) if experiment is None else experiment.experiment_id
        for run in runs:
            _write_run(client, number, run)
    return f"{len(runs)} in experiment {name!r} of {place}"


@contextmanager
def _understood(place: str) -> Iterator[None]:
    """Whatever MLflow raises, in one line."""
    import mlflow.exceptions

    try:
        yield
    except (mlflow.exceptions.MlflowException, OSError, ImportError, ValueError) as error:
        reason = plain(" ".join(str(error).split()), 600)
        raise StopwavError(f"--to mlflow:{place}: MLflow cannot write there ({reason})") from error


def _write_run(client: Any, experiment: str, run: TrackedRun) -> None:
    start_ms = round(1e3 * run.started_s)
    parent = client.create_run(experiment, start_ms, {"stopwav.run": plain(str(run.record.path))}, run.name).info.run_id
    _log(client, parent, settings(run), {}, start_ms)
    with tempfile.TemporaryDirectory() as folder:
        _write_files(run, Path(folder))
        client.log_artifacts(parent, folder)
    for name, result in named_results(run):
        tags = {"mlflow.parentRunId": parent, "stopwav.notes": _notes(result)}
        child = client.create_run(experiment, start_ms, tags, name).info.run_id
        _log(client, child, settings(run, result), numbers(result), start_ms)
        client.set_terminated(child, "FINISHED" if result.status == "ok" else "FAILED")
    client.set_terminated(parent, "FINISHED" if run.record.complete else "KILLED")


def _write_files(run: TrackedRun, folder: Path) -> None:
    texts = {"page.html": run.page, "results.csv": run.csv, "report.md": run.markdown}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", errors="replace", newline="")
    (folder / "charts").mkdir()
    for name, chart in run.charts.items():
        (folder / "charts" / f"{name}.png").write_bytes(chart_png(chart.spec))


def _log(client: Any, run: str, given: dict[str, Any], values: dict[str, float], at_ms: int) -> None:
    from mlflow.entities import Metric, Param

    params = [Param(name, str(value)) for name, value in given.items()]
    metrics = [Metric(name, value, at_ms, 0) for name, value in values.items()]
    for start in range(0, len(params), MOST_PARAMS):
        client.log_batch(run, params=params[start : start + MOST_PARAMS])
    for start in range(0, len(metrics), MOST_METRICS):
        client.log_batch(run, metrics=metrics[start : start + MOST_METRICS])


def _notes(result: Any) -> str:
    """Why metrics are missing, and the warnings: what a table of numbers leaves out."""
    absent = [f"{name}: {estimate.note}" for name, estimate in result.metrics.items() if estimate.value is None]
    warnings = [f"{warning.code}: {warning.message}" for warning in result.warnings]
    return plain("; ".join([*warnings, *absent]), 4000)
