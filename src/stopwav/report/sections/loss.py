"""The section of a loss run: a table per setting, bars with whiskers, and time against memory and what was varied."""

from __future__ import annotations

from stopwav.report.assets import template
from stopwav.report.charts import charts_of
from stopwav.report.loss_findings import loss_findings
from stopwav.report.loss_layout import legend, loss_tables
from stopwav.report.sections.section import Part, Section


def render_section(section: Section, prefix: str) -> Part:
    """What a loss run puts on the page."""
    charts = charts_of("loss", section.view, section.results)
    ids = {name: f"{prefix}chart-{index}" for index, name in enumerate(charts)}
    html = template("loss.html.jinja").render(
        tables=loss_tables(section.results), notes=legend(section.results), charts=charts, ids=ids
    )
    return Part(loss_findings(section.results), html, {ids[name]: chart for name, chart in charts.items()})
