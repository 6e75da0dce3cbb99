"""A grid as a document: tables whose rows are durations and whose columns are batch sizes, fits and the frontier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from stopwav.record import Record, Result
from stopwav.report.document import (
    BRIEF,
    PAGE,
    TEXT,
    Block,
    Cell,
    Column,
    Detail,
    Document,
    Figures,
    Lines,
    Note,
    Row,
    Section,
    Table,
    in_detail,
)
from stopwav.report.text import (
    DASH,
    counted,
    format_bytes,
    format_interval,
    format_value,
    listed,
    plain,
)
from stopwav.stats.rule import rule_text
from stopwav.studies.budget import PRECISION, spent_s, time_text
from stopwav.studies.grid.absence import budget_text
from stopwav.studies.grid.layout_document import (
    FAILED,
    OPEN,
    SLOWER,
    GridLayout,
    cell_text,
    failure_text,
    grid_layouts,
    pace_mark,
    place_text,
)
from stopwav.studies.grid.verdict_document import verdict_finding, verdict_sections
from stopwav.studies.growth import growth_text, seconds_text
from stopwav.studies.study import StudyRun

_MEMORY = (
    ("host", "Peak host memory (over the loaded model)"),
    ("allocated", "Peak of PyTorch's allocator: allocated (over the loaded model)"),
    ("reserved", "Peak of PyTorch's allocator: reserved (over the loaded model)"),
    ("device", "Peak in use on the device (over the loaded model)"),
)


def grid_document(run: StudyRun, detail: Detail) -> Document:
    """Return the tables, heat maps and curves, the fits, the frontier, and a sentence on each finding.

    Of several engines each has its rows in the same tables, and a table of verdicts on all but the first.
    """
    grids = grid_layouts(run.results)
    several = len(grids) > 1
    verdicts: Any = run.extras.get("verdicts")
    short = run.results if several else [_without_engine(result) for result in run.results]
    asked = [result for result in short if result.kind == "cell" and not _is_left_out(result)]
    notes = [note for name, layout in grids.items() for note in _notes(name if several else "", layout, run)]
    still_open = [(name, _open_note(layout, run.record)) for name, layout in grids.items()]
    tables = _tables(grids, detail.scientific)
    frontiers = [_of(name, several) + _frontier_text(row) for name, layout in grids.items() for row in layout.frontiers]
    return Document(
        title=f"Grid of {listed(list(grids))}",
        blocks=(
            Note(_settings_line(grids), quiet=False, media=TEXT),
            *(replace(table, media=BRIEF) for table in tables[:1]),
            *([Note(legend, media=BRIEF)] if (legend := _marks_legend(grids)) else []),
            *(Note(_of(name, several) + note, media=BRIEF) for name, note in still_open if note),
            *verdict_sections(verdicts),
            Section("At a glance", (Figures((("rtfx*",), ("memory-*",)), layout="grid"),), media=PAGE),
            Section("The grid", in_detail((*tables, *map(Note, notes), _brackets_note(grids)))),
            Section("How it scales", (Figures((("scaling-*",),)), *in_detail(_fit_lists(grids)))),
            *_lists("Predictions, not measurements", _predictions(grids)),
            *_lists("Largest batch that fits", frontiers),
        ),
        findings=(
            *([] if verdicts is None else map(partial(verdict_finding, verdicts), verdicts.engines)),
            *(_of(name, several) + finding for name, layout in grids.items() for finding in _findings(layout)),
        ),
        record=run.record,
        warned=tuple(asked),
        measured=tuple(short),
    )


def _of(name: str, several: bool) -> str:
    return f"{name}: " if several else ""


def _findings(layout: GridLayout) -> list[str]:
    return [
        _pace_finding(layout),
        *_memory_finding(layout),
        *_failed_finding(layout),
        *_lost_rounds_finding(layout),
    ]


def _without_engine(result: Result) -> Result:
    """The result under the name of its place alone."""
    return replace(result, name=result.name.removeprefix(f"{result.params['of']} "))


def _notes(name: str, layout: GridLayout, run: StudyRun) -> list[str]:
    notes = (pace_note(layout), _open_note(layout, run.record), _absent_note(layout))
    return [_of(name, bool(name)) + note for note in notes if note]


def fit_text(fit: Result) -> str:
    """Return a fit in words, with what is held fixed along its axis."""
    if fit.params["axis"] == "duration":
        return f"batch {fit.params['batch_size']}: {growth_text(fit, 'd')}"
    return f"{fit.params['duration_s']:g} s: {growth_text(fit, 'B')}"


def pace_note(layout: GridLayout) -> str:
    """Return where the real-time line runs, in a sentence."""
    marks = [pace_mark(cell) for cell in layout.measured]
    if not marks:
        return "No cell was measured."
    parts = []
    cells = counted(len(marks), "cell")
    if SLOWER in marks:
        parts.append(f"{SLOWER} slower than real time (RTFx below 1): {marks.count(SLOWER)} of {cells}")
    if OPEN in marks:
        undecided = f"{OPEN} undecided, as the interval includes RTFx 1 or there is none"
        parts.append(f"{undecided}: {marks.count(OPEN)} of {cells}; more rounds would decide")
    text = "; ".join(parts) if parts else "Every measured cell is faster than real time (RTFx above 1)"
    rule: Any = layout.measured[0].params["rule"]
    return f"{text}." if rule == "fixed" else f"{text}; by {rule_text(rule, 0.95)}."


def _marks_legend(grids: Mapping[str, GridLayout]) -> str:
    """Return the meaning of the marks in the table, of those that there are."""
    marks = {pace_mark(cell) for layout in grids.values() for cell in layout.measured}
    meanings = {SLOWER: "slower than real time", OPEN: "undecided whether it is faster than real time"}
    return "; ".join(f"{mark} {meaning}" for mark, meaning in meanings.items() if mark in marks)


def _open_note(layout: GridLayout, record: Record) -> str:
    """How much more time would settle the cells that are open, and those that are not measured."""
    if record.header.spec.get("rounds") is not None or not layout.measured:
        return ""
    open_cells = [cell for cell in layout.measured if cell.params["more_rounds"] != 0]
    absent = [cell for cell in layout.cells.values() if cell.params.get("call_s") is not None]
    times: list[Any] = [*(cell.params["more_s"] for cell in open_cells), *(cell.params["call_s"] for cell in absent)]
    seconds = sum(time_s for time_s in times if time_s)
    if not seconds:
        return ""
    wide = f"{len(open_cells)} of {len(layout.measured)} cells are undecided or wider than ± {100 * PRECISION:g} %"
    missing = f"{counted(len(absent), 'cell')} not measured" if absent else ""
    text = "; ".join(filter(None, (wide if open_cells else "", missing)))
    budget = budget_text(spent_s(record) + seconds)
    return f"Still open: {text}. About {time_text(seconds)} more would settle them: --resume --budget {budget}"


def _is_left_out(result: Result) -> bool:
    return any(warning.code in ("triangle", "budget") for warning in result.warnings)


def _settings_line(grids: Mapping[str, GridLayout]) -> str:
    params: Any = next(iter(next(iter(grids.values())).cells.values())).params
    measured = [cell for layout in grids.values() for cell in layout.measured]
    counts: list[Any] = sorted({cell.params["rounds"] for cell in measured} or {params["rounds"]})
    rounds = counted(counts[0], "round") if len(counts) == 1 else f"{counts[0]}–{counts[-1]} rounds"
    names = listed([plain(name, 80) for name in grids])
    return (
        f"{names} on {params['device']}, audio {plain(str(params['audio']), 60)}, {rounds}; "
        f"rows: seconds of audio, columns: batch size; [{_interval_name(grids)}]"
    )


def _interval_name(grids: Mapping[str, GridLayout]) -> str:
    """The name of the interval: from fewer than three rounds it does not include how processes differ."""
    codes = (cell.metrics["rtf"].code for layout in grids.values() for cell in layout.measured)
    within = next((code.replace("-", " ") for code in codes if code.startswith("within-")), "")
    return f"95 % CI {within}".strip()


def _brackets_note(grids: Mapping[str, GridLayout]) -> Note:
    text = f"Rows: seconds of audio; columns: batch size; in square brackets: {_interval_name(grids)}."
    return Note(text, media=("markdown", "page"))


def _tables(grids: Mapping[str, GridLayout], scientific: bool) -> list[Table]:
    """Pace by the wall, by the device where there is one, then the peaks that were measured."""
    layouts = grids.values()
    wanted = [("rtfx", "Inverse real-time factor (RTFx)"), ("rtf", "Real-time factor (RTF)")]
    if scientific:  # which RTFx is not written in
        wanted.reverse()
    if any(layout.has("device_rtf") for layout in layouts):
        wanted.append(("device_rtf", "Real-time factor (RTF) of the device alone"))
    wanted += [
        (f"peak_{kind}_bytes", title)
        for kind, title in _MEMORY
        if any(layout.has(f"peak_{kind}_bytes") for layout in layouts)
    ]
    sizes = next(iter(layouts)).batch_sizes
    columns = (Column("", "left"), *(Column(f"× {size}") for size in sizes))
    return [Table(columns, _rows(grids, metric, scientific), title=title) for metric, title in wanted]


def _rows(grids: Mapping[str, GridLayout], metric: str, scientific: bool) -> tuple[Row, ...]:
    """A row per duration; of several engines those of each below its name."""
    rows = []
    for name, layout in grids.items():
        if len(grids) > 1:
            rows.append(Row((Cell(name),), heading=True))
        for duration_s in layout.durations:
            cells = (layout.cells[duration_s, size] for size in layout.batch_sizes)
            texts = (cell_text(cell, metric, scientific=scientific) for cell in cells)
            rows.append(Row((Cell(f"{duration_s:g} s"), *map(Cell, texts))))
    return tuple(rows)


def _absent_note(layout: GridLayout) -> str:
    """Which peaks were not measured, and why."""
    absent = [kind for kind in ("allocated", "reserved", "device") if not layout.has(f"peak_{kind}_bytes")]
    if not absent or not layout.measured:
        return ""
    note = layout.measured[0].metrics[f"peak_{absent[0]}_bytes"].note
    return f"{DASH}  {', '.join(absent)} memory, device time: {note}"


def _fit_lists(grids: Mapping[str, GridLayout]) -> list[Block]:
    over_duration, over_size = (
        [
            _of(name, len(grids) > 1) + fit_text(fit)
            for name, layout in grids.items()
            for fit in layout.fits
            if fit.params["axis"] == axis
        ]
        for axis in ("duration", "batch size")
    )
    return [
        *_lists("Scaling fit: time of a batch over its duration d", over_duration),
        *_lists("Scaling fit: time of a batch over its size B", over_size),
    ]


def _predictions(grids: Mapping[str, GridLayout]) -> list[str]:
    return [
        _of(name, len(grids) > 1) + text
        for name, layout in grids.items()
        for fit in layout.fits
        if (text := _prediction_text(fit))
    ]


def _lists(title: str, lines: Sequence[str]) -> list[Lines]:
    return [Lines(title, tuple(lines))] if lines else []


def _prediction_text(fit: Result) -> str:
    """The extrapolation of the fit to the length that was asked for; empty where none was."""
    if "predicted_time" not in fit.metrics:
        return ""
    time, rtfx = fit.metrics["predicted_time"], fit.metrics["predicted_rtfx"]
    at = f"{fit.params['predict_s']:g} s × {fit.params['batch_size']}"
    return f"{at}: {seconds_text(time)}, RTFx {format_interval(rtfx)} ({time.note})"


def _frontier_text(result: Result) -> str:
    """The largest batch that fits for a duration, and what stopped it."""
    largest, fails_at = result.metrics["largest_batch"], result.params["fails_at"]
    reason = largest.note
    if fails_at is not None and result.status == "ok":
        reason = f"{fails_at}: {FAILED.get(largest.code, largest.code)}"
    return f"{result.params['duration_s']:g} s: {largest.value or 0:.0f} ({reason})"


def _pace_finding(layout: GridLayout) -> str:
    paces = [(cell.metrics["rtfx"].value or 0.0, cell) for cell in layout.measured]
    if not paces:
        return "Nothing was measured"
    worst, best = min(paces, key=lambda pair: pair[0]), max(paces, key=lambda pair: pair[0])
    ends = (
        f"from RTFx {format_value(worst[1].metrics['rtfx'])} ({place_text(worst[1])}) "
        f"to {format_value(best[1].metrics['rtfx'])} ({place_text(best[1])})"
    )
    marks = [pace_mark(cell) for _, cell in paces]
    if len(paces) == 1:
        verdict = {SLOWER: "Slower than real time", OPEN: "Undecided whether it is faster than real time"}
        only = format_interval(worst[1].metrics["rtfx"])
        return f"{verdict.get(marks[0], 'Faster than real time')}: RTFx {only} ({place_text(worst[1])})"
    if not any(marks):
        return f"Faster than real time in every measured cell, {ends}"
    slower, undecided, measured = marks.count(SLOWER), marks.count(OPEN), f"of {len(paces)} measured cells"
    if not slower:
        return f"Undecided whether it is faster than real time in {undecided} {measured}, {ends}"
    more = f", undecided in {undecided}" if undecided else ""
    return f"Slower than real time in {slower} {measured}{more}, {ends}"


def _memory_finding(layout: GridLayout) -> list[str]:
    """The cell that takes most, by the memory that runs out first: the device's where there is one."""
    metric = "peak_reserved_bytes" if layout.measured and layout.has("peak_reserved_bytes") else "peak_host_bytes"
    peaks = [(cell.metrics[metric].value, cell) for cell in layout.measured if cell.metrics[metric].value is not None]
    if not peaks:
        return []
    value, cell = max(peaks, key=lambda pair: pair[0] or 0.0)
    over = cell.metrics[metric.replace("_bytes", "_over_baseline_bytes")].value
    more = "" if over is None else f", {format_bytes(over)} of it over the loaded model"
    where = "on the device" if metric == "peak_reserved_bytes" else "on the host"
    most = "at most" if cell.metrics[metric].code == "upper-bound" else "up to"
    return [f"It takes {most} {format_bytes(value or 0.0)} {where} ({place_text(cell)}){more}"]


def _failed_finding(layout: GridLayout) -> list[str]:
    failed = [cell for cell in layout.cells.values() if not cell.metrics and cell.status != "skipped"]
    if not failed:
        return []
    listed = ", ".join(f"{place_text(cell)} {failure_text(cell)}" for cell in failed[:6])
    more = f" and {len(failed) - 6} more" if len(failed) > 6 else ""
    return [f"{len(failed)} of {counted(len(layout.cells), 'cell')} could not be measured: {listed}{more}"]


def _lost_rounds_finding(layout: GridLayout) -> list[str]:
    lost = [cell for cell in layout.measured if any(warning.code == "rounds-failed" for warning in cell.warnings)]
    if not lost:
        return []
    return [f"Some rounds failed in {len(lost)} of {len(layout.measured)} measured cells, see the warnings"]
