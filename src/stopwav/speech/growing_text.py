"""The words of a text that grows and changes: normalised where it changed, not from its beginning each time."""

from __future__ import annotations

from stopwav.speech.text import is_plain, normalise
from stopwav.speech.wer import common_prefix

# Characters of a text that are normalised at once. A shorter text is not worth cutting.
LONG_TEXT = 400
# Characters at the end of a text that are left in one part: partials are mostly revised there.
OPEN_END = 100
# What becomes a bracket of a tag once it is normalised: a tag may go over spaces.
_OPENING, _CLOSING = ("<＜﹤", "[［﹇"), (">＞﹥", "]］﹈")


class GrowingText:
    """The words of the text so far. Each change gives the words that stay, counted, and the words after them."""

    def __init__(self) -> None:
        # The text in parts whose words do not depend on each other; the last one is still open.
        self._parts: list[str] = [""]
        # Where each part begins, in characters and in words.
        self._starts: list[tuple[int, int]] = [(0, 0)]
        self.words: list[str] = []
        # Whether the last part is known to be plain.
        self._is_plain = True

    def change(self, kept: int, added: str) -> tuple[int, list[str]]:
        """Replace all behind the first `kept` characters, and return how many words are as before, and the new ones."""
        # A cut rests on the space after it and the letter behind that.
        while len(self._parts) > 1 and kept < self._starts[-1][0] + 2:
            self._parts[-2:] = ["".join(self._parts[-2:])]
            del self._starts[-1]
            # What is known is known of the last part alone.
            self._is_plain = False
        start, first_word = self._starts[-1]
        if len(self._parts) == 1 and self._is_plain and is_plain(added):
            return self._change_plain(kept, added)
        part = self._parts[-1] = self._parts[-1][: kept - start] + added
        self._is_plain = is_plain(part)
        words = normalise(part)
        before = self.words[first_word:] if first_word else self.words
        same = common_prefix(before, words)
        new = words[same:]
        self.words[first_word + same :] = new
        if len(part) > LONG_TEXT:
            self._cut(part)
        return first_word + same, new

    def _change_plain(self, kept: int, added: str) -> tuple[int, list[str]]:
        """The same of a plain text: nothing before the last space that is kept depends on what follows it."""
        text = self._parts[0]
        cut = text.rfind(" ", 0, kept) + 1
        before, words = normalise(text[cut:]), normalise(text[cut:kept] + added)
        text = self._parts[0] = text[:kept] + added
        first = len(self.words) - len(before)
        same = common_prefix(before, words)
        new = words[same:]
        self.words[first + same :] = new
        if len(text) > LONG_TEXT:
            self._cut(text)
        return first + same, new

    def _cut(self, part: str) -> None:
        """Close the part as late as its words allow, and open the next."""
        cut = _last_cut(part)
        if cut is None:
            return
        start, first_word = self._starts[-1]
        self._parts[-1:] = [part[:cut], part[cut:]]
        self._starts.append((start + cut, first_word + len(normalise(part[:cut]))))


def _last_cut(text: str) -> int | None:
    """The last space at which the words before do not depend on what follows; None where there is none.

    The word before it is letters alone, so that it is no number or sign of money that goes on. What follows begins with
    a letter of ASCII, so that it is no mark that joins what is before. No tag is open.
    """
    cut = text.rfind(" ", 0, max(0, len(text) - OPEN_END))
    while cut > 0:
        word = text[text.rfind(" ", 0, cut) + 1 : cut].strip(".,;:!?'\"-")
        after = text[cut + 1]
        if word.isalpha() and after.isascii() and after.isalpha() and not _tag_is_open(text, cut):
            return cut
        cut = text.rfind(" ", 0, cut)
    return None


def _tag_is_open(text: str, end: int) -> bool:
    return any(
        max(text.rfind(sign, 0, end) for sign in opening) > max(text.rfind(sign, 0, end) for sign in closing)
        for opening, closing in zip(_OPENING, _CLOSING, strict=True)
    )
