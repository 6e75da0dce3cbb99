"""One self-contained HTML page: what was measured, what was found, and the raw runs, with no request to anywhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from stopwav.record import Record, Result
from stopwav.report.assets import pack_bytes, template, text
from stopwav.report.charts import Chart, chart_script
from stopwav.report.charts.palette import css_variables
from stopwav.report.definitions import Definition
from stopwav.report.numbers import format_bytes, format_interval, format_value
from stopwav.report.plain import plain
from stopwav.report.presentation import Presentation, presentation_of
from stopwav.report.sections import Part, Section
from stopwav.report.sections.cautions import footnotes
from stopwav.report.sections.facts import facts
from stopwav.stats import Estimate

__all__ = ["Section", "render_page"]

# A browser takes a page of some tens of megabytes, not of hundreds; beyond this, the page says where the run lies.
LARGEST_RAW_BYTES = 24_000_000
_RAW_GONE = "not embedded: the run file is no longer where it was read from"
_RAW_LARGE = "not embedded: it is too large for a page; ask for the file beside it"


def render_page(sections: Sequence[Section], *, comparison_html: str = "") -> str:
    """The whole page: a section a run, and on top of them the comparison, which is trusted markup."""
    parts = [_shown(section).section(section, f"s{index}-") for index, section in enumerate(sections)]
    scripts = [chart_script(), text("page.js"), text("timeline.js")] if _drawn(parts) else [text("page.js")]
    style = f":root {{\n{css_variables()}\n}}\n{text('page.css')}"
    return template("page.html.jinja").render(
        title=_title(sections),
        policy=_policy(scripts),
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        comparison=Markup(comparison_html),
        sections=[_context(index, *pair) for index, pair in enumerate(zip(sections, parts, strict=True))],
        charts={key: chart.spec for part in parts for key, chart in part.charts.items()},
        definitions=_definitions(sections),
    )


def _shown(section: Section) -> Presentation:
    return presentation_of(section.record.header.study)


def _drawn(parts: Sequence[Part]) -> Mapping[str, Chart]:
    return {key: chart for part in parts for key, chart in part.charts.items()}


def _title(sections: Sequence[Section]) -> str:
    heads = [_heading(section) for section in sections]
    return heads[0] if len(heads) == 1 else f"{len(heads)} runs compared"


def _heading(section: Section) -> str:
    names = [plain(str(name), 40) for name in _shown(section).subject(section)]
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""
    study = plain(section.record.header.study, 40)
    return f"{study[:1].upper()}{study[1:]}" + (f" of {listed}" if listed else "")


def _context(index: int, section: Section, part: Part) -> dict[str, Any]:
    packed, missing = _raw(section.record)
    blobs = {**part.blobs, f"s{index}-raw": packed} if packed else dict(part.blobs)
    return {
        "prefix": f"s{index}-",
        "heading": _heading(section),
        "facts": facts(section.record),
        # A number stays on one line with its unit.
        "findings": [finding.replace(" %", "\u00a0%").replace(" s ", "\u00a0s ") for finding in part.findings],
        "footnotes": footnotes(_shown(section).doubted(section)),
        "html": Markup(part.html),
        "blobs": {key: Markup(value) for key, value in blobs.items()},
        "raw_missing": missing,
        "raw_name": plain(section.record.path.name, 120),
        "raw_size": format_bytes(float(len(packed) * 3 // 4)) if packed else "",
        "metrics": [row for result in _shown(section).named(section) for row in _metric_rows(section, result)],
    }


def _raw(record: Record) -> tuple[str, str]:
    """The run file, packed, or why it is not there."""
    try:
        content = record.path.read_bytes()
    except OSError:
        return "", _RAW_GONE
    packed = pack_bytes(content)
    return (packed, "") if len(packed) <= LARGEST_RAW_BYTES else ("", _RAW_LARGE)


def _metric_rows(section: Section, result: Result) -> list[dict[str, Any]]:
    known = _shown(section).definition
    return [_metric_row(result, name, estimate, known(name)) for name, estimate in result.metrics.items()]


def _metric_row(result: Result, name: str, estimate: Estimate, known: Definition | None) -> dict[str, Any]:
    return {
        "metric": plain(known.title if known else name, 80),
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


def _definitions(sections: Sequence[Section]) -> dict[str, tuple[str, str]]:
    """Title and sentence of every metric on the page."""
    names = {name: section for section in sections for result in section.results for name in result.metrics}
    known = {name: _shown(names[name]).definition(name) for name in sorted(names)}
    return {name: (one.title, one.text) for name, one in known.items() if one is not None}


def _policy(scripts: Sequence[str]) -> str:
    """What the browser may do with this page: run exactly these scripts, and ask nobody for anything."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    rest = "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; script-src {hashes}; {rest}"
