"""The engines of a grid against the first, as tables and sentences."""

from __future__ import annotations

from dataclasses import replace

from stopwav.report.document import PAGE, TEXT, Cell, Column, Note, Row, Section, Table, in_detail
from stopwav.report.text import DASH, effect_text, format_digits
from stopwav.stats.change import Change
from stopwav.studies.grid.verdicts import GridVerdicts


def verdict_sections(verdicts: GridVerdicts | None) -> list[Section]:
    """Return a table for each engine but the first: its real-time factor relative to the first's, cell by cell."""
    return [] if verdicts is None else [_verdict_section(verdicts, engine) for engine in verdicts.engines]


def _verdict_section(verdicts: GridVerdicts, engine: str) -> Section:
    own = {(verdict.duration_s, verdict.batch_size): verdict.rtf for verdict in verdicts.of(engine)}
    durations, sizes = sorted({place[0] for place in own}), sorted({place[1] for place in own})
    rows = []
    for duration_s in durations:
        changes = (own.get((duration_s, size)) for size in sizes)
        texts = (DASH if change is None else change_text(change) for change in changes)
        rows.append(Row((Cell(f"{duration_s:g} s"), *map(Cell, texts))))
    title = f"{engine} against {verdicts.base}: RTF, ×"
    table = Table((Column("", "left"), *(Column(f"× {size}") for size in sizes)), tuple(rows), title=title)
    rule = next((verdict.rtf.rule_text for verdict in verdicts.of(engine) if verdict.rtf.rule), "")
    note = f"×: relative to {verdicts.base}, paired by round; Holm over all cells; {rule}".removesuffix("; ")
    return Section(title, (replace(table, media=TEXT), replace(table, title="", media=PAGE), *in_detail([Note(note)])))


def change_text(change: Change) -> str:
    """Return the ratio and the verdict that stand in a cell."""
    ratio = effect_text(change).partition(" ")[0]
    return DASH if change.value is None else f"{ratio} {change.verdict}"


def verdict_finding(verdicts: GridVerdicts, engine: str) -> str:
    """Return in how many cells an engine is faster than the first, slower, the same or undecided."""
    own = [verdict.rtf for verdict in verdicts.of(engine)]
    found = [change for change in own if change.value is not None]
    if not found:
        return f"{engine} against {verdicts.base}: no cell was measured of both"
    kinds = {kind: sum(change.verdict == kind for change in found) for kind in dict.fromkeys(c.verdict for c in found)}
    if len(kinds) == 1:
        (verdict,) = kinds
        where = "the one measured cell" if len(found) == 1 else f"every one of {len(found)} cells"
        text = f"{verdict} in {where}"
    else:
        text = ", ".join(f"{kind} in {count}" for kind, count in kinds.items()) + f" of {len(found)} cells"
    ratios = sorted(change.value for change in found if change.value is not None)
    span = f"{format_digits(ratios[0])}–{format_digits(ratios[-1])}" if len(ratios) > 1 else format_digits(ratios[0])
    return f"{engine} against {verdicts.base}: {text}; its RTF is {span} times that of {verdicts.base}"
