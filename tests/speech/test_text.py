import sys
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stopwav.speech.text import NORMALISER, NORMALISER_VERSION, normalise


def words(text):
    """The normalised words as one line."""
    return " ".join(normalise(text))


def test_it_is_named_and_versioned():
    assert (NORMALISER, NORMALISER_VERSION) == ("stopwav-english", 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, World!", "hello world"),
        ("  \n\t ", ""),
        ("It’s five O‘Clock; don´t.", "it's five o'clock don't"),
        ("'tis the dogs' rock 'n' roll", "tis the dogs rock n roll"),
        ("rock'n'roll a''b", "rock'n'roll a b"),
        ("well-known either/or state–of—the−art", "well known either or state of the art"),
        ("<unk> yes [noise] no [background talk] (laughs)", "yes no laughs"),
        ("a < b and c > d", "a b and c d"),
        ("naïve Café ÜBER Straße", "naïve café über straße"),
        ("cafe\u0301", "café"),
        ("ﬁne ｆｕｌｌ", "fine full"),
        ("U.S. e.g. word.Word", "u s e g word word"),
        ("snake_case #tag @name *", "snake case tag name"),
        ("zero\u200bwidth so\u00adft \u202eright", "zerowidth soft right"),
        ("a\ud800b \x00c\x07d", "a b c d"),
        ("50% of R&D", "fifty percent of r and d"),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", "zero"),
        ("13", "thirteen"),
        ("40", "forty"),
        ("42", "forty two"),
        ("100", "one hundred"),
        ("115", "one hundred fifteen"),
        ("1984", "one thousand nine hundred eighty four"),
        ("1,000,000", "one million"),
        ("2,345,678", "two million three hundred forty five thousand six hundred seventy eight"),
        ("1000000000001", "one trillion one"),
        ("999000000000000", "nine hundred ninety nine trillion"),
        ("1234567890123456", "one two three four five six seven eight nine zero one two three four five six"),
        ("007", "zero zero seven"),
        ("3.14", "three point one four"),
        ("0.5 .5", "zero point five point five"),
        ("1,234.5", "one thousand two hundred thirty four point five"),
        ("version 1.2.10", "version one point two point one zero"),
        ("Chapter 3. The", "chapter three the"),
        ("1st 2nd 3rd 4th", "first second third fourth"),
        ("5th 8th 9th 11th 12th 13th 20th", "fifth eighth ninth eleventh twelfth thirteenth twentieth"),
        ("21st 100th 1,000th", "twenty first one hundredth one thousandth"),
        ("the 90s and 1990s, sixes 6s", "the nineties and one thousand nine hundred nineties sixes sixes"),
        ("2024's", "two thousand twenty four's"),
        ("1.5s", "one point five s"),
        ("covid-19 mp3 b2b 5km", "covid nineteen mp three b two b five km"),
        ("10:30 on 12/25", "ten thirty on twelve twenty five"),
        ("2,3 and 1,00", "two three and one zero zero"),
        ("10² H₂O 2½ ¾", "ten two h two o two one half three quarters"),
        ("٣ ४ ５", "three four five"),
        ("-5", "five"),
    ],
)
def test_numbers(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$5", "five dollars"),
        ("$1 £1 €1 ¥1", "one dollar one pound one euro one yen"),
        ("€20 £1,500", "twenty euros one thousand five hundred pounds"),
        ("5€", "five euros"),
        ("$3.50", "three dollars and fifty cents"),
        ("£1.01", "one pound and one penny"),
        ("$0.99 $.05", "ninety nine cents five cents"),
        ("$2.00", "two dollars"),
        ("$2.5", "two point five dollars"),
        ("$2.5 million", "two point five million dollars"),
        ("US$ 3 billion.", "us three billion dollars"),
        ("$ alone", "alone"),
    ],
)
def test_money(text, expected):
    assert words(text) == expected


# Surrogates included: what a broken decoder returns is still a str.
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)
TRICKY = st.text("aEİΣ'’´019.,$€%&<>[]-/ \u0301\u0345\u200d½²st\ud800", max_size=40)


@given(ANY_TEXT | TRICKY)
@example("e!\u0301")
@example("ŉ")
@example("a\u200d\u0301")
@example("\u0344" * 40)
def test_normalised_text_is_stable(text):
    once = normalise(text)
    assert normalise(" ".join(once)) == once


@given(ANY_TEXT | TRICKY)
def test_words_are_letters_marks_and_inner_apostrophes(text):
    for word in normalise(text):
        assert word[0].isalpha()
        assert word[-1] != "'"
        assert word == word.lower()
        assert not any(char.isdecimal() or char.isspace() for char in word)


@given(st.integers(0, 10**15 - 1))
def test_thousands_commas_change_nothing(number):
    assert normalise(f"{number:,}") == normalise(str(number))


@given(st.integers(0, 10**15 - 1), st.integers(0, 10**15 - 1))
def test_different_numbers_have_different_words(one, other):
    assert (normalise(str(one)) == normalise(str(other))) == (one == other)


def test_every_character_alone_is_stable():
    for start in range(0, sys.maxunicode + 1, 7):  # a seventh of them, to stay quick; hypothesis takes the rest
        once = normalise(f"a{chr(start)}b")
        assert normalise(" ".join(once)) == once


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "1",
        "1,",
        "1,111",
        "1.1",
        ",111",
        "$1",
        "1$",
        "$1 ",
        "<",
        "<a",
        "[a",
        "'",
        "a'",
        " ",
        "\u0301\u0323",
        "é",
        "<>",
    ],
)
def test_a_hundred_kilobytes_take_no_time(piece):
    began = time.process_time()
    normalise(piece * (100_000 // len(piece)))
    assert time.process_time() - began < 2
