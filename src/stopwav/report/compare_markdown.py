"""A comparison as Markdown: the card, the verdicts, latency and energy over length, and where it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from stopwav.record import Record, Result
from stopwav.report.compare_layout import (
    arrange,
    card_rows,
    findings,
    length_note,
    missing_notes,
    pareto_text,
    verdict_rows,
)
from stopwav.report.compare_parts import LABEL, length_tables, lists
from stopwav.report.markdown import doubts, escape, metrics_table, origin, table
from stopwav.studies.compare.card import Card


def compare_markdown(record: Record, results: Sequence[Result], card: Card, *, every_metric: bool = False) -> str:
    """What a comparison found, as a document for a pull request, an issue or a README."""
    layout = arrange(results)
    letters = [layout.letter(engine.name) for engine in layout.engines]
    names = [f"- {letter}: {escape(one.name, 100)}" for letter, one in zip(letters, layout.engines, strict=True)]
    parts = ["### stopwav compare", "\n".join(names)]
    told = [*findings(layout, card), *([pareto_text(layout, card)] if len(letters) > 1 else [])]
    parts += ["\n".join(f"- {escape(line)}" for line in told)] if told else []
    parts.append(_table(["", *letters], [[label, *cells] for label, cells in card_rows(layout)]))
    parts.append(escape(f"{length_note(layout)}. In brackets the 95 % interval."))
    if card.verdicts:
        parts.append(f"{_table(*verdict_rows(layout, card))}\n\n<sub>{escape(LABEL, 400)}</sub>")
    parts += [f"**{title}**\n\n{_table(heads, rows)}" for title, heads, rows in length_tables(layout, card)]
    missing = ("Numbers and intervals that are missing, and why", missing_notes(layout))
    for heading, lines in (*lists(layout, card), missing):
        if lines:
            parts.append("\n".join([f"{heading}:", "", *(f"- {escape(line)}" for line in lines)]))
    if every_metric:
        parts.append(metrics_table([*layout.engines, *layout.lengths.values()]))
    doubted = [*layout.engines, *(one for one in layout.lengths.values() if one.warnings)]
    parts += [part for part in (doubts(doubted),) if part]
    parts.append(origin(record.header))
    return "\n\n".join(parts) + "\n"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    # Cells are numbers and words of ours, a label's star apart.
    return table(headings, ([escape(label), *cells] for label, *cells in rows))
