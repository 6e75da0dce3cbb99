"""The words of a growing text are those of the whole text, whatever changes; and cost what changed."""

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stopwav.speech import growing_text
from stopwav.speech import text as text_module
from stopwav.speech.growing_text import GrowingText
from stopwav.speech.normaliser import Normaliser, make_normaliser, normaliser_names

# Words that depend on what is next to them: numbers, money, tags, marks, letters of changing shape.
TOKENS = "the cat it's 20 24 $ 3 million $3 <b c> [a x] é \u0301 ΑΣ ½ % & a. b, １ ＄ ＜d e＞ thousand . 5"
# Those of Whisper's: numbers over words, perfect tenses, words that vanish, brackets that close later; Thai, Japanese.
TOKENS += (
    " twenty one and a half point double oh hundred dollars and cents per cent minus he's she'd been gone gotta um"
)
TOKENS += " mr st s 1st don't (so to) ( ) () colour grey plain words here once 今日は が\u3099 ที่นี่ ᄀ ᅡ ᆨ"
TOKEN = st.sampled_from(TOKENS.split())
NORMALISERS = [make_normaliser(name, languages) for name in normaliser_names() for languages in ((), ("th",))]
SPACE = st.sampled_from([" ", " ", " ", "", "\t", "\u3000"])
CHANGE = st.tuples(st.floats(0, 1), st.lists(st.tuples(TOKEN, SPACE).map("".join), max_size=4).map("".join))


@pytest.mark.parametrize("normaliser", NORMALISERS, ids=lambda normaliser: normaliser.title)
@given(changes=st.lists(CHANGE, max_size=20))
@settings(max_examples=150)
def test_words_are_those_of_the_whole_text(normaliser: Normaliser, changes: list[tuple[float, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing_text, "LONG_TEXT", 15)
        patch.setattr(growing_text, "OPEN_END", 3)
        growing, text, words = GrowingText(normaliser), "", list[str]()
        for share, added in changes:
            kept = round(share * len(text)) if share < 0.5 else len(text)
            text = text[:kept] + added
            same, new = growing.change(kept, added)
            words = words[:same] + new
            assert words == growing.words == normaliser.words(text)


@pytest.mark.parametrize("normaliser", NORMALISERS, ids=lambda normaliser: normaliser.title)
def test_a_long_text_is_not_normalised_again_and_again(normaliser: Normaliser, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    original = Normaliser.words

    def counted(own: Normaliser, text: str) -> list[str]:
        sizes.append(len(text))
        return original(own, text)

    monkeypatch.setattr(Normaliser, "words", counted)
    growing, length = GrowingText(normaliser), 0
    is_thai = normaliser.by_character and normaliser.name in ("whisper-basic", "none")
    for number in range(3000):
        # A hundred words, then a number, and so on; Thai without any space.
        word = "คน" if is_thai else " twenty one" if number % 100 == 0 else f" word{'s' * (number % 5)}"
        growing.change(length, word)
        length += len(word)
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
    assert {*"".join(text_module._OPENING), *"".join(text_module._CLOSING)} == {*"".join(known.values())}
