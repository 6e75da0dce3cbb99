"""The texts that engines recognised: of each utterance its transcript, what was recognised, and the errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from stopwav.report.document import SCREEN, Block, Cell, Column, Detail, Note, Row, Section, Table
from stopwav.report.text import DASH, counted
from stopwav.speech.normaliser import STOPWAV, Normaliser
from stopwav.speech.wer import CharacterErrorCount, ErrorCount, count_character_errors, count_word_errors

# A page of many thousand texts opens slowly; `--print-texts` prints all of them.
MOST_ON_PAGE = 500
# A talk of several minutes; on the page longer texts are cut. Elsewhere texts are asked for, and whole.
LONGEST_ON_PAGE, WHOLE = 4000, 10_000_000


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of an engine at an utterance: the text with its errors where they are known, or how it failed."""

    # The utterance by its id, and its transcript.
    utterance: str
    reference: str | None
    text: str | None
    failure: str = ""
    errors: ErrorCount | None = None
    characters: CharacterErrorCount | None = None


@dataclass(frozen=True, slots=True)
class RecognisedText:
    """A text of an engine for an utterance, and in how many of how many attempts it was the same.

    The text is None where the attempts failed. Errors are None without a transcript, or where the engine is untrained.
    """

    name: str
    utterance: str
    reference: str | None
    text: str | None
    times: int
    attempts: int
    errors: ErrorCount | None = None
    characters: CharacterErrorCount | None = None
    failure: str = ""
    normaliser: Normaliser = STOPWAV

    def to_json(self) -> dict[str, Any]:
        """Return the fields as `--json` prints them."""
        words, characters = self.errors, self.characters
        return {
            "utterance": self.utterance,
            "reference": self.reference,
            "text": self.text,
            "times": self.times,
            "attempts": self.attempts,
            "substitutions": None if words is None else words.substitutions,
            "deletions": None if words is None else words.deletions,
            "insertions": None if words is None else words.insertions,
            "words": None if words is None else words.words,
            "character_errors": None if characters is None else characters.errors,
            "characters": None if characters is None else characters.characters,
            "failure": self.failure,
        }


def recognised_texts(
    name: str, attempts: Iterable[Attempt], normaliser: Normaliser = STOPWAV, *, untrained: bool
) -> list[RecognisedText]:
    """Return the texts of one engine by utterance, equal ones once, in the order in which they came."""
    by_utterance: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        by_utterance.setdefault(attempt.utterance, []).append(attempt)
    texts = []
    for key in sorted(by_utterance):
        own = by_utterance[key]
        times = Counter((attempt.text, attempt.failure) for attempt in own)
        for attempt in {(attempt.text, attempt.failure): attempt for attempt in own}.values():
            reference, text = attempt.reference, attempt.text
            counts: tuple[Any, Any] = (None, None)
            if reference is not None and text is not None and not untrained:
                counts = _counts(attempt, reference, text, normaliser)
            count = times[(text, attempt.failure)]
            times_of = (count, len(own))
            texts.append(RecognisedText(name, key, reference, text, *times_of, *counts, attempt.failure, normaliser))
    return texts


def _counts(
    attempt: Attempt, reference: str, text: str, normaliser: Normaliser
) -> tuple[ErrorCount, CharacterErrorCount]:
    if attempt.errors is not None and attempt.characters is not None:
        return attempt.errors, attempt.characters
    words = normaliser.words(reference), normaliser.words(text)
    return count_word_errors(*words), count_character_errors(*words, normaliser.separator)


def text_blocks(texts: Sequence[RecognisedText] | None, detail: Detail) -> Iterator[Block]:
    """Yield the texts, a table per engine: folded and cut on the page, whole where they are asked for."""
    if not texts:
        if not detail.page:
            yield Note("No texts: a run of this study holds none." if texts is None else "No text was recognised.")
        return
    if not detail.page:
        yield from (table for own in by_engine(texts) for table in (_long_table(own), _wide_table(own, WHOLE)))
        return
    shown = texts[:MOST_ON_PAGE]
    left_out = f"{len(texts) - len(shown)} more are in the run file: stopwav report RUN --print-texts prints them."
    tables = [_wide_table(own, LONGEST_ON_PAGE) for own in by_engine(shown)]
    notes = [Note(left_out)] if len(shown) < len(texts) else []
    yield Section("Recognised texts", (*tables, *notes), folded=True)


def by_engine(texts: Sequence[RecognisedText]) -> list[list[RecognisedText]]:
    """Return the texts of each engine, in the order of the engines."""
    return [list(own) for _, own in groupby(texts, key=lambda text: text.name)]


def _long_table(texts: Sequence[RecognisedText]) -> Table:
    """Rows below each other for transcript, text and errors: what a terminal has room for."""
    columns = (
        Column("utterance", "left", fold=True, least=14),
        Column("", "left"),
        Column("text", "left", fold=True, least=30, longest=WHOLE),
    )
    rows = []
    for text in texts:
        lines = [("recognised", _recognised(text))]
        if text.reference is not None:
            lines = [("reference", text.reference), *lines, ("errors", _errors(text))]
        rows += [(text.utterance if number == 0 else "", *line) for number, line in enumerate(lines)]
    cells = tuple(Row(tuple(map(Cell, row))) for row in rows)
    return Table(columns, cells, title=f"Recognised texts: {texts[0].name}", media=SCREEN)


def _wide_table(texts: Sequence[RecognisedText], longest: int) -> Table:
    """A row per utterance and text."""
    columns = (
        Column("utterance", "left"),
        Column("reference", "left", longest=longest),
        Column("recognised", "left", longest=longest),
        Column("errors", "left"),
    )
    rows = [
        (text.utterance, DASH if text.reference is None else text.reference, _recognised(text), _errors(text))
        for text in texts
    ]
    cells = tuple(Row(tuple(map(Cell, row))) for row in rows)
    return Table(columns, cells, title=f"Recognised texts: {texts[0].name}", media=("markdown", "page"))


def _recognised(text: RecognisedText) -> str:
    written = f"{DASH} ({text.failure})" if text.text is None else text.text or f"{DASH} (no text)"
    return written if text.times == text.attempts else f"{written} ({text.times} of {text.attempts} times)"


def _errors(text: RecognisedText) -> str:
    words, characters = text.errors, text.characters
    if words is None or characters is None:
        return DASH
    kinds = {"substituted": words.substitutions, "deleted": words.deletions, "inserted": words.insertions}
    named = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
    return (
        f"{words.errors} of {counted(words.words, 'word')}{f' ({named})' if named else ''}, "
        f"{characters.errors} of {counted(characters.characters, 'character')}"
    )
