"""The words of a reference that are in a changing hypothesis: the same as by the plain definition, at less cost."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_matching import plain_matches

from stopwav.speech import matching
from stopwav.speech.matching import Matcher, matches
from stopwav.speech.wer import common_prefix

# Few different words, so that there are many equally good alignments.
WORD = st.sampled_from("abcx")
WORDS = st.lists(WORD, max_size=12)


def check(reference: list[str], texts: list[list[str]], spoken: list[int | None]) -> None:
    matcher, before, present = Matcher(reference), list[str](), set[int]()
    for text, begun in zip(texts, spoken, strict=True):
        kept = common_prefix(before, text)
        start, matched = matcher.change(kept, text[kept:], begun)
        assert matched == sorted(matched)
        present = {position for position in present if position < start} | set(matched)
        assert present == plain_matches(reference, text, begun), (reference, text, begun)
        before = text


@given(WORDS, st.lists(st.tuples(WORDS, st.none() | st.integers(0, 13)), max_size=8))
@settings(max_examples=300)
def test_any_texts_match_as_by_the_definition(reference: list[str], texts: list[tuple[list[str], int | None]]) -> None:
    check(reference, [text for text, _ in texts], [begun for _, begun in texts])


@pytest.mark.parametrize("wide", [0, 64], ids=["arrays", "lists"])
@pytest.mark.parametrize("seed", range(8))
def test_partials_of_a_stream_match_as_by_the_definition(seed: int, wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "WIDE", wide)
    draw = random.Random(seed)
    reference = [draw.choice("abcdefgh") for _ in range(80)]
    texts, spoken = [], []
    for count in range(1, 81):
        # Each word is wrong now and then, and may be another in the next partial.
        text = [draw.choice("xyz") if draw.random() < 0.1 else word for word in reference[:count]]
        texts.append(text[draw.randrange(2) :] if draw.random() < 0.05 else text)
        spoken.append(count + draw.randrange(3))
    check(reference, texts, spoken)


def test_an_hour_of_words_is_matched_though_not_every_cell_is_computed() -> None:
    draw = random.Random(0)
    reference = [f"w{draw.randrange(2000)}" for _ in range(9000)]
    # A tenth is wrong or missing, so that in the end words are 450 positions from where they were said.
    said = [word if draw.random() < 0.95 else "wrong" for word in reference if draw.random() < 0.95]
    matcher, present = Matcher(reference), list[int]()
    for count in range(0, len(said), 10):
        start, matched = matcher.change(count, said[count : count + 10], None)
        present = [position for position in present if position < start] + matched
    assert len(present) > 0.99 * sum(word != "wrong" for word in said)
    cells = sum(len(row) for row in matcher._rows)
    assert cells < 0.25 * len(reference) * len(said)


def test_two_texts_are_matched_whole() -> None:
    assert matches(["the", "cat", "sat"], ["a", "cat", "sat", "down"]) == [1, 2]
    assert matches([], ["a"]) == []
