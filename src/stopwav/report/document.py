"""A document: the content of a report, as blocks that know no medium. Each renderer turns them into its own form.

Texts are as they came, with whatever an engine put into a name: making them safe to show is each renderer's task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from stopwav.record import Record, Result
from stopwav.report.text import LONGEST, ROUGH, ROUGH_LEGEND, plain
from stopwav.stats import Estimate

# A terminal shows what is brief, and everything where that is asked for.
Medium = Literal["brief", "terminal", "markdown", "page"]
EVERYWHERE: tuple[Medium, ...] = ("brief", "terminal", "markdown", "page")
TEXT: tuple[Medium, ...] = ("brief", "terminal", "markdown")
SCREEN: tuple[Medium, ...] = ("brief", "terminal")
BRIEF: tuple[Medium, ...] = ("brief",)
PAGE: tuple[Medium, ...] = ("page",)


@dataclass(frozen=True)
class Detail:
    """How much of a run is shown, as the options of the command line ask for it."""

    every_metric: bool = False
    # The real-time factors of a grid in the notation 4.08E-02.
    scientific: bool = False
    # The repeated layers of a step one by one, and only the rows whose label matches.
    unfold: bool = False
    labels: str | None = None
    # What engines recognised, after the tables.
    print_texts: bool = False
    # For the page, which also shows what takes long to compute, such as every stream.
    page: bool = False


@dataclass(frozen=True)
class Source:
    """Where a number comes from: the page shows its definition, interval, count and warnings on demand."""

    result: str
    metric: str
    estimate: Estimate
    scale: float = 1.0


@dataclass(frozen=True)
class Cell:
    """One cell of a table: its text, and a shorter one without its interval for where columns are many."""

    text: str
    short: str | None = None
    source: Source | None = None
    # A share of 1, drawn as a bar where the medium has bars.
    bar: float | None = None
    # Where it leads on the page.
    href: str = ""


@dataclass(frozen=True)
class Column:
    """One column of a table. Only text that may be folded is ever broken over lines: a number never is."""

    heading: str
    align: Literal["left", "right"] = "right"
    fold: bool = False
    # The least width of a text that may be folded.
    least: int = 12
    # The number of the engine whose colour marks the heading on the page, and how it ended where that was not well.
    colour: int | None = None
    status: str = ""
    # Left out on a terminal that is too narrow for all columns.
    wide: bool = False
    # Names that are cut on a terminal that is too narrow for them.
    shorten: bool = False
    # Beyond this a text is cut in every medium.
    longest: int = LONGEST


@dataclass(frozen=True)
class Row:
    """One row: its cells; `depth` indents the first; a heading row has one cell and begins a group of rows."""

    cells: tuple[Cell, ...]
    depth: int = 0
    heading: bool = False
    colour: int | None = None
    status: str = ""


@dataclass(frozen=True)
class Table:
    """A table. On a narrow terminal it loses its intervals, or is split by columns, each part with the first one."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: str = ""
    # Below the table, such as what a mark means.
    notes: tuple[str, ...] = ()
    # The column that names the row.
    label: int = 0
    sortable: bool = False
    media: tuple[Medium, ...] = EVERYWHERE


@dataclass(frozen=True)
class Lines:
    """A titled list of sentences."""

    title: str
    lines: tuple[str, ...]
    media: tuple[Medium, ...] = EVERYWHERE


@dataclass(frozen=True)
class Note:
    """A sentence. A quiet one explains, and is set back; a scripted one is true only where the page's script runs."""

    text: str
    quiet: bool = True
    scripted: bool = False
    media: tuple[Medium, ...] = EVERYWHERE


@dataclass(frozen=True)
class Missing:
    """Why numbers or intervals are missing, a reason a line."""

    reasons: tuple[str, ...]
    media: tuple[Medium, ...] = TEXT


