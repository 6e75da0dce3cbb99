"""The words of each normaliser: those of the package, text by text, and of any text whatever."""

from __future__ import annotations

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st
from whisper_normalizer.basic import BasicTextNormalizer
from whisper_normalizer.english import EnglishTextNormalizer

from stopwav.errors import StopwavError
from stopwav.speech.language import checked_language, language_code
from stopwav.speech.normaliser import (
    STOPWAV,
    Normaliser,
    default_normaliser,
    make_normaliser,
    normaliser_names,
    spoken_words,
    stored_normaliser,
)
from stopwav.speech.text import normalise

ENGLISH, BASIC = EnglishTextNormalizer(), BasicTextNormalizer()
LETTERS = BasicTextNormalizer(split_letters=True)
# Everything that one of the package's rules is about, and what surrounds it.
TOKENS = """
the cat's he's she'd been gone done got gotta gonna wanna twenty one and a half point five double triple oh o zero um uh
o'clock hmm mm mr mrs st dr prof gen rep dollars cents pounds euro per cent percent minus plus negative two three eleven
hundred hundreds thousand thousandth million first third twelfth twenties ninetieth ones sixes s th nd rd 21 1,205 $5 1a
3.14 €2.50 £3.50 7% 1st 90s 2024's 10:30 007 ¢5 (aside) [noise] <unk> ( ) [ ] < > () )( and. a, half! i'm don't can't a1
let's won't y'all ' 'tis 'em 's 'd dogs' rock'n'roll well-known twenty-one colour grey centre organisation hello U.S. %
plain text e.g. ... -- é naïve ß œuvre İ ² ½ ٣ i'ma imma dunno cause 'cause they're it'd it'll O'Neil o's b.b.c. 5km
"""
TOKEN = st.sampled_from(TOKENS.split()) | st.sampled_from(["plain", "words", "in", "between"])
SPACE = st.sampled_from([" "] * 12 + ["  ", "\t", "\n", "\u00a0", "\u3000", ""])
TEXT = st.lists(st.tuples(TOKEN, SPACE).map("".join), max_size=12).map("".join)


@given(TEXT)
@settings(max_examples=1500)
@example("he's plain gotta go")
@example("twenty um one")
@example("plain ( [ ) words ] here ) once")
@example("and a half and a half")
@example("σας ΣΑΣ ΟΔΟΣ")
def test_english_words_are_those_of_the_package(text: str) -> None:
    assert make_normaliser("whisper-english").words(text) == ENGLISH(text).split()


@given(TEXT | st.text(max_size=40))
@settings(max_examples=500)
def test_basic_words_are_those_of_the_package(text: str) -> None:
    assert make_normaliser("whisper-basic").words(text) == BASIC(text).split()


@given(TEXT | st.text(max_size=40) | st.text("今日は晴が\u3099ที่นี่ ภาษา (ไทย)。", max_size=20))
@settings(max_examples=500)
def test_characters_are_those_of_the_package(text: str) -> None:
    assert make_normaliser("whisper-basic", ("ja",)).words(text) == LETTERS(text).split()


@given(st.text(max_size=60) | st.text("0123456789$£.,%()[]<> '", max_size=60))
@settings(max_examples=300)
@example("9" * 5000)  # the package fails on it
@example("zero hundred million . point")
@example("\ud800 \0")
def test_any_text_has_words(text: str) -> None:
    for name in normaliser_names():
        for languages in ((), ("th",)):
            assert all(make_normaliser(name, languages).words(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Mr. Neil paid twenty one dollars", "mister neil paid $21"),
        ("it's the colour grey, um, isn't it?", "it is the color gray is not it"),
        ("five o'clock", "50 clock"),  # as the package has it, to which an o is a zero
        ("(laughs) [noise] yes", "yes"),
    ],
)
def test_english_by_hand(text: str, words: str) -> None:
    assert make_normaliser("whisper-english").words(text) == words.split()


def test_others_by_hand() -> None:
    assert make_normaliser("none").words("It's  10 %, Mr.\tX") == ["It's", "10", "%,", "Mr.", "X"]
    assert make_normaliser("stopwav-english").words("It's 10 %") == normalise("It's 10 %") == ["it's", "ten", "percent"]
    assert make_normaliser("whisper-basic").words("Größe: 3,5 km – l'été!") == ["größe", "3", "5", "km", "l", "été"]
    assert make_normaliser("whisper-basic", ("zh",)).words("今天 20 度。") == list("今天20度")


def test_each_language_has_its_normaliser() -> None:
    assert default_normaliser(()) == default_normaliser(("en",)) == "whisper-english"
    assert default_normaliser(("de",)) == default_normaliser(("de", "en")) == "whisper-basic"
    assert [make_normaliser("none", codes).by_character for codes in ((), ("ja",), ("ja", "zh"), ("en", "zh"))] == [
        False, True, True, False,
    ]  # fmt: skip


def test_what_a_run_holds_is_read_again() -> None:
    for name in normaliser_names():
        for languages in ((), ("th",)):
            made = make_normaliser(name, languages)
            assert stored_normaliser(made.to_json()) == made
    # Of versions that knew no other, and of runs without text.
    assert stored_normaliser({"name": "stopwav-english", "version": 1}) == stored_normaliser({}) == STOPWAV
    with pytest.raises(StopwavError, match="'later', which this version"):
        stored_normaliser({"name": "later", "version": 3})


def test_a_wrong_name_has_a_suggestion() -> None:
    with pytest.raises(StopwavError, match="'whisper-englsh' is not a normaliser; did you mean 'whisper-english'"):
        make_normaliser("whisper-englsh")


def test_names_of_languages() -> None:
    codes = {
        "de": "de",
        "de-DE": "de",
        "German": "de",
        "deu": "de",
        "en_US": "en",
        "zh-CN": "zh",
        "cmn": "zh",
        "yue": "yue",
    }
    assert {name: language_code(name) for name in codes} == codes
    assert [language_code(name) for name in ("", "und", "multi", "auto", "x", "12", "klingonese")] == [""] * 7
    with pytest.raises(StopwavError, match="'12' is not the code of a language; give one such as en"):
        checked_language("12")


def test_spoken_words_have_a_time_each() -> None:
    assert spoken_words("It's 20 %") == ["it's", "twenty", "percent"]
    assert spoken_words("Das sind 20 Äpfel, l'été!", "de") == ["das", "sind", "20", "äpfel", "l'été"]
    assert spoken_words("今日は、晴れ。", "ja") == list("今日は晴れ")
    assert spoken_words("हिन्दी <unk> में", "hi") == ["हिन्दी", "में"]


@given(st.text(max_size=30))
def test_a_character_is_a_grapheme(text: str) -> None:
    by_character = Normaliser("none", 1, by_character=True)
    assert by_character.words(text) == [c for word in text.split() for c in regex.findall(r"\X", word)]
