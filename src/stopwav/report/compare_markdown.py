"""A comparison as Markdown: the card, the verdicts, latency and energy over length, and where it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from stopwav.record import Record, Result
from stopwav.report.compare_layout import (
    Layout,
    arrange,
    card_rows,
    expectation_text,
    findings,
    has_energy,
    law_lines,
    length_note,
    length_rows,
    missing_notes,
    module_lines,
    pareto_text,
    verdict_rows,
)
from stopwav.report.compare_table import LABEL
from stopwav.report.markdown import doubts, escape, metrics_table, table
from stopwav.report.provenance import machine_line, measured_line
from stopwav.stats.card import Card


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
    parts += _lengths(layout, card, letters)
    for heading, lines in (
        ("How latency grows with d seconds of input", law_lines(layout)),
        ("Parameters by module", list(module_lines(layout))),
        ("Expected before the run", [expectation_text(one) for one in card.expectations]),
        ("Numbers and intervals that are missing, and why", missing_notes(layout)),
    ):
        if lines:
            parts.append("\n".join([f"{heading}:", "", *(f"- {escape(line)}" for line in lines)]))
    if every_metric:
        parts.append(metrics_table([*layout.engines, *layout.lengths.values()]))
    doubted = [*layout.engines, *(one for one in layout.lengths.values() if one.warnings)]
    parts += [part for part in (doubts(doubted),) if part]
    parts.append(
        f"Measured: {escape(measured_line(record.header))}<br>\nMachine: {escape(machine_line(record.header))}"
    )
    return "\n\n".join(parts) + "\n"


def _lengths(layout: Layout, card: Card, letters: Sequence[str]) -> list[str]:
    headings = ["frames", *letters, *(["B against A"] if len(letters) == 2 else [])]
    rows = length_rows(layout, card, "latency", 1e3, 2)
    parts = [f"**Latency over the length of the input, ms**\n\n{_table(headings, rows)}"]
    if has_energy(layout):
        rows = length_rows(layout, card, "energy_per_utterance_gross", 1.0, 3)
        parts.append(f"**Energy of an utterance, J, gross**\n\n{_table(headings, rows)}")
    return parts


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    # Cells are numbers and words of ours, a label's star apart.
    return table(headings, ([escape(label), *cells] for label, *cells in rows))
