"""A document as the output of a notebook's cell: its tables, with charts as drawings; no script, no request."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from markupsafe import Markup

from stopwav.report.assets import template, text
from stopwav.report.chart import chart_drawing, css_variables
from stopwav.report.document import Block, Note, Section, Timelines
from stopwav.report.page import PageSection, draw_blocks, head_of


def notebook_html(section: PageSection) -> str:
    """Return the document as HTML whose style holds for itself alone, readable on light and dark ground."""
    # Two outputs in one notebook have elements of different names; the same document always has the same ones.
    document = replace(section.document, blocks=tuple(_still(section.document.blocks)))
    name = f"{document.title}{document.findings}"
    prefix = f"stopwav-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}-"
    drawings = {
        key: Markup(chart_drawing(chart.spec, f"{prefix}{index}-"))
        for index, (key, chart) in enumerate(section.charts.items())
    }
    drawn = draw_blocks(document, section.charts, prefix, drawings)
    return template("notebook.html.jinja").render(
        style=Markup(f".stopwav {{\n{css_variables()}\n{text('page.css')}\n{text('notebook.css')}\n}}"),
        section={**head_of(document, prefix), "html": drawn.html},
    )


def _still(blocks: Sequence[Block]) -> Iterator[Block]:
    """The blocks without those that need the page's script."""
    for block in blocks:
        if isinstance(block, Section):
            if inner := tuple(_still(block.blocks)):
                yield replace(block, blocks=inner)
        elif not isinstance(block, Timelines) and not (isinstance(block, Note) and block.scripted):
            yield block
