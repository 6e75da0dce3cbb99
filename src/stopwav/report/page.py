"""Documents as one self-contained HTML page, with the raw runs inside and no request to anywhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from stopwav.record import Record, Result
from stopwav.report.assets import pack_bytes, template, text
from stopwav.report.chart import Chart, chart_script
from stopwav.report.document import LONGEST_NOTE, Document, footnotes
from stopwav.report.html_blocks import Drawn, draw_blocks
from stopwav.report.palette import css_variables
from stopwav.report.provenance import facts
from stopwav.report.text import format_bytes, format_interval, format_value, plain
from stopwav.stats import Estimate

# A browser takes a page of some tens of megabytes, not of hundreds; beyond this, the page says where the run lies.
LARGEST_RAW_BYTES = 24_000_000
_RAW_GONE = "not embedded: the run file is no longer where it was read from"
_RAW_LARGE = "not embedded: it is too large for a page; ask for the file beside it"


@dataclass(frozen=True)
class PageSection:
    """One document with the charts that its blocks name, and the title and meaning of a metric."""

    document: Document
    charts: Mapping[str, Chart]
    define: Callable[[str], tuple[str, str] | None]


def render_page(sections: Sequence[PageSection], comparison: Document | None = None) -> str:
    """Return the whole page: a section a document, and on top of them the comparison of their runs."""
    drawn = [draw_blocks(section.document, section.charts, f"s{index}-") for index, section in enumerate(sections)]
    charts = {key: chart.spec for part in drawn for key, chart in part.charts.items()}
    scripts = [chart_script(), text("page.js"), text("timeline.js")] if charts else [text("page.js")]
    return template("page.html.jinja").render(
        title=plain(comparison.title if comparison else sections[0].document.title, 200),
        policy=_policy(scripts),
        style=Markup(f":root {{\n{css_variables()}\n}}\n{text('page.css')}"),
        scripts=[Markup(script) for script in scripts],
        comparison=None if comparison is None else draw_blocks(comparison, {}, "c-").html,
        sections=[_context(index, *pair) for index, pair in enumerate(zip(sections, drawn, strict=True))],
        charts=charts,
        definitions=_definitions(sections),
    )


def _context(index: int, section: PageSection, drawn: Drawn) -> dict[str, Any]:
    document = section.document
    packed, missing = ("", "") if document.record is None else _raw(document.record)
    blobs = {**drawn.blobs, f"s{index}-raw": packed} if packed else dict(drawn.blobs)
    return {
        "prefix": f"s{index}-",
        "heading": plain(document.title, 200),
        "facts": [] if document.record is None else facts(document.record),
        # A number stays on one line with its unit.
        "findings": [
            plain(finding, LONGEST_NOTE).replace(" %", "\u00a0%").replace(" s ", "\u00a0s ")
            for finding in document.findings
        ],
        "footnotes": footnotes(document.warned),
        "html": drawn.html,
        "blobs": {key: Markup(value) for key, value in blobs.items()},
        "raw": document.record is not None,
        "raw_missing": missing,
        "raw_name": "" if document.record is None else plain(document.record.path.name, 120),
        "raw_size": format_bytes(float(len(packed) * 3 // 4)) if packed else "",
        "metrics": [row for result in document.measured for row in _metric_rows(section, result)],
    }


def _raw(record: Record) -> tuple[str, str]:
    """The run file, packed, or why it is not there."""
    try:
        content = record.path.read_bytes()
    except OSError:
        return "", _RAW_GONE
    packed = pack_bytes(content)
    return (packed, "") if len(packed) <= LARGEST_RAW_BYTES else ("", _RAW_LARGE)


def _metric_rows(section: PageSection, result: Result) -> list[dict[str, Any]]:
    return [_metric_row(result, name, estimate, section.define(name)) for name, estimate in result.metrics.items()]


def _metric_row(result: Result, name: str, estimate: Estimate, known: tuple[str, str] | None) -> dict[str, Any]:
    return {
        "metric": plain(known[0] if known else name, 80),
        "name": plain(name, 80),
        "engine": plain(result.name, 40),
        # Seconds as they are stored: six decimals are microseconds.
        "value": format_value(estimate, most=6),
        "sort": "" if estimate.value is None else repr(estimate.value),
        "interval": format_interval(estimate, most=6).partition(" ")[2],
        "n": estimate.n,
        "unit": estimate.unit,
        "note": plain(estimate.note),
    }


def _definitions(sections: Sequence[PageSection]) -> dict[str, tuple[str, str]]:
    """Title and meaning of every metric on the page."""
    owners = {name: section for section in sections for result in section.document.measured for name in result.metrics}
    known = {name: owners[name].define(name) for name in sorted(owners)}
    return {name: definition for name, definition in known.items() if definition is not None}


def _policy(scripts: Sequence[str]) -> str:
    """The content security policy: the browser may run exactly these scripts, and load nothing."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    rest = "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {hashes}; {rest}"
