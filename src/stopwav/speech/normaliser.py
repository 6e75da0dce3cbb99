"""Text normalisers by name: rules that say which words are the same, without which no two error rates compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from stopwav.errors import StopwavError, suggestion
from stopwav.speech.language import WITHOUT_SPACES, is_english
from stopwav.speech.text import NORMALISER, NORMALISER_VERSION, normalise, plain_words, stopwav_cut
from stopwav.speech.whisper_text import basic_cut, basic_words, english_cut, english_words

WHISPER_ENGLISH, WHISPER_BASIC, NONE = "whisper-english", "whisper-basic", "none"
# The package of Whisper's normalisers: its version is theirs.
PACKAGE = "whisper-normalizer"

# The last place before an end at which the words of a text before it do not depend on those after, and up to where in
# the text that is known; None where there is none.
Cut = Callable[[str, int], tuple[int, int] | None]


class _Rules(NamedTuple):
    words: Callable[[str], list[str]]
    cut: Cut
    version: Callable[[], str | int]


@dataclass(frozen=True)
class Normaliser:
    """How texts become the words that are counted: the name and version of the rules, as the header of a run has them.

    Of a language without spaces, the words are its characters.
    """

    name: str = NORMALISER
    version: str | int = NORMALISER_VERSION
    by_character: bool = False

    def words(self, text: str) -> list[str]:
        """Return the words of a text as they are compared; never raises."""
        words = _RULES[self.name].words(text)
        return [character for word in words for character in characters(word)] if self.by_character else words

    def cut(self, text: str, end: int) -> tuple[int, int] | None:
        """Return the last cut before `end` that leaves all words as they are, and up to where it rests on the text."""
        found = _RULES[self.name].cut(text, end)
        # The rules of English are about words.
        if found is None and self.by_character and self.name in (WHISPER_BASIC, NONE):
            return _cut_between_characters(text, end, _RULES[self.name].cut)
        return found

    @property
    def separator(self) -> str:
        """What stands between two words where characters are counted."""
        return "" if self.by_character else " "

    def to_json(self) -> dict[str, Any]:
        """Return the fields as the header of a run holds them."""
        by_character = {"by_character": True} if self.by_character else {}
        return {"name": self.name, "version": self.version, **by_character}

    @property
    def title(self) -> str:
        """The name with its version."""
        return f"{self.name} {self.version}{', by character' if self.by_character else ''}"


# That of runs of versions which knew no other, and of texts that are compared without a run.
STOPWAV = Normaliser()


def make_normaliser(name: str, languages: Sequence[str] = ()) -> Normaliser:
    """Return the normaliser of a name, in the version that is installed, for texts in these languages."""
    if name not in _RULES:
        raise StopwavError(f"{name[:60]!r} is not a normaliser; {suggestion(name, _RULES)}")
    by_character = bool(languages) and WITHOUT_SPACES.issuperset(languages)
    return Normaliser(name, _RULES[name].version(), by_character)


def default_normaliser(languages: Sequence[str]) -> str:
    """Return the name of the normaliser for texts in these languages: what published error rates mostly use."""
    return WHISPER_ENGLISH if all(map(is_english, languages)) else WHISPER_BASIC


def stored_normaliser(fields: Mapping[str, Any]) -> Normaliser:
    """Return the normaliser that the header of a run names; the oldest runs name none."""
    if not fields:
        return STOPWAV
    name = str(fields.get("name", ""))
    if name not in _RULES:
        raise StopwavError(
            f"its texts are compared after normaliser {name[:60]!r}, which this version of stopwav does not know; "
            "install the one that made the run"
        )
    return Normaliser(name, fields.get("version", ""), bool(fields.get("by_character", False)))


def installed_version(name: str) -> str | int:
    """Return the version of a normaliser by which texts are compared here."""
    return _RULES[name].version()


def normaliser_names() -> tuple[str, ...]:
    """Return the names of all normalisers."""
    return tuple(_RULES)


def spoken_words(text: str, language: str = "") -> list[str]:
    """Return the words of a transcript that have a time each, in the spelling in which they are spoken.

    Numbers and signs are in words for English alone; of a language without spaces the words are its characters.
    """
    words = normalise(text) if is_english(language) else plain_words(text)
    return [character for word in words for character in characters(word)] if language in WITHOUT_SPACES else words


def characters(text: str) -> list[str]:
    """Return the characters of a text as a reader counts them: a letter with its marks is one."""
    import regex  # 7 ms, for few languages

    found: list[str] = regex.findall(r"\X", text)
    return found


def _cut_between_characters(text: str, end: int, cut: Cut) -> tuple[int, int] | None:
    """Return the last place between two letters that no rule of Unicode joins, where the text could be cut."""
    import unicodedata

    for place in range(min(end, len(text) - 1), 0, -1):
        pair = text[place - 1 : place + 1]
        if all(unicodedata.category(letter) == "Lo" for letter in pair) and unicodedata.is_normalized("NFKC", pair):
            # As between two words: what is before has to be closed.
            is_closed = cut(f"{text[:place]} ", place + 1) is not None
            if len(characters(pair)) == 2:
                return (place, place + 1) if is_closed else None
    return None


def _none_cut(text: str, end: int) -> tuple[int, int] | None:
    cut = text.rfind(" ", 0, end)
    return (cut, cut + 1) if cut > 0 else None


@cache
def _package_version() -> str:
    from importlib.metadata import version  # slow to import

    return version(PACKAGE)


_RULES = {
    WHISPER_ENGLISH: _Rules(english_words, english_cut, _package_version),
    WHISPER_BASIC: _Rules(basic_words, basic_cut, _package_version),
    NORMALISER: _Rules(normalise, stopwav_cut, lambda: NORMALISER_VERSION),
    NONE: _Rules(str.split, _none_cut, lambda: 1),
}
