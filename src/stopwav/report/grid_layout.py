"""The results of a grid as tables, rows durations and columns batch sizes, for the terminal, Markdown and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stopwav.record import Result
from stopwav.report.numbers import DASH, format_bytes, format_interval, format_value
from stopwav.report.plain import plain
from stopwav.stats import Estimate

SLOWER = "✗"
OPEN = "?"
# Where a recogniser is exactly as fast as the speaker.
REAL_TIME = 1.0

_FAILED = {"oom": "OOM", "timeout": "timeout", "skipped": "skipped", "error": "error"}


@dataclass(frozen=True)
class Layout:
    """A grid's results by place, and what stands beside the cells."""

    engine: str
    durations: list[float]
    batch_sizes: list[int]
    cells: dict[tuple[float, int], Result]
    laws: list[Result]
    frontier: list[Result]

    @property
    def measured(self) -> list[Result]:
        """The cells that have numbers."""
        return [cell for cell in self.cells.values() if cell.metrics]

    def has(self, metric: str) -> bool:
        """Whether any cell has a value of the metric."""
        return any(cell.metrics[metric].value is not None for cell in self.measured)


@dataclass(frozen=True)
class GridTable:
    """One table: its heading, and the text of each cell, row by row."""

    title: str
    metric: str
    rows: list[list[str]]


def arrange(results: Sequence[Result]) -> Layout:
    """The results by place."""
    cells = {_place(one): one for one in results if one.params.get("kind") == "cell"}
    return Layout(
        engine=next((one.name.removesuffix(_suffix(one)) for one in cells.values()), ""),
        durations=sorted({duration_s for duration_s, _ in cells}),
        batch_sizes=sorted({size for _, size in cells}),
        cells=cells,
        laws=[one for one in results if one.params.get("kind") == "law"],
        frontier=[one for one in results if one.params.get("kind") == "frontier"],
    )


def tables(layout: Layout, *, intervals: bool = True, scientific: bool = False) -> list[GridTable]:
    """The tables of a grid: pace by the wall, by the device where there is one, then the peaks that were measured."""
    pace, told = ("rtf", "Real-time factor (RTF)") if scientific else ("rtfx", "Times faster than real time (RTFx)")
    found = [_table(layout, told, pace, intervals, scientific)]
    if layout.has("device_rtf"):
        found.append(_table(layout, "Real-time factor of the device alone", "device_rtf", intervals, scientific))
    for kind, title in (
        ("host", "Peak host memory (over the loaded model)"),
        ("allocated", "Peak of PyTorch's allocator: allocated (over the loaded model)"),
        ("reserved", "Peak of PyTorch's allocator: reserved (over the loaded model)"),
        ("device", "Peak in use on the device (over the loaded model)"),
    ):
        if layout.has(f"peak_{kind}_bytes"):
            found.append(_table(layout, title, f"peak_{kind}_bytes", intervals, scientific))
    return found


def by_place(layout: Layout) -> list[Result]:
    """The cells that were to be measured, named by their place alone, for where the engine is known."""
    asked = [one for one in layout.cells.values() if not any(w.code == "triangle" for w in one.warnings)]
    return [replace(one, name=_suffix(one).strip()) for one in asked]


def interval_text(layout: Layout) -> str:
    """What stands in the brackets; from fewer than three rounds it does not hold what processes differ by."""
    notes = (one.metrics["rtf"].note.partition(":")[0] for one in layout.measured)
    return " ".join(["95 % interval", *[note for note in notes if note.startswith("within")][:1]])


def pace_note(layout: Layout) -> str:
    """Where the real-time line runs, in a sentence."""
    slower = [one for one in layout.measured if _pace_mark(one) == SLOWER]
    opened = [one for one in layout.measured if _pace_mark(one) == OPEN]
    if not layout.measured:
        return "No cell was measured."
    parts = []
    if slower:
        parts.append(f"{SLOWER} slower than real time (RTFx below 1): {len(slower)} of {len(layout.measured)} cells")
    if opened:
        parts.append(f"{OPEN} the interval holds real time (RTFx 1)")
    return "; ".join(parts) + "." if parts else "Every measured cell is faster than real time (RTFx above 1)."


def absent_note(layout: Layout) -> str:
    """Which peaks were not measured, and why."""
    absent = [kind for kind in ("allocated", "reserved", "device") if not layout.has(f"peak_{kind}_bytes")]
    if not absent or not layout.measured:
        return ""
    note = layout.measured[0].metrics[f"peak_{absent[0]}_bytes"].note
    return f"{DASH}  {', '.join(absent)} memory, device time: {plain(note)}"


def law_text(law: Result) -> str:
    """The law as a formula, with the evidence for its quadratic term and what the held-out cell says."""
    variable = "d" if law.params["axis"] == "duration" else "B"
    fixed = f"batch {law.params['batch_size']}" if variable == "d" else f"{law.params['duration_s']:g} s"
    return f"{fixed}: {growth_text(law, variable)}"