@dataclass(frozen=True)
class Figures:
    """Charts by name, in which a `*` stands for anything: a figure for each chart whose name fits the first pattern.

    Further patterns of a figure name what is drawn below it, with the same text for the `*`. Charts are named and not
    held, as most media draw none.
    """

    figures: tuple[tuple[str, ...], ...]
    layout: Literal["column", "grid"] = "column"
    media: tuple[Medium, ...] = PAGE

    def names(self, charts: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the names of the charts of each figure, of those that there are."""
        figures = []
        for first, *others in self.figures:
            before, star, after = first.partition("*")
            for name in charts:
                fits = name.startswith(before) and name.endswith(after) and len(name) >= len(before + after)
                if name == first or (star and fits):
                    middle = name.removeprefix(before).removesuffix(after)
                    below = [other.replace("*", middle) for other in others]
                    figures.append((name, *(other for other in below if other in charts)))
        return figures


@dataclass(frozen=True)
class Facts:
    """A card per engine with what is known of it: pairs of a label and a text."""

    cards: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    media: tuple[Medium, ...] = PAGE


@dataclass(frozen=True)
class Timelines:
    """Streams to replay moment by moment, and the one to show first."""

    streams: tuple[Mapping[str, Any], ...]
    first: int
    note: str
    media: tuple[Medium, ...] = PAGE


@dataclass(frozen=True)
class Section:
    """Blocks under one heading of the page; elsewhere they follow each other. A folded one is opened on demand."""

    title: str
    blocks: tuple[Block, ...]
    folded: bool = False
    media: tuple[Medium, ...] = EVERYWHERE


Block = Table | Lines | Note | Missing | Figures | Facts | Timelines | Section


@dataclass(frozen=True)
class Document:
    """The content of a report: title, findings, blocks, and the results whose warnings and metrics are listed."""

    title: str
    blocks: tuple[Block, ...] = ()
    findings: tuple[str, ...] = ()
    # The run that it is of, for where it comes from.
    record: Record | None = None
    # Results under names short enough to be told apart: those whose warnings are shown, and those whose every metric
    # is listed on the page and with `--all`.
    warned: tuple[Result, ...] = ()
    measured: tuple[Result, ...] = ()
    # Whether a warning of that code casts doubt on that metric.
    doubts: Callable[[str, str], bool] = lambda code, metric: True
    # The rounds of the run in words: where a budget ended it, its settings do not say how many there are.
    rounds: str = ""
    # Where it comes from, as pairs of a label and a text, where it is of no single run.
    facts: tuple[tuple[str, str], ...] = ()


def simple_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> Table:
    """Return a table of texts, each column to the left and folded where it has to be, the names last."""
    columns = tuple(
        Column(heading, "left", fold=True, least=12 if index else 24) for index, heading in enumerate(headings)
    )
    return Table(columns, tuple(Row(tuple(map(Cell, row))) for row in rows), title)


def in_detail(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Return blocks that a terminal shows only where everything is asked for."""
    return tuple(replace(block, media=tuple(medium for medium in block.media if medium != "brief")) for block in blocks)


def shown(blocks: Sequence[Block], medium: Medium) -> list[Block]:
    """Return the blocks that a medium shows, those of sections in their places where it has no sections."""
    visible: list[Block] = []
    for block in blocks:
        if medium not in block.media:
            continue
        if isinstance(block, Section) and medium != "page":
            visible += shown(block.blocks, medium)
        else:
            visible.append(block)
    return visible


def legend(document: Document, medium: Medium, every_metric: bool) -> list[Note]:
    """Return the meaning of the marks at numbers that a medium shows: one line per mark and document."""
    texts = (*document.findings, *_texts(shown(document.blocks, medium), medium))
    listed = [estimate for result in document.measured if every_metric for estimate in result.metrics.values()]
    marked = any(f"{ROUGH}[" in text for text in texts) or any(estimate.rough for estimate in listed)
    return [Note(ROUGH_LEGEND)] if marked else []


def _texts(blocks: Sequence[Block], medium: Medium) -> Iterator[str]:
    """The texts of blocks in which numbers stand."""
    for block in blocks:
        if isinstance(block, Table):
            yield from (cell.text for row in block.rows for cell in row.cells)
        elif isinstance(block, Lines):
            yield from block.lines
        elif isinstance(block, Note):
            yield block.text
        elif isinstance(block, Section):
            yield from _texts(shown(block.blocks, medium), medium)


# Engines are told apart by their settings, which stand at the end of a name.
LONGEST_NAME = 100
# Beyond these a reason or a line of a list, and a note or a finding, are cut in every medium.
LONGEST_LINE, LONGEST_NOTE = 600, 1000


@dataclass(frozen=True)
class Footnote:
    """One warning of a run: its number, its code and message, and the results it is about."""

    number: int
    code: str
    message: str
    names: tuple[str, ...]
    everyone: bool

    @property
    def text(self) -> str:
        """The message, safe to show, with the results where it is not about all."""
        return self.text_of(len(self.names))

    def text_of(self, most: int) -> str:
        """Return the message with so many of the results at the most."""
        if self.everyone:
            return plain(self.message)
        names = ", ".join(plain(name, LONGEST_NAME) for name in self.names[:most])
        more = f" and {len(self.names) - most} more" if len(self.names) > most else ""
        return f"{names}{more}: {plain(self.message)}"


def footnotes(results: Sequence[Result]) -> list[Footnote]:
    """Return the warnings of all results, each once, numbered from 1."""
    names_by_warning: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for warning in result.warnings:
            names_by_warning.setdefault((warning.code, warning.message), []).append(result.name)
    return [
        Footnote(number, code, message, tuple(dict.fromkeys(names)), len(names) == len(results))
        for number, ((code, message), names) in enumerate(names_by_warning.items(), start=1)
    ]
