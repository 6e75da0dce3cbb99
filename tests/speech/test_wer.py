import jiwer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav.speech.text import normalise
from stopwav.speech.wer import (
    CharacterErrorCount,
    ErrorCount,
    count_character_errors,
    count_errors,
    count_word_errors,
)

COUNTS = st.builds(ErrorCount, *[st.integers(0, 1000)] * 4)
WORDS = st.lists(st.sampled_from(["a", "b", "c", "d e", "", " "]), max_size=12)


def levenshtein(ref, hyp):
    """The edit distance in words, by the textbook recursion over rows."""
    row = list(range(len(hyp) + 1))
    for i, ref_word in enumerate(ref, 1):
        previous, row = row, [i]
        for j, hyp_word in enumerate(hyp, 1):
            row.append(min(previous[j] + 1, row[-1] + 1, previous[j - 1] + (ref_word != hyp_word)))
    return row[-1]


@pytest.mark.parametrize(
    ("reference", "hypothesis", "expected"),
    [
        ("the cat sat", "the cat sat", ErrorCount(0, 0, 0, 3)),
        ("the cat sat", "a cat sat", ErrorCount(1, 0, 0, 3)),
        ("the cat sat", "the sat", ErrorCount(0, 1, 0, 3)),
        ("the cat sat", "the cat sat down", ErrorCount(0, 0, 1, 3)),
        ("the cat sat on the mat", "a cat on the old mat", ErrorCount(1, 1, 1, 6)),
        ("It's 5 o’clock!", "its five o'clock", ErrorCount(1, 0, 0, 3)),
        ("", "", ErrorCount()),
        ("", "uh huh", ErrorCount(0, 0, 2, 0)),
        ("yes sir", "", ErrorCount(0, 2, 0, 2)),
        ("[noise]", "...", ErrorCount()),
        ("a", "b c d", ErrorCount(1, 0, 2, 1)),
    ],
)
def test_counts_by_hand(reference, hypothesis, expected):
    assert count_errors(reference, hypothesis) == expected


@given(WORDS, WORDS)
def test_errors_are_the_edit_distance(ref, hyp):
    count = count_word_errors(ref, hyp)
    assert count.errors == levenshtein(ref, hyp)
    assert count.words == len(ref)
    assert count.insertions - count.deletions == len(hyp) - len(ref)


def test_rate():
    assert ErrorCount(1, 1, 1, 6).wer == 0.5
    assert ErrorCount(1, 0, 2, 1).wer == 3.0
    assert ErrorCount(insertions=2).wer is None
    assert ErrorCount(1, 2, 3, 9).errors == 6


@given(st.lists(COUNTS))
def test_counts_add(counts):
    total = sum(counts, ErrorCount())
    assert total == sum(counts, start=ErrorCount())
    assert total.errors == sum(count.errors for count in counts)
    assert total.words == sum(count.words for count in counts)
    if counts:
        assert sum(counts) == total


def test_the_rate_of_a_corpus_is_not_the_mean_of_rates():
    short, long = ErrorCount(substitutions=1, words=1), ErrorCount(words=99)
    assert (short + long).wer == 0.01


def test_counts_cannot_be_averaged():
    count = ErrorCount(1, 0, 0, 2)
    for spoil in (
        lambda: count / 2,
        lambda: float(count),
        lambda: sum([count, 1.0]),
        lambda: count + 1,
        lambda: 5 + count,
    ):
        with pytest.raises(TypeError):
            spoil()


@pytest.mark.parametrize(
    ("reference", "hypothesis", "errors", "characters"),
    [
        ("the cat", "the cat", 0, 7),
        ("the cat", "the hat", 1, 7),
        ("ice cream", "icecream", 1, 9),  # the space
        ("a b", "", 3, 3),
        ("yes", "oh yes", 3, 3),  # o, h and the space
        ("", "uh", 2, 0),
        ("café", "cafe", 1, 4),  # é is one character
        ("مرحبا", "مرحب", 1, 5),
    ],
)
def test_characters_by_hand(reference, hypothesis, errors, characters):
    count = count_character_errors(normalise(reference), normalise(hypothesis))
    assert count == CharacterErrorCount(errors, characters)
    assert count.cer == (errors / characters if characters else None)


@given(*[st.lists(st.text("abcé漢\u0650", min_size=1, max_size=6), min_size=1, max_size=6)] * 2)
def test_character_errors_are_jiwers(ref, hyp):
    """Of texts with one space between words, jiwer counts every character, spaces too."""
    count = count_character_errors(ref, hyp)
    assert count.cer == pytest.approx(jiwer.cer(" ".join(ref), " ".join(hyp)))
    assert count.errors == levenshtein(" ".join(ref), " ".join(hyp))


@given(st.lists(st.builds(CharacterErrorCount, st.integers(0, 99), st.integers(0, 99))))
def test_character_counts_add_and_cannot_be_averaged(counts):
    total = sum(counts, CharacterErrorCount())
    assert (total.errors, total.characters) == (sum(c.errors for c in counts), sum(c.characters for c in counts))
    with pytest.raises(TypeError):
        total / 2
