"""The words that engines take for each other, most frequent first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stopwav.report.document import Block, Cell, Column, Row, Section, Table
from stopwav.report.text import DASH, format_number
from stopwav.speech.wer import word_edits
from stopwav.studies.recognised_text import RecognisedText, by_engine

# As many as a reader looks through.
MOST_CONFUSIONS = 10


@dataclass(frozen=True)
class Confusion:
    """A word of the reference and what stands in its place: "" where it was left out, or where nothing was spoken."""

    reference: str
    recognised: str
    count: int


def confusions(texts: Sequence[RecognisedText]) -> list[Confusion]:
    """Return what texts of one engine have in place of words of their references, the most frequent first."""
    counts: Counter[tuple[str, str]] = Counter()
    for text in texts:
        if text.errors is not None and text.errors.errors and text.reference is not None and text.text is not None:
            words = text.normaliser.words(text.reference), text.normaliser.words(text.text)
            for edit in word_edits(*words):
                counts[edit] += text.times
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Confusion(reference, recognised, count) for (reference, recognised), count in ordered]


def confusion_blocks(texts: Sequence[RecognisedText] | None) -> Iterator[Block]:
    """Yield a section with the most frequent confusions of each engine that made an error."""
    tables = tuple(table for own in by_engine(texts or ()) for table in _tables(own))
    if tables:
        yield Section("Most frequent confusions", tables)


def _tables(texts: Sequence[RecognisedText]) -> Iterator[Table]:
    found = confusions(texts)
    if not found:
        return
    columns = (
        Column("reference", "left", fold=True),
        Column("recognised", "left", fold=True),
        Column("times"),
        Column("of all errors, %"),
    )
    total = sum(confusion.count for confusion in found)
    rows = []
    for confusion in found[:MOST_CONFUSIONS]:
        share = format_number(100 * confusion.count / total, 1)
        cells = (confusion.reference or DASH, confusion.recognised or DASH, str(confusion.count), share)
        rows.append(Row(tuple(map(Cell, cells))))
    # Every attempt at an utterance counts, as in the error rates.
    note = f"{total} errors, {len(found)} different ones; {DASH}: left out, or spoken by nobody"
    yield Table(columns, tuple(rows), title=f"Most frequent confusions: {texts[0].name}", notes=(note,))
