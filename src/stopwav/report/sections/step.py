"""The section of a step run: the tree, its charts, phases, memory, and what the profiler saw."""

from __future__ import annotations

from stopwav.report.assets import template
from stopwav.report.charts import charts_of
from stopwav.report.sections.section import Part, Section
from stopwav.report.step_layout import (
    arrange_step,
    cells_of,
    doubt_note,
    spread_text,
    step_findings,
    summary_lines,
    title_of,
)


def render_section(section: Section, prefix: str) -> Part:
    """What a step run puts on the page."""
    layout = arrange_step(section.results)
    if not layout.step.metrics:
        return Part(step_findings(section.results))
    charts = charts_of("step", section.view, section.results)
    ids = {name: f"{prefix}chart-{index}" for index, name in enumerate(charts)}
    html = template("step.html.jinja").render(
        lines=[(line, [*cells_of(line.row), spread_text(line.row)]) for line in layout.lines()],
        notes=[note for note in (title_of(layout), *summary_lines(layout), doubt_note(layout)) if note],
        charts=charts,
        ids=ids,
        ranks=layout.ranks,
        profile=layout.step.params.get("profile"),
    )
    return Part(step_findings(section.results), html, {ids[name]: chart for name, chart in charts.items()})
