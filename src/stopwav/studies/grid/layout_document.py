"""The results of a grid by place, and what stands in a cell of its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stopwav.record import Result
from stopwav.report.text import DASH, format_bytes, format_interval, format_value
from stopwav.stats import UNDECIDED
from stopwav.studies.budget import time_text

SLOWER = "✗"
OPEN = "?"

FAILED = {"oom": "OOM"}


@dataclass(frozen=True)
class GridLayout:
    """A grid's results by place, and those that are not of a cell."""

    durations: list[float]
    batch_sizes: list[int]
    cells: dict[tuple[float, int], Result]
    fits: list[Result]
    frontiers: list[Result]

    @property
    def measured(self) -> list[Result]:
        """The cells that have numbers."""
        return [cell for cell in self.cells.values() if cell.metrics]

    def has(self, metric: str) -> bool:
        """Return whether any cell has a value of the metric."""
        return any(cell.metrics[metric].value is not None for cell in self.measured)


def grid_layouts(results: Sequence[Result]) -> dict[str, GridLayout]:
    """Return the results of each engine by place."""
    by_engine: dict[str, list[Result]] = {}
    for result in results:
        by_engine.setdefault(str(result.params["of"]), []).append(result)
    return {name: grid_layout(own) for name, own in by_engine.items()}


def grid_layout(results: Sequence[Result]) -> GridLayout:
    """Return the results by place."""
    cells = {_place(result): result for result in results if result.kind == "cell"}
    return GridLayout(
        durations=sorted({duration_s for duration_s, _ in cells}),
        batch_sizes=sorted({size for _, size in cells}),
        cells=cells,
        fits=[result for result in results if result.kind == "law"],
        frontiers=[result for result in results if result.kind == "frontier"],
    )


def _place(result: Result) -> tuple[float, int]:
    params: Any = result.params
    return float(params["duration_s"]), int(params["batch_size"])


def cell_text(result: Result, metric: str, *, intervals: bool = True, scientific: bool = False) -> str:
    """Return what stands in a cell: its number, or how it ended."""
    estimate = result.metrics.get(metric)
    if estimate is None:
        return failure_text(result)
    if estimate.value is None:
        return DASH
    if estimate.unit == "B":
        over = result.metrics[metric.replace("_bytes", "_over_baseline_bytes")].value
        more = "" if over is None else f" ({'+' if over >= 0 else ''}{format_bytes(over)})"
        bound = "≤ " if estimate.code == "upper-bound" else ""
        return bound + format_bytes(estimate.value) + more
    mark = f" {pace_mark(result)}".rstrip() if metric in ("rtf", "rtfx") else ""
    if scientific and metric != "rtfx":
        return f"{estimate.value:.2E}{mark}"
    decimals = 2 if metric == "rtfx" else 4
    return (format_interval if intervals else format_value)(estimate, most=decimals) + mark


def failure_text(result: Result) -> str:
    """Return how a cell that has no number ended, or when its turn comes."""
    codes = {warning.code for warning in result.warnings}
    call_s: Any = result.params.get("call_s")
    if result.status == "skipped" and call_s is not None:
        return f"{'no time' if 'budget' in codes else 'next'}, about {time_text(call_s)}"
    return FAILED.get(result.status, result.status)


def place_text(result: Result) -> str:
    """Return the place of a cell."""
    return f"{result.params['duration_s']:g} s × {result.params['batch_size']}"


def pace_mark(result: Result) -> str:
    """Return whether a cell is surely slower than real time, or may be."""
    return {"below": SLOWER, "above": "", UNDECIDED: OPEN}[str(result.params["real_time"])]
