"""The words of a text by the normalisers of Whisper, which the Open ASR Leaderboard and most published WERs use.

The package `whisper-normalizer` does the work. It reads a whole text at a time, some 2 ms for 400 words, and a
stream shows its text again with every word. So a text is cut between words that do not depend on each other, and what
is between two cuts is normalised once. That the result is the same is what the tests of this module are about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache

# Different pieces of text that are remembered: words of a large vocabulary, of some hundred bytes each.
_MOST_REMEMBERED = 1 << 16
# Longer pieces of text, without a space or without a cut, do not come twice.
_LONGEST_REMEMBERED = 200

# The first two steps of both normalisers. They may go over words, so they come before any cut; a second time they find
# nothing.
_BRACKETS = re.compile(r"[<\[][^>\]]*[>\]]")
_PARENTHESES = re.compile(r"\(([^)]+?)\)")
_OPENINGS = re.compile(r"[<\[(]")

# Letters with an apostrophe inside or without, and at most one mark of punctuation at the end.
_SIMPLE = re.compile(r"([a-z]+(?:'[a-z]+)?)[,.?!;:]?")
# After "'d" or "'s" these make a perfect tense of it: "he's gone" is "he has gone", while "he's" is "he is".
_PARTICIPLES = frozenset({"been", "gone", "done", "got"})
# Words that belong to a number besides those in the normaliser's table: "one and a half", "1 st", "2 s".
_IN_NUMBERS = frozenset({"a", "half", "st", "nd", "rd", "th", "s"})
# Longer words are not cut at: whether text may be cut rests on both words beside the cut.
LONGEST_WORD = 40


def english_words(text: str) -> list[str]:
    """Return the words of a text by Whisper's normaliser of English."""
    if _OPENINGS.search(text):
        text = _without_brackets(text)
    words: list[str] = []
    # Words since the last cut; that there is one rests on the word before and the word after it.
    piece: list[str] = []
    before: tuple[str, ...] | None = None
    for token in text.split(" "):
        simple = _simple_words(token)
        if before is None or simple is None:
            piece.append(token)
        else:
            words += before if len(piece) == 1 else _remembered(" ".join(piece))
            piece = [token]
        before = simple
    words += _piece_words(piece)
    return words


def english_cut(text: str, end: int) -> tuple[int, int] | None:
    """Return the last space before `end` at which a text may be cut, and up to where that rests on the text."""
    cut = text.rfind(" ", 0, end)
    while cut > 0:
        after = text.find(" ", cut + 1, cut + 2 + LONGEST_WORD)
        before = text.rfind(" ", max(0, cut - 1 - LONGEST_WORD), cut)
        is_whole = after > 0 and (before >= 0 or cut <= LONGEST_WORD)
        if is_whole and _simple_words(text[before + 1 : cut]) and _simple_words(text[cut + 1 : after]):
            return None if _is_open(text[:cut]) else (cut, after + 1)
        cut = text.rfind(" ", 0, cut)
    return None


def basic_words(text: str) -> list[str]:
    """Return the words of a text by Whisper's normaliser of other languages, which looks at single characters only."""
    if _OPENINGS.search(text):
        text = _without_brackets(text)
    return [word for token in text.split(" ") for word in _basic_words(token)]


def basic_cut(text: str, end: int) -> tuple[int, int] | None:
    """Return the last space before `end` at which a text may be cut, and up to where that rests on the text."""
    cut = text.rfind(" ", 0, end)
    return None if cut <= 0 or _is_open(text[:cut]) else (cut, cut + 1)


def _without_brackets(text: str) -> str:
    return _PARENTHESES.sub("", _BRACKETS.sub("", text))


def _is_open(text: str) -> bool:
    """Whether a bracket of a text may be closed by what follows; `()` never is one."""
    return _OPENINGS.search(_without_brackets(text).replace("()", "")) is not None


def _piece_words(piece: list[str]) -> tuple[str, ...] | list[str]:
    if len(piece) == 1:
        return _simple_words(piece[0]) or _remembered(piece[0])
    return _remembered(" ".join(piece))


def _remembered(text: str) -> tuple[str, ...]:
    return _short(text) if len(text) <= _LONGEST_REMEMBERED else _english(text)


@lru_cache(_MOST_REMEMBERED)
def _short(text: str) -> tuple[str, ...]:
    return _english(text)


@lru_cache(_MOST_REMEMBERED)
def _simple_words(token: str) -> tuple[str, ...] | None:
    """The words of a token whose neighbours cannot change them, nor it theirs; None where they might."""
    match = _SIMPLE.fullmatch(token.lower()) if token.isascii() and len(token) <= LONGEST_WORD else None
    if match is None:
        return None
    words = _english(token)
    touching = {match[1], *words}
    if not words or touching & _PARTICIPLES or touching & _number_words() or not all(map(str.isalpha, words)):
        return None
    return words


def _english(text: str) -> tuple[str, ...]:
    return tuple(_safely(_english_normaliser(), text))


def _basic_words(token: str) -> tuple[str, ...]:
    return _short_basic(token) if len(token) <= LONGEST_WORD else tuple(_basic_normaliser()(token).split())


@lru_cache(_MOST_REMEMBERED)
def _short_basic(token: str) -> tuple[str, ...]:
    return tuple(_basic_normaliser()(token).split())


def _safely(normalise: Callable[[str], str], text: str) -> Iterator[str]:
    """Yield the words of a text; of one that the package fails on, such as 5000 digits, those of the basic one."""
    try:
        yield from normalise(text).split()
    except Exception:  # it asserts what it expects, and converts digits as they come
        yield from _basic_normaliser()(text).split()


@cache
def _number_words() -> frozenset[str]:
    return frozenset(_english_normaliser().standardize_numbers.words) | _IN_NUMBERS


# Imported when needed: an engine's process normalises nothing.
@cache
def _english_normaliser():  # type: ignore[no-untyped-def]
    from whisper_normalizer.english import EnglishTextNormalizer

    return EnglishTextNormalizer()


@cache
def _basic_normaliser():  # type: ignore[no-untyped-def]
    from whisper_normalizer.basic import BasicTextNormalizer

    return BasicTextNormalizer()
