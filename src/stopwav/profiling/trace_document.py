"""The tables of analysed, compared and merged traces, as documents."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stopwav.report.document import Block, Cell, Column, Document, Lines, Missing, Note, Row, Table
from stopwav.report.terminal import format_seconds
from stopwav.report.text import DASH, counted, effect_text, format_bytes, format_number

if TYPE_CHECKING:
    from stopwav.profiling.analysis import TraceAnalysis
    from stopwav.profiling.operators import Kernel, Operator
    from stopwav.profiling.trace_diff import NameChange, TraceDiff
    from stopwav.profiling.trace_merge import MergedTrace

# About a screenful: the rest is in the analysis, and its sum in the last line.
LISTED_NAMES = 15
# A kernel's name may fill a page; without what most of them begin with, the beginning identifies it.
LONGEST_NAME = 80
_NOISE = re.compile(r"^void |at::native::|\(anonymous namespace\)::")
# The title of each table, and the heading of its names.
TABLES = {
    "operators": ("Operators on the host", "operator"),
    "kernels": ("Kernels, copies and fills on the devices", "kernel"),
    "launches": ("Device time by the operator that launched it: the kernels' time again", "operator"),
    "labels": ("Labels: their own time is that between operators", "label"),
    "stages": ("Stages and modules: the operators' time again", "stage"),
    "functions": ("Python functions: the operators' time again", "function"),
}
_PROFILED = "Times under a profiler show which part is large, not how long it takes without one."


def analysis_document(analysis: TraceAnalysis, top: int | None = None) -> Document:
    """Return the tables of traces: names by time, devices with their idle share, memory; and what is missing."""
    listed = LISTED_NAMES if top is None else top
    skipped = f", {len(analysis.skipped)} skipped" if analysis.skipped else ""
    steps = f", {counted(analysis.steps, 'step')}" if analysis.steps else ""
    blocks: list[Block] = [
        Note(f"{analysis.folder}: {counted(len(analysis.files), 'trace')}{skipped}{steps}", quiet=False)
    ]
    tables = analysis.tables
    blocks += [_times_table(name, tables[name], listed) for name in TABLES if name in tables]
    blocks += [*_device_table(analysis), *_memory_table(analysis)]
    blocks.append(Missing(tuple(_missing(analysis))))
    remarks = [f"skipped {skipped.file}: {skipped.reason}" for skipped in analysis.skipped]
    return Document("traces", (*blocks, *_remarks([*remarks, *analysis.notes]), Note(_PROFILED)))


def trace_diff_document(diff: TraceDiff, top: int | None = None) -> Document:
    """Return the traces of both sides, the changes table by table, and a sentence on the largest of each."""
    listed = LISTED_NAMES if top is None else top
    sides = []
    for label, files, units in (("a", diff.a, diff.units_a), ("b", diff.b, diff.units_b)):
        steps = "" if diff.unit == "trace" else f", {sum(units)} × {diff.unit}"
        place = files[0] if len(files) == 1 else os.path.commonpath(files)
        sides.append(Note(f"{label}: {place} ({counted(len(files), 'trace')}{steps})", quiet=False))
    tables = [_change_table(name, diff, listed) for name in TABLES if diff.tables.get(name)]
    findings = [sentence for name in ("operators", "kernels", "stages") for sentence in _finding(name, diff)]
    return Document("traces diff", (*sides, *tables, *_remarks(diff.notes), Note(_PROFILED)), tuple(findings))


def merged_document(merged: MergedTrace) -> Document:
    """Return the sources of a merged trace, where its time begins for each, and where to open it."""
    columns = (
        Column("source", "left", fold=True, least=24),
        *(Column(heading) for heading in ("events", "processes", "first event", "moved by")),
    )
    rows = [
        (
            source.name,
            str(source.events),
            str(len(source.processes)),
            format_seconds(source.first_s),
            format_seconds(source.moved_s) if source.moved_s else "not moved",
        )
        for source in merged.sources
    ]
    opened = Note(f"{merged.path}: open it at ui.perfetto.dev or chrome://tracing", quiet=False)
    return Document("traces merge", (_table(columns, rows), Note(merged.alignment), *_remarks(merged.notes), opened))


def _table(columns: Sequence[Column], rows: Sequence[Sequence[str]], title: str = "") -> Table:
    return Table(tuple(columns), tuple(Row(tuple(map(Cell, row))) for row in rows), title)


def _remarks(lines: Sequence[str]) -> list[Block]:
    return [Lines("Read with care", tuple(lines))] if lines else []


def _name_column(name: str) -> Column:
    return Column(TABLES[name][1], "left", least=16, shorten=True)


def _times_table(name: str, rows: Sequence[Operator | Kernel], listed: int) -> Table:
    """Return the rows of the longest times, each with its share, and one row for the sum of the others."""
    whole_s = sum(row.self_s for row in rows)
    memory = [field for field in ("host_bytes", "device_bytes") if any(getattr(row, field, 0) for row in rows)]
    columns = [_name_column(name), Column("kind", "left")]
    columns += [Column(heading) for heading in ("calls", "own time", "share", "total time")]
    columns += [Column(f"own {field.removesuffix('_bytes')} memory", wide=True) for field in memory]
    texts = [
        (
            *(_cut(row.name), row.kind, str(row.calls), format_seconds(row.self_s), _share(row.self_s, whole_s)),
            *(format_seconds(row.total_s), *(format_bytes(getattr(row, field)) for field in memory)),
        )
        for row in rows[:listed]
    ]
    if others := rows[listed:]:
        calls, own_s = sum(row.calls for row in others), sum(row.self_s for row in others)
        summed = (f"{len(others)} others", "", str(calls), format_seconds(own_s), _share(own_s, whole_s))
        texts.append((*summed, *[""] * (1 + len(memory))))
    return _table(columns, texts, TABLES[name][0])


def _device_table(analysis: TraceAnalysis) -> Iterator[Table]:
    headings = ("busy", "first to last kernel", "idle")
    rows = [
        (
            f"{device.device} in {device.file}",
            *(format_seconds(device.busy_s), format_seconds(device.span_s), f"{device.idle_share:.1%}"),
        )
        for device in analysis.devices
    ]
    if rows:
        yield _table([Column("device", "left", fold=True), *map(Column, headings)], rows, "Devices")


def _memory_table(analysis: TraceAnalysis) -> Iterator[Table]:
    rows = [
        (f"{line.device} in {line.file}", format_bytes(line.peak_bytes), format_seconds(line.peak_at_s))
        for line in analysis.memory
    ]
    if rows:
        yield _table([Column("memory", "left", fold=True), Column("peak"), Column("at")], rows, "Allocated memory")


def _missing(analysis: TraceAnalysis) -> Iterator[str]:
    if not analysis.devices:
        yield "idle share: no kernel in these traces"
    if not analysis.memory:
        yield "memory: no [memory] events in these traces; torch.profiler writes them with profile_memory=True"


def _change_table(name: str, diff: TraceDiff, listed: int) -> Table:
    """Return the rows of the largest changes, and one row for the sum of the others."""
    rows = diff.tables[name]
    columns = [_name_column(name), Column("calls")]
    columns += [Column(heading) for heading in ("own, a", "own, b", "change", "b/a")]
    columns += [Column("verdict", "left", fold=True, least=10)] if diff.decided else []
    columns += [Column(heading, wide=True) for heading in ("own per call, a", "per call, b", "total, a", "total, b")]
    lines = []
    for row in rows[:listed]:
        per_call = (format_seconds(side.self_per_call_s) for side in (row.a, row.b))
        totals = (format_seconds(side.total_s) if side.calls else DASH for side in (row.a, row.b))
        lines.append(Row((*_compared(row, diff.decided), *map(Cell, per_call), *map(Cell, totals))))
    if others := rows[listed:]:
        own_a, own_b = sum(row.a.self_s for row in others), sum(row.b.self_s for row in others)
        summed = (format_seconds(own_a), format_seconds(own_b), _signed(own_b - own_a))
        lines.append(Row(tuple(map(Cell, (f"{len(others)} others", "", *summed, *[""] * (len(columns) - 5))))))
    return Table(tuple(columns), tuple(lines), f"{TABLES[name][0]}, per {diff.unit}")


def _compared(row: NameChange, decided: bool) -> Iterator[Cell]:
    """Yield name, calls, own times, their change and ratio, and the verdict where there are any."""
    calls_a, calls_b = _calls(row.a.calls), _calls(row.b.calls)
    own_a, own_b = (format_seconds(side.self_s) if side.calls else DASH for side in (row.a, row.b))
    yield Cell(_cut(row.name))
    yield Cell(calls_a if calls_a == calls_b else f"{calls_a} → {calls_b}")
    yield from map(Cell, (own_a, own_b, _signed(row.self_change_s)))
    ratio = DASH if row.self_ratio is None else format_number(row.self_ratio, 2)
    if row.status != "both":
        yield Cell(row.status)
    else:
        yield Cell(ratio if row.own is None else effect_text(row.own), short=ratio)
    if decided and row.own is not None:
        more = "" if row.own.more_rounds is None else f" ({counted(row.own.more_rounds, 'more trace')})"
        yield Cell(f"{row.own.verdict}{more}", short=row.own.verdict)
    elif decided:
        yield Cell("")


def _finding(name: str, diff: TraceDiff) -> Iterator[str]:
    """Yield a sentence on the largest change of own time in a table."""
    rows = diff.tables.get(name, ())
    largest = max(rows, key=lambda row: abs(row.self_change_s), default=None)
    if largest is None or not largest.self_change_s:
        return
    own_a, own_b = sum(row.a.self_s for row in rows), sum(row.b.self_s for row in rows)
    if largest.status == "both":
        times = f"{format_seconds(largest.a.self_s)} → {format_seconds(largest.b.self_s)}"
    else:
        times = f"{largest.status}, {format_seconds(largest.a.self_s or largest.b.self_s)}"
    verdict = f", {largest.own.verdict}" if largest.own is not None else ""
    yield (
        f"{name}: the own time of {_cut(largest.name)} changed most ({times} per {diff.unit}{verdict}); "
        f"all {name} {format_seconds(own_a)} → {format_seconds(own_b)}"
    )


def _share(seconds: float, whole_s: float) -> str:
    return f"{seconds / whole_s:.1%}" if whole_s else DASH


def _signed(seconds: float) -> str:
    return f"{'+' if seconds > 0 else ''}{format_seconds(seconds)}"


def _calls(calls: float) -> str:
    return format_number(calls, 0 if calls == round(calls) else 1)


def _cut(name: str) -> str:
    short = _NOISE.sub("", name)
    return short if len(short) <= LONGEST_NAME else f"{short[:LONGEST_NAME]}…"
