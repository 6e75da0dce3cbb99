"""The words of a text that grows and changes: normalised where it changed, not from its beginning each time."""

from __future__ import annotations

from typing import NamedTuple

from stopwav.speech.normaliser import STOPWAV, Normaliser
from stopwav.speech.wer import common_prefix

# Characters of a text that are normalised at once. A shorter text is not worth cutting.
LONG_TEXT = 400
# Characters at the end of a text that are left in one part: partials are mostly revised there.
OPEN_END = 100


class _Start(NamedTuple):
    """Where a part begins, in characters and in words, and up to which character of the text that rests on it."""

    place: int
    word: int
    rests_to: int


class GrowingText:
    """The words of the text so far. Each change gives the words that stay, counted, and the words after them."""

    def __init__(self, normaliser: Normaliser = STOPWAV) -> None:
        self._normaliser = normaliser
        # The text in parts whose words do not depend on each other; the last one is still open.
        self._parts: list[str] = [""]
        self._starts = [_Start(0, 0, 0)]
        self.words: list[str] = []

    def change(self, kept: int, added: str) -> tuple[int, list[str]]:
        """Replace all behind the first `kept` characters, and return how many words are as before, and the new ones."""
        while len(self._parts) > 1 and kept < self._starts[-1].rests_to:
            self._parts[-2:] = ["".join(self._parts[-2:])]
            del self._starts[-1]
        start, first_word, _ = self._starts[-1]
        part = self._parts[-1] = self._parts[-1][: kept - start] + added
        words = self._normaliser.words(part)
        before = self.words[first_word:] if first_word else self.words
        same = common_prefix(before, words)
        new = words[same:]
        self.words[first_word + same :] = new
        if len(part) > LONG_TEXT:
            self._cut(part)
        return first_word + same, new

    def _cut(self, part: str) -> None:
        """Close the part as late as its words allow, and open the next."""
        found = self._normaliser.cut(part, max(0, len(part) - OPEN_END))
        if found is None:
            return
        cut, rests_to = found
        start, first_word, _ = self._starts[-1]
        self._parts[-1:] = [part[:cut], part[cut:]]
        words = self._normaliser.words(part[:cut])
        self._starts.append(_Start(start + cut, first_word + len(words), start + rests_to))
