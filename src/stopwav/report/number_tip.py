"""What the page says of a number: its value and interval in words, its note, and the warnings that touch it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stopwav.report.document import Block, Cell, Document, Footnote, Section, Source, Table, shown
from stopwav.report.text import DASH, ROUGH, format_bytes, format_ends, missing, plain

_UNITS = {("s", 1.0): "s", ("s", 1e3): "ms", ("", 100): "%"}
# A warning about more than this share of the numbers says nothing of any one of them: it stands on top alone.
MOST_MARKED = 0.5


@dataclass(frozen=True)
class Number:
    """The tooltip of a number: its value and interval in words, its count, its note and its warnings."""

    metric: str
    of: str
    sort: str
    interval: str
    n: int
    note: str
    footnotes: tuple[Footnote, ...]
    # Those of them that stand at the number itself.
    marked: tuple[Footnote, ...]


def _sources(blocks: Sequence[Block]) -> Iterator[Source]:
    """The sources of all numbers that the page shows."""
    for block in blocks:
        if isinstance(block, Section):
            yield from _sources(shown(block.blocks, "page"))
        elif isinstance(block, Table):
            yield from (cell.source for row in block.rows for cell in row.cells if cell.source is not None)


def _touches(note: Footnote, source: Source, document: Document) -> bool:
    return source.result in note.names and document.doubts(note.code, source.metric)


def rare_warnings(notes: Sequence[Footnote], document: Document, blocks: Sequence[Block]) -> list[Footnote]:
    """Return the warnings that are marked at the numbers they touch."""
    sources = list(_sources(blocks))
    most = MOST_MARKED * len(sources)
    return [note for note in notes if sum(_touches(note, source, document) for source in sources) <= most]


def number_of(cell: Cell, document: Document, notes: Sequence[Footnote], rare: Sequence[Footnote]) -> Number | None:
    """Return the tooltip of a cell; None where it is no number of a metric."""
    source = cell.source
    if source is None:
        return None
    estimate = source.estimate
    touching = tuple(note for note in notes if _touches(note, source, document))
    return Number(
        metric=source.metric,
        of=plain(source.result, 40),
        sort="" if estimate.value is None else repr(estimate.value),
        interval=_interval_text(cell),
        n=estimate.n,
        note=plain(estimate.note),
        footnotes=touching,
        marked=tuple(note for note in touching if note in rare),
    )


def split_interval(text: str) -> tuple[str, str]:
    """Return the number of a cell, and its interval in brackets with its mark."""
    value, *ends = re.split(rf" (?={ROUGH}?\[)", text, maxsplit=1)
    return value, "".join(ends)


def _interval_text(cell: Cell) -> str:
    """The value with its unit and interval, as a sentence of its own."""
    assert cell.source is not None
    estimate, scale = cell.source.estimate, cell.source.scale
    if estimate.value is None:
        return missing(estimate) if missing(estimate) != DASH else "no value"
    value, between = split_interval(cell.text)
    unit = _UNITS.get((estimate.unit, scale), "")
    if estimate.unit == "B" and estimate.low is not None and estimate.high is not None:
        between = f"{format_bytes(estimate.low)} to {format_bytes(estimate.high)}"
    between = (between or format_ends(estimate, scale)).strip(f"{ROUGH}[]")
    name = "rough 95 % interval" if estimate.rough else "95 % interval"
    interval = f"{name} {between.replace('–', ' to ')} {unit}".strip() if between else "no interval"
    return f"{value} {unit}".strip() + f"; {interval}"