def growth_text(law: Result, variable: str) -> str:
    """The law in the variable given, with the evidence for it."""
    terms = [_term(law.metrics[name], factor) for name, factor in _factors(variable)]
    formula = " ".join(term for term in terms if term).removeprefix("+ ")
    formula = f"-{formula.removeprefix('- ')}" if formula.startswith("- ") else formula
    return f"time ≈ {formula} s; {_evidence(law.metrics['law_quadratic_p'])}{_held_out(law)}"


def prediction_text(law: Result) -> str:
    """What the law says of the length that was asked for, labelled as what it is; nothing where none was."""
    if "predicted_time" not in law.metrics:
        return ""
    time, rtfx = law.metrics["predicted_time"], law.metrics["predicted_rtfx"]
    at = f"{law.params['predict_s']:g} s × {law.params['batch_size']}"
    return f"{at}: {_seconds(time)}, RTFx {format_interval(rtfx)} ({plain(time.note)})"


def frontier_text(one: Result) -> str:
    """The largest batch that fits for a duration, and what stopped it."""
    largest, fails_at = one.metrics["largest_batch"], one.params["fails_at"]
    status = str(one.params["failure"]).partition(":")[0]
    told = f"{fails_at}: {_FAILED.get(status, plain(status, 40))}"
    if fails_at is None or one.status != "ok":
        told = plain(largest.note)
    return f"{one.params['duration_s']:g} s: {largest.value or 0:.0f} ({told})"


def cell_text(result: Result, metric: str, *, intervals: bool = True, scientific: bool = False) -> str:
    """What stands in a cell: its number, or how it ended."""
    estimate = result.metrics.get(metric)
    if estimate is None:
        return failure_text(result)
    if estimate.value is None:
        return DASH
    if estimate.unit == "B":
        over = result.metrics[metric.replace("_bytes", "_over_baseline_bytes")].value
        more = "" if over is None else f" ({'+' if over >= 0 else ''}{format_bytes(over)})"
        return format_bytes(estimate.value) + more
    mark = f" {_pace_mark(result)}".rstrip() if metric in ("rtf", "rtfx") else ""
    if scientific:
        return f"{estimate.value:.2E}{mark}"
    decimals = 2 if metric == "rtfx" else 4
    return (format_interval if intervals else format_value)(estimate, most=decimals) + mark


def failure_text(result: Result) -> str:
    """How a cell that has no number ended."""
    if result.status == "crashed":
        message = next((w.message for w in result.warnings if w.code == "cell-crashed"), "")
        return plain(message.partition(";")[0], 40) or "crashed"
    return _FAILED.get(result.status, result.status)


def _table(layout: Layout, title: str, metric: str, intervals: bool, scientific: bool) -> GridTable:
    rows = [
        [
            cell_text(layout.cells[duration_s, size], metric, intervals=intervals, scientific=scientific)
            for size in layout.batch_sizes
        ]
        for duration_s in layout.durations
    ]
    return GridTable(title, metric, rows)


def _place(result: Result) -> tuple[float, int]:
    params: Any = result.params
    return float(params["duration_s"]), int(params["batch_size"])


def _suffix(result: Result) -> str:
    duration_s, size = _place(result)
    return f" {duration_s:g} s × {size}"


def _pace_mark(result: Result) -> str:
    """Whether a cell is slower than real time, or may be."""
    rtfx = result.metrics["rtfx"]
    if rtfx.value is None:
        return ""
    if rtfx.low is not None and rtfx.high is not None and rtfx.low <= REAL_TIME <= rtfx.high:
        return OPEN
    return SLOWER if rtfx.value < REAL_TIME else ""


def _factors(variable: str) -> tuple[tuple[str, str], ...]:
    return (("law_constant", ""), ("law_linear", f"·{variable}"), ("law_quadratic", f"·{variable}²"))


def _term(estimate: Estimate, factor: str) -> str:
    if estimate.value is None:
        return ""
    return f"{'-' if estimate.value < 0 else '+'} {abs(estimate.value):.3g}{factor}"


def _evidence(p_value: Estimate) -> str:
    if p_value.value is None:
        return "too few cells to test for a quadratic term"
    shown = "p < 0.001" if p_value.value < 0.001 else f"p = {p_value.value:.2g}"
    return f"F test of the quadratic term: {shown}, {'needed' if p_value.value < 0.05 else 'not shown'}"


def _held_out(law: Result) -> str:
    error, time = law.metrics["held_out_error"], law.metrics["held_out_time"]
    if error.value is None or time.value is None:
        return f"; held-out cell: {plain(time.note)}"
    cells: Any = law.params["cells"]
    unit = "" if law.params["axis"] == "batch size" else "s"
    at, measured_s = cells[-1]
    return (
        f"; fitted without {at:g}{' ' + unit if unit else ' utterances'}: predicted {_seconds(time)}, "
        f"measured {measured_s:.3g} s, {100 * error.value:+.1f} %"
    )


def _seconds(estimate: Estimate) -> str:
    if estimate.value is None:
        return DASH
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3g} s"
    return f"{estimate.value:.3g} [{estimate.low:.3g}–{estimate.high:.3g}] s"
