"""The blocks of a document as HTML: one macro a kind of block, and what a number shows when it is pointed at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from stopwav.report.assets import pack, template
from stopwav.report.chart import Chart
from stopwav.report.document import (
    Block,
    Cell,
    Document,
    Figures,
    Footnote,
    Row,
    Section,
    Table,
    Timelines,
    footnotes,
    shown,
)
from stopwav.report.palette import engine_ink
from stopwav.report.text import format_bytes, format_interval, plain

_UNITS = {("s", 1.0): "s", ("s", 1e3): "ms", ("", 100): "%"}
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


@dataclass(frozen=True)
class Number:
    """What a number shows on demand: its value and interval in words, its count, its note and its warnings."""

    metric: str
    of: str
    sort: str
    interval: str
    n: int
    note: str
    footnotes: tuple[Footnote, ...]


def draw_blocks(document: Document, charts: Mapping[str, Chart], prefix: str) -> Drawn:
    """Return the blocks of a document; `prefix` makes the ids of its elements unique on the page."""
    blocks = shown(document.blocks, "page")
    named = list(dict.fromkeys(_figure_names(blocks, list(charts))))
    ids = {name: f"{prefix}chart-{index}" for index, name in enumerate(named)}
    notes = footnotes(document.warned)
    html = template("blocks.html.jinja").render(
        blocks=blocks,
        prefix=prefix,
        charts=charts,
        ids=ids,
        kind=lambda block: type(block).__name__,
        parts=_parts,
        shown=lambda inner: shown(inner, "page"),
        number=lambda cell: _number(cell, document, notes),
        ink=engine_ink,
        plain=plain,
        label=_label,
        batch=BATCH,
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


def _number(cell: Cell, document: Document, notes: Sequence[Footnote]) -> Number | None:
    """What a cell shows on demand; None where it is no number of a metric."""
    source = cell.source
    if source is None:
        return None
    estimate = source.estimate
    touching = (note for note in notes if source.result in note.names and document.doubts(note.code, source.metric))
    return Number(
        metric=source.metric,
        of=plain(source.result, 40),
        sort="" if estimate.value is None else repr(estimate.value),
        interval=_interval_text(cell),
        n=estimate.n,
        note=plain(estimate.note),
        footnotes=tuple(touching),
    )


def _interval_text(cell: Cell) -> str:
    """The value with its unit and interval, as a sentence of its own."""
    assert cell.source is not None
    estimate, scale = cell.source.estimate, cell.source.scale
    if estimate.value is None:
        return "no value"
    value, _, between = cell.text.partition(" [")
    between = between.rstrip("]")
    unit = _UNITS.get((estimate.unit, scale), "")
    if estimate.unit == "B" and estimate.low is not None and estimate.high is not None:
        between = f"{format_bytes(estimate.low)} to {format_bytes(estimate.high)}"
    elif not between and estimate.low is not None:
        between = format_interval(estimate, scale).partition(" [")[2].rstrip("]")
    interval = f"95 % interval {between.replace('–', ' to ')} {unit}".strip() if between else "no interval"
    return f"{value} {unit}".strip() + f"; {interval}"


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
    return plain(f"{plain(stream['id'], 40)}: {stream['text']}", LONGEST_LABEL)


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
