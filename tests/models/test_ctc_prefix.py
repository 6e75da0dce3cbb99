"""CTC prefix probabilities against the enumeration of every way to label the frames."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_ctc import prefix_probability, text_probability, texts

from stopwav.models.ctc_prefix import FLOOR, CtcPrefixes, frame_log_probs

BLANK, END = 0, 3


def log_probs(seed: int, frames: int, tokens: int = 4, lengths: list[int] | None = None) -> torch.Tensor:
    logits = 3 * torch.randn(len(lengths or [0]), frames, tokens, generator=torch.Generator().manual_seed(seed))
    return frame_log_probs(logits, torch.tensor(lengths or [frames]))


def scores_of(prefixes: CtcPrefixes, text: tuple[int, ...], beam: int = 1) -> torch.Tensor:
    """The scores behind a text that every hypothesis was led to."""
    for token in text:
        prefixes.advance(torch.zeros(1, beam, dtype=torch.long), torch.full((1, beam), token))
    return prefixes.scores()


def logarithm(probability: float) -> float:
    return math.log(probability) if probability > 0 else -math.inf


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 5), st.lists(st.integers(1, 2), max_size=4))
def test_prefixes_and_texts_have_the_probability_of_all_their_labellings(
    seed: int, frames: int, text: list[int]
) -> None:
    scores = log_probs(seed, frames)
    every = texts(scores[0].exp().numpy())
    found = scores_of(CtcPrefixes(scores, torch.tensor([frames]), 1), tuple(text))[0, 0]
    for token in (1, 2):
        longer = (*text, token)
        begins = sum(p for one, p in every.items() if one[: len(longer)] == longer)
        assert found[token] == pytest.approx(logarithm(begins), abs=1e-9)
    assert found[END] == pytest.approx(logarithm(every.get(tuple(text), 0.0)), abs=1e-9)
    assert found[BLANK] == -math.inf


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 40), st.lists(st.integers(1, 5), max_size=12))
def test_long_ones_are_those_of_the_recursion_over_frames(seed: int, frames: int, text: list[int]) -> None:
    scores = log_probs(seed, frames, tokens=7)
    probabilities = scores[0].exp().numpy()
    found = scores_of(CtcPrefixes(scores, torch.tensor([frames]), 1), tuple(text))[0, 0]
    for token in range(1, 6):
        expected = logarithm(prefix_probability(probabilities, (*text, token)))
        assert found[token] == pytest.approx(expected, rel=1e-9)
    assert found[-1] == pytest.approx(logarithm(text_probability(probabilities, tuple(text))), rel=1e-9)


def test_a_text_of_a_thousand_sharp_frames_keeps_its_digits() -> None:
    """Frames that are certain to a part in e^500: cumulated, their logarithms are half a million."""
    text = [1, 2, 2, 1] * 25
    labels = [label for token in text for label in [token] * 5 + [BLANK] * 5]
    logits = torch.full((1, 1000, 4), -500.0)
    logits[0, torch.arange(1000), torch.tensor(labels)] = 0.0
    lengths = torch.tensor([1000])
    found = scores_of(CtcPrefixes(frame_log_probs(logits, lengths), lengths, 1), tuple(text))[0, 0]
    assert found[END] == pytest.approx(0.0, abs=1e-6)
    assert found[1] < -400


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 30), min_size=2, max_size=4), st.data())
def test_hypotheses_of_a_padded_batch_are_scored_as_alone(seed: int, lengths: list[int], data: st.DataObject) -> None:
    beam, frames = 3, max(lengths)
    together = CtcPrefixes(log_probs(seed, frames, lengths=lengths), torch.tensor(lengths), beam)
    alone = [
        CtcPrefixes(log_probs(seed, frames, lengths=lengths)[row : row + 1, :length], torch.tensor([length]), beam)
        for row, length in enumerate(lengths)
    ]
    for _ in range(3):
        found = together.scores()
        for row, one in enumerate(alone):
            np.testing.assert_allclose(found[row], one.scores()[0], rtol=1e-9)
        numbers = st.lists(st.integers(0, 2), min_size=beam * len(lengths), max_size=beam * len(lengths))
        parents = torch.tensor(data.draw(numbers)).view(-1, beam)
        tokens = (torch.tensor(data.draw(numbers)).view(-1, beam) % 2) + 1
        together.advance(parents, tokens)
        for row, one in enumerate(alone):
            one.advance(parents[row : row + 1], tokens[row : row + 1])
    together.keep(torch.tensor([len(lengths) - 1]))
    np.testing.assert_allclose(together.scores(), alone[-1].scores(), rtol=1e-9)


def test_the_end_is_no_label_and_padding_is_blank() -> None:
    scores = frame_log_probs(torch.zeros(2, 3, 4), torch.tensor([3, 1]))
    assert scores.dtype == torch.float64
    assert scores[0, 0].tolist() == pytest.approx([math.log(1 / 3)] * 3 + [FLOOR])
    assert scores[1, 2].tolist() == [0.0, FLOOR, FLOOR, FLOOR]


def test_a_probability_that_a_float_has_not_does_no_harm() -> None:
    logits = torch.tensor([[[0.0, -1e30, 5.0, 0.0], [-1e30, 0.0, -1e30, 0.0]]])
    lengths = torch.tensor([2])
    found = scores_of(CtcPrefixes(frame_log_probs(logits, lengths), lengths, 1), (2, 1))[0, 0]
    assert not found.isnan().any()
