"""Documents as one self-contained HTML page, with the raw runs inside and no request to anywhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from stopwav.record import Record, Result
from stopwav.report.assets import pack, pack_bytes, template, text
from stopwav.report.chart import Chart, chart_script, css_variables, engine_ink
from stopwav.report.document import (
    LONGEST_LINE,
    LONGEST_NOTE,
    Block,
    Cell,
    Document,
    Figures,
    Row,
    Section,
    Table,
    Timelines,
    footnotes,
    legend,
    shown,
)
from stopwav.report.number_tip import number_of, rare_warnings, split_interval
from stopwav.report.provenance import facts
from stopwav.report.text import format_bytes, format_ends, format_value, plain
from stopwav.stats import Estimate

# A page is sent by mail and opened on a phone: of a larger run, it says where the file is.
LARGEST_RAW_BYTES = 4_000_000
# A run is packed to a fifth of its size or less; to a twentieth, hardly ever.
_MOST_PACKING = 20
_RAW_GONE = "not embedded: it is no longer where it was read from"
_RAW_LARGE = "not embedded: it is too large for a page; ask the sender for it"


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
        **head_of(document, f"s{index}-"),
        "html": drawn.html,
        "blobs": {key: Markup(value) for key, value in blobs.items()},
        "raw": document.record is not None,
        "raw_missing": missing,
        "raw_name": "" if document.record is None else plain(document.record.path.name, 120),
        "raw_size": format_bytes(float(len(packed) * 3 // 4)) if packed else "",
        "metrics": [row for result in document.measured for row in _metric_rows(section, result)],
    }


def head_of(document: Document, prefix: str) -> dict[str, Any]:
    """The title, findings, warnings and origin of a document, as the templates take them."""
    return {
        "prefix": prefix,
        "heading": plain(document.title, 200),
        "facts": [*document.facts, *([] if document.record is None else facts(document.record, document.rounds))],
        "findings": [_finding(finding, document) for finding in document.findings],
        "footnotes": footnotes(document.warned),
    }


def _finding(finding: str, document: Document) -> dict[str, str | None]:
    """A finding, with the colour of the engine that it is about where it begins with its name."""
    names = [result.name for result in document.warned]
    own = [engine_ink(index) for index, name in enumerate(names) if finding.startswith(f"{name}: ")]
    # A number stays on one line with its unit.
    text = plain(finding, LONGEST_NOTE).replace(" %", "\u00a0%").replace(" s ", "\u00a0s ")
    return {"text": text, "colour": own[0] if own else None}


def _raw(record: Record) -> tuple[str, str]:
    """The run file, packed, or why it is not there."""
    try:
        if record.path.stat().st_size > _MOST_PACKING * LARGEST_RAW_BYTES:
            return "", _RAW_LARGE
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
        "interval": format_ends(estimate, most=6),
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


# Timelines are inflated a batch at a time: small enough to be there at once, large enough to compress well.
BATCH = 25
# A word of 100 kB and a transcript of an hour are cut on the timeline; the run file keeps them whole.
LONGEST_WORD, MOST_WORDS = 60, 400
LONGEST_LABEL = 70


@dataclass(frozen=True)
class Drawn:
    """Blocks as markup (escaped by its template), charts by element id, and packed data by element id."""

    html: Markup
    charts: Mapping[str, Chart]
    blobs: Mapping[str, str]


def draw_blocks(
    document: Document, charts: Mapping[str, Chart], prefix: str, drawings: Mapping[str, Markup] | None = None
) -> Drawn:
    """Return the blocks of a document; `prefix` makes the ids of its elements unique on the page.

    `drawings` are charts by name that stand where the page's script would draw them.
    """
    blocks = [*shown(document.blocks, "page"), *legend(document, "page", every_metric=True)]
    named = list(dict.fromkeys(_figure_names(blocks, list(charts))))
    ids = {name: f"{prefix}chart-{index}" for index, name in enumerate(named)}
    notes = footnotes(document.warned)
    rare = rare_warnings(notes, document, blocks)
    html = template("blocks.html.jinja").render(
        blocks=blocks,
        prefix=prefix,
        charts=charts,
        folded_charts=[name for name, chart in charts.items() if chart.folded],
        open_charts=[name for name, chart in charts.items() if not chart.folded],
        ids=ids,
        kind=lambda block: type(block).__name__,
        parts=_parts,
        shown=lambda inner: shown(inner, "page"),
        number=lambda cell: number_of(cell, document, notes, rare),
        ink=engine_ink,
        plain=plain,
        split_interval=split_interval,
        longest_line=LONGEST_LINE,
        longest_note=LONGEST_NOTE,
        label=_label,
        batch=BATCH,
        drawings=drawings or {},
    )
    return Drawn(Markup(html), {ids[name]: charts[name] for name in named}, _blobs(blocks, prefix))


def _figure_names(blocks: Sequence[Block], charts: Sequence[str]) -> list[str]:
    names: list[str] = []
    for block in blocks:
        if isinstance(block, Section):
            names += _figure_names(shown(block.blocks, "page"), charts)
        elif isinstance(block, Figures):
            names += [name for figure in block.names(charts) for name in figure]
    return names


def _parts(table: Table) -> list[Table]:
    """The table, or where it has heading rows a table for each group of rows, under that heading."""
    if not any(row.heading for row in table.rows):
        return [table]
    groups: list[tuple[Row, list[Row]]] = []
    if not table.rows[0].heading:
        groups.append((Row((Cell(table.columns[0].heading),), heading=True), []))
    for row in table.rows:
        if row.heading:
            groups.append((row, []))
        else:
            groups[-1][1].append(row)
    return [
        replace(
            table,
            columns=(replace(table.columns[0], heading=heading.cells[0].text), *table.columns[1:]),
            rows=tuple(rows),
            notes=(),
        )
        for heading, rows in groups
    ]


def _blobs(blocks: Sequence[Block], prefix: str) -> dict[str, str]:
    """The packed data of timelines, by element id."""
    blobs: dict[str, str] = {}
    for block in blocks:
        if isinstance(block, Section):
            blobs |= _blobs(shown(block.blocks, "page"), prefix)
        elif isinstance(block, Timelines):
            for start in range(0, len(block.streams), BATCH):
                batch = [_safe_stream(stream) for stream in block.streams[start : start + BATCH]]
                blobs[f"{prefix}timeline-{start // BATCH}"] = pack(batch)
    return blobs


def _label(stream: Mapping[str, Any]) -> str:
    text = f": {stream['text']}" if stream["text"] else ""
    return plain(f"{plain(stream['id'], 40)}{text}", LONGEST_LABEL)


def _safe_stream(stream: Mapping[str, Any]) -> dict[str, Any]:
    """A stream with its texts cut and made safe to show."""
    return {
        **stream,
        "id": plain(stream["id"], LONGEST_LABEL),
        "text": _cut(stream["text"]),
        "words": [[plain(word, LONGEST_WORD), start, end] for word, start, end in stream["words"]],
        "envelope_note": plain(stream["envelope_note"]),
        "lanes": [
            {
                **lane,
                "engine": plain(lane["engine"], 40),
                "failure": plain(lane["failure"]),
                "texts": [[at_s, _cut(text)] for at_s, text in lane["texts"]],
            }
            for lane in stream["lanes"]
        ],
    }


def _cut(text: str) -> str:
    words = text.split()
    tail = ["…"] if len(words) > MOST_WORDS else []
    return " ".join([*(plain(word, LONGEST_WORD) for word in words[:MOST_WORDS]), *tail])
