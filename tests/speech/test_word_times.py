"""Word times follow the words that a normaliser makes of what was spoken: none is divided, and none is lost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stopwav.speech.normaliser import make_normaliser, normaliser_names, spoken_words
from stopwav.speech.utterance import Word
from stopwav.speech.word_times import timed_words

ENGLISH = make_normaliser("whisper-english")


def spoken(text: str, language: str = "") -> list[Word]:
    """One word per second."""
    return [Word(word, float(at_s), at_s + 0.9) for at_s, word in enumerate(spoken_words(text, language))]


@pytest.mark.parametrize(
    ("text", "timed"),
    [
        ("the cat sat", "the 0-0 cat 1-1 sat 2-2"),
        ("Twenty-one cats", "21 0-1 cats 2-2"),
        ("don't go", "do 0-0 not 0-0 go 1-1"),
        ("um, yes", "yes 1-1"),
        ("I paid 20 dollars, don't I?", "i 0-0 paid 1-1 $20 2-3 do 4-4 not 4-4 i 5-5"),
        ("twenty one don't", "21 0-1 do 2-2 not 2-2"),
        ("1,205 colours", "1205 0-4 colors 5-5"),
        ("it's one hundred and five percent", "it 0-0 is 0-0 105% 1-5"),
        ("", ""),
        ("um", ""),
    ],
)
def test_by_hand(text: str, timed: str) -> None:
    fields = timed.split()
    expected = []
    for word, seconds in zip(fields[::2], fields[1::2], strict=True):
        first, last = seconds.split("-")
        expected.append(Word(word, float(first), int(last) + 0.9))
    assert list(timed_words(spoken(text), text, ENGLISH)) == expected


VOCABULARY = """
the cat twenty one hundred and a half don't it's um colour 5 $3 3.14 point dollars o'clock well-known & %
"""


@given(st.lists(st.sampled_from(VOCABULARY.split()), max_size=12).map(" ".join), st.sampled_from(normaliser_names()))
@settings(max_examples=300)
def test_words_are_those_of_the_text_and_stay_in_order(text: str, name: str) -> None:
    normaliser, words = make_normaliser(name), spoken(text)
    timed = timed_words(words, text, normaliser)
    if words:
        assert [word.text for word in timed] == normaliser.words(text)
    assert all(first.start_s <= then.start_s and first.end_s <= then.end_s for first, then in pairwise(timed))
    assert {time for word in timed for time in (word.start_s, word.end_s)} <= {
        time for word in words for time in (word.start_s, word.end_s)
    }


def test_without_word_times_there_are_none() -> None:
    assert timed_words([], "twenty one", ENGLISH) == ()
