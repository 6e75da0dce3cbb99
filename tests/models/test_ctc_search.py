"""CTC's own searches against the textbook and against enumeration."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_ctc import beam_search, collapsed, texts

from stopwav.models.ctc_prefix import frame_log_probs
from stopwav.models.ctc_search import greedy_labels, prefix_search


def logits(seed: int, utterances: int, frames: int, tokens: int) -> torch.Tensor:
    return 2 * torch.randn(utterances, frames, tokens, generator=torch.Generator().manual_seed(seed))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 12), min_size=1, max_size=3), st.integers(1, 4))
def test_the_beam_finds_what_the_textbook_finds(seed: int, lengths: list[int], beam: int) -> None:
    scores = frame_log_probs(logits(seed, len(lengths), max(lengths), 14), torch.tensor(lengths))
    for row, (tokens, score) in enumerate(prefix_search(scores, beam)):
        text, probability = beam_search(scores[row, : lengths[row]].exp().numpy(), beam)
        assert tuple(tokens) == text
        assert score == pytest.approx(math.log(probability), abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_a_beam_of_all_texts_finds_the_likeliest_of_all(seed: int, frames: int) -> None:
    scores = frame_log_probs(logits(seed, 1, frames, 4), torch.tensor([frames]))
    every = texts(scores[0].exp().numpy())
    tokens, score = prefix_search(scores, 70)[0]
    assert tuple(tokens) == max(every, key=lambda text: every[text])
    assert score == pytest.approx(math.log(every[tuple(tokens)]), abs=1e-9)


def test_a_label_said_twice_does_not_hide_the_next_best() -> None:
    """By hand, at beam 1: after a, half of it on a blank, a is the likeliest label and yet ab the likeliest text."""
    frames = [[0.3, 0.6, 0.1, 0], [0.5, 0.45, 0.05, 0], [0.05, 0.5, 0.45, 0]]
    scores = frame_log_probs(torch.tensor([frames]).log(), torch.tensor([3]))
    # a stays with 0.57 · 0.05 + 0.27 · 0.5 = 0.1635, aa has 0.3 · 0.5 = 0.15.
    assert prefix_search(scores, 1) == [([1, 2], pytest.approx(math.log(0.57 * 0.45), abs=1e-6))]


def test_a_text_that_left_the_beam_may_come_back_once() -> None:
    """Many frames and a narrow beam: texts leave and are reached again, and no text is ever there twice."""
    scores = frame_log_probs(logits(3, 1, 200, 5) / 8, torch.tensor([200]))
    text, probability = beam_search(scores[0].exp().numpy(), 4)
    tokens, score = prefix_search(scores, 4)[0]
    assert tuple(tokens) == text
    assert score == pytest.approx(math.log(probability), abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 20), min_size=1, max_size=4))
def test_greedy_takes_the_best_label_of_each_real_frame(seed: int, lengths: list[int]) -> None:
    drawn = logits(seed, len(lengths), max(lengths), 4)
    for row, tokens in enumerate(greedy_labels(drawn, torch.tensor(lengths))):
        path = drawn[row, : lengths[row], :3].argmax(-1).tolist()
        assert tuple(tokens) == collapsed(tuple(path))
