"""Runs as a log folder of TensorBoard: scalars with intervals, settings, charts as images, the page as a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.report.chart import chart_png
from stopwav.report.tracker import TrackedRun, named_results, numbers, settings

# A run is one point of its curves: TensorBoard numbers the steps of a training, and there is none.
STEP = 0


def write_events(runs: Sequence[TrackedRun], place: str) -> str:
    """Write a folder per run and below it one per result; return where they are."""
    folders = [Path(place).expanduser() / run.name for run in runs]
    for folder in folders:
        if os.path.lexists(folder):
            raise StopwavError(f"{folder}: exists already; remove it, or name another folder after tensorboard:")
    for run, folder in zip(runs, folders, strict=True):
        try:
            _write_run(run, folder)
        except OSError as error:
            raise StopwavError(f"{folder}: cannot be written ({error.strerror}); name another folder") from error
    return f"{len(runs)} in {place} (tensorboard --logdir {place})"


def _write_run(run: TrackedRun, folder: Path) -> None:
    from tensorboardX.proto.summary_pb2 import Summary

    folder.mkdir(parents=True)
    (folder / "page.html").write_text(run.page, encoding="utf-8", errors="replace")
    (folder / "results.csv").write_text(run.csv, encoding="utf-8", errors="replace", newline="")
    with _writer(folder) as writer:
        writer.add_text("report", run.markdown, STEP, run.started_s)
        for name, chart in run.charts.items():
            image = Summary.Image(encoded_image_string=chart_png(chart.spec))
            _add(writer, run, Summary(value=[Summary.Value(tag=f"charts/{name}", image=image)]))
        metrics = sorted({name for result in run.results for name in numbers(result)})
        margins = [name.removesuffix("/low") for name in metrics if name.endswith("/low")]
        parts = ("value", "low", "high")
        writer.add_custom_scalars(
            {"95 % intervals": {name: ["Margin", [f"{name}/{part}" for part in parts]] for name in margins}}
        )
    for name, result in named_results(run):
        _write_result(run, folder / name, numbers(result), settings(run, result))


def _write_result(run: TrackedRun, folder: Path, values: dict[str, float], given: dict[str, Any]) -> None:
    from tensorboardX.summary import hparams

    with _writer(folder) as writer:
        for name, value in values.items():
            writer.add_scalar(name, value, STEP, run.started_s)
        for summary in hparams(given, {name: value for name, value in values.items() if name.endswith("/value")}):
            _add(writer, run, summary)


def _writer(folder: Path) -> Any:
    from tensorboardX import SummaryWriter

    return SummaryWriter(logdir=str(folder))


def _add(writer: Any, run: TrackedRun, summary: Any) -> None:
    writer.file_writer.add_summary(summary, STEP, run.started_s)
