"""The words of a growing text are those of the whole text, whatever changes; and cost what changed."""

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stopwav.speech import growing_text
from stopwav.speech.growing_text import GrowingText
from stopwav.speech.text import normalise

# Words that depend on what is next to them: numbers, money, tags, marks, letters of changing shape.
TOKENS = "the cat it's 20 24 $ 3 million $3 <b c> [a x] é \u0301 ΑΣ ½ % & a. b, １ ＄ ＜d e＞ thousand . 5"
TOKEN = st.sampled_from(TOKENS.split())
SPACE = st.sampled_from([" ", " ", " ", "", "\t", "\u3000"])
CHANGE = st.tuples(st.floats(0, 1), st.lists(st.tuples(TOKEN, SPACE).map("".join), max_size=4).map("".join))


# Texts of which all is plain, cut anywhere: they are taken apart at their spaces.
PLAIN = st.tuples(st.floats(0, 1), st.text("ab'`,- \t", max_size=8))


@given(st.one_of(st.lists(CHANGE, max_size=20), st.lists(PLAIN, max_size=20), st.lists(CHANGE | PLAIN, max_size=20)))
@settings(max_examples=500)
def test_words_are_those_of_the_whole_text(changes: list[tuple[float, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing_text, "LONG_TEXT", 15)
        patch.setattr(growing_text, "OPEN_END", 3)
        growing, text, words = GrowingText(), "", list[str]()
        for share, added in changes:
            kept = round(share * len(text)) if share < 0.5 else len(text)
            text = text[:kept] + added
            same, new = growing.change(kept, added)
            words = words[:same] + new
            assert words == growing.words == normalise(text)


def test_a_long_text_is_not_normalised_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(text: str) -> list[str]:
        sizes.append(len(text))
        return normalise(text)

    monkeypatch.setattr(growing_text, "normalise", counted)
    growing, length = GrowingText(), 0
    for number in range(3000):
        word = f" word{'s' * (number % 5)}"
        growing.change(length, word)
        length += len(word)
    assert len(growing.words) == 3000
    # A growing text of n characters has n² / 2 of them in all its versions together.
    assert sum(sizes) < 0.1 * length * 3000 / 2


def test_every_character_that_becomes_a_bracket_is_known() -> None:
    known = {"<": "＜﹤<", ">": "＞﹥>", "[": "［﹇[", "]": "］﹈]"}
    for bracket, characters in known.items():
        found = {
            character
            for character in map(chr, range(sys.maxunicode + 1))
            if bracket in unicodedata.normalize("NFKC", character)
        }
        assert found == set(characters)
    assert {*"".join(growing_text._OPENING), *"".join(growing_text._CLOSING)} == {*"".join(known.values())}
