"""The section of a grid run: tables of pace and memory, heat maps, scaling curves, laws and the frontier."""

from __future__ import annotations

from stopwav.report.assets import template
from stopwav.report.charts import charts_of
from stopwav.report.grid_findings import grid_findings
from stopwav.report.grid_layout import (
    absent_note,
    arrange,
    frontier_text,
    law_text,
    pace_note,
    prediction_text,
    tables,
)
from stopwav.report.sections.section import Part, Section


def render_section(section: Section, prefix: str) -> Part:
    """What a grid run puts on the page."""
    layout = arrange(section.results)
    charts = charts_of("grid", section.view, section.results)
    ids = {name: f"{prefix}chart-{index}" for index, name in enumerate(charts)}
    html = template("grid.html.jinja").render(
        layout=layout,
        tables=tables(layout),
        notes=[note for note in (pace_note(layout), absent_note(layout)) if note],
        charts=charts,
        ids=ids,
        maps=[name for name in charts if not name.startswith("scaling")],
        curves=[name for name in charts if name.startswith("scaling")],
        lists=[
            ("How the time of a batch grows", [law_text(law) for law in layout.laws]),
            ("Predictions, not measurements", [told for law in layout.laws if (told := prediction_text(law))]),
            ("Largest batch that fits", [frontier_text(one) for one in layout.frontier]),
        ],
    )
    return Part(grid_findings(section.results), html, {ids[name]: chart for name, chart in charts.items()})
