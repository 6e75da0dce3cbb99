"""The section of a comparison: the card, verdicts, hypotheses, curves over length, and parameters by module."""

from __future__ import annotations

from stopwav.report.charts import charts_of
from stopwav.report.sections.section import Part, Section

from stopwav.report.assets import template
from stopwav.report.compare_findings import compare_findings
from stopwav.report.compare_layout import (
    Layout,
    arrange,
    card_rows,
    expectation_text,
    has_energy,
    law_lines,
    length_note,
    length_rows,
    missing_notes,
    module_lines,
    pareto_text,
    verdict_rows,
)
from stopwav.report.compare_parts import LABEL
from stopwav.report.palette import engine_ink
from stopwav.report.text import plain
from stopwav.studies.compare.card import Card


def render_section(section: Section, prefix: str) -> Part:
    """What a comparison puts on the page."""
    layout, card = arrange(section.results), section.view["card"]
    charts = charts_of("compare", section.view, section.results)
    ids = {name: f"{prefix}chart-{index}" for index, name in enumerate(charts)}
    html = template("compare.html.jinja").render(
        engines=[
            (one, layout.letter(one.name), plain(one.name, 60), engine_ink(i)) for i, one in enumerate(layout.engines)
        ],
        rows=list(card_rows(layout)),
        notes=[length_note(layout), *(plain(note) for note in missing_notes(layout))],
        verdicts=verdict_rows(layout, card) if card.verdicts else None,
        label=LABEL,
        pareto=pareto_text(layout, card) if len(layout.engines) > 1 else "",
        expected=[expectation_text(one) for one in card.expectations],
        lengths=_length_tables(layout, card),
        laws=law_lines(layout),
        energy_note=_energy_note(layout),
        modules=list(module_lines(layout)),
        charts=charts,
        ids=ids,
    )
    return Part(compare_findings(layout, card), html, {ids[name]: chart for name, chart in charts.items()})


def _length_tables(layout: Layout, card: Card) -> list[tuple[str, list[list[str]]]]:
    """A title and rows for latency and, where it was metered, energy."""
    tables = [("Latency, ms", length_rows(layout, card, "latency", 1e3, 2))]
    if has_energy(layout):
        tables.append(
            ("Energy of an utterance, J, gross", length_rows(layout, card, "energy_per_utterance_gross", 1, 3))
        )
    return tables


def _energy_note(layout: Layout) -> str:
    """Why there is no curve of energy; nothing where there are numbers of it."""
    if has_energy(layout):
        return ""
    asked = (one.metrics.get("energy_per_audio_s_gross") for one in layout.engines)
    reasons = dict.fromkeys(plain(one.note, 200) for one in asked if one is not None)
    if not reasons:
        return "Energy was not measured: --energy asks for it."
    return f"Energy could not be measured: {'; '.join(reasons)}."
