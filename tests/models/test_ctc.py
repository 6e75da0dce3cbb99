"""CTC prefix probabilities and searches against the textbook and against the enumeration of every labelling."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_ctc import beam_search, collapsed, prefix_probability, text_probability, texts

from stopwav.models.ctc import FLOOR, CtcPrefixScorer, frame_log_probs, greedy_labels, prefix_search

BLANK, END = 0, 3


def log_probs(seed: int, frames: int, tokens: int = 4, lengths: list[int] | None = None) -> torch.Tensor:
    logits = 3 * torch.randn(len(lengths or [0]), frames, tokens, generator=torch.Generator().manual_seed(seed))
    return frame_log_probs(logits, torch.tensor(lengths or [frames]))


def scores_of(prefixes: CtcPrefixScorer, text: tuple[int, ...], beam: int = 1) -> torch.Tensor:
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
    actual = scores_of(CtcPrefixScorer(scores, torch.tensor([frames]), 1), tuple(text))[0, 0]
    for token in (1, 2):
        longer = (*text, token)
        begins = sum(p for other, p in every.items() if other[: len(longer)] == longer)
        assert actual[token] == pytest.approx(logarithm(begins), abs=1e-9)
    assert actual[END] == pytest.approx(logarithm(every.get(tuple(text), 0.0)), abs=1e-9)
    assert actual[BLANK] == -math.inf


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 40), st.lists(st.integers(1, 5), max_size=12))
def test_long_ones_are_those_of_the_recursion_over_frames(seed: int, frames: int, text: list[int]) -> None:
    scores = log_probs(seed, frames, tokens=7)
    probabilities = scores[0].exp().numpy()
    actual = scores_of(CtcPrefixScorer(scores, torch.tensor([frames]), 1), tuple(text))[0, 0]
    for token in range(1, 6):
        expected = logarithm(prefix_probability(probabilities, (*text, token)))
        assert actual[token] == pytest.approx(expected, rel=1e-9)
    assert actual[-1] == pytest.approx(logarithm(text_probability(probabilities, tuple(text))), rel=1e-9)


def test_a_text_of_a_thousand_sharp_frames_keeps_its_digits() -> None:
    """Frames that are certain to a part in e^500: cumulated, their logarithms are half a million."""
    text = [1, 2, 2, 1] * 25
    labels = [label for token in text for label in [token] * 5 + [BLANK] * 5]
    logits = torch.full((1, 1000, 4), -500.0)
    logits[0, torch.arange(1000), torch.tensor(labels)] = 0.0
    lengths = torch.tensor([1000])
    actual = scores_of(CtcPrefixScorer(frame_log_probs(logits, lengths), lengths, 1), tuple(text))[0, 0]
    assert actual[END] == pytest.approx(0.0, abs=1e-6)
    assert actual[1] < -400


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 30), min_size=2, max_size=4), st.data())
def test_hypotheses_of_a_padded_batch_are_scored_as_alone(seed: int, lengths: list[int], data: st.DataObject) -> None:
    beam, frames = 3, max(lengths)
    together = CtcPrefixScorer(log_probs(seed, frames, lengths=lengths), torch.tensor(lengths), beam)
    alone = [
        CtcPrefixScorer(log_probs(seed, frames, lengths=lengths)[row : row + 1, :length], torch.tensor([length]), beam)
        for row, length in enumerate(lengths)
    ]
    for _ in range(3):
        actual = together.scores()
        for row, scorer in enumerate(alone):
            np.testing.assert_allclose(actual[row], scorer.scores()[0], rtol=1e-9)
        numbers = st.lists(st.integers(0, 2), min_size=beam * len(lengths), max_size=beam * len(lengths))
        parents = torch.tensor(data.draw(numbers)).view(-1, beam)
        tokens = (torch.tensor(data.draw(numbers)).view(-1, beam) % 2) + 1
        together.advance(parents, tokens)
        for row, scorer in enumerate(alone):
            scorer.advance(parents[row : row + 1], tokens[row : row + 1])
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
    actual = scores_of(CtcPrefixScorer(frame_log_probs(logits, lengths), lengths, 1), (2, 1))[0, 0]
    assert not actual.isnan().any()


def random_logits(seed: int, utterances: int, frames: int, tokens: int) -> torch.Tensor:
    return 2 * torch.randn(utterances, frames, tokens, generator=torch.Generator().manual_seed(seed))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 12), min_size=1, max_size=3), st.integers(1, 4))
def test_the_beam_finds_what_the_textbook_finds(seed: int, lengths: list[int], beam: int) -> None:
    scores = frame_log_probs(random_logits(seed, len(lengths), max(lengths), 14), torch.tensor(lengths))
    for row, (tokens, score) in enumerate(prefix_search(scores, beam)):
        text, probability = beam_search(scores[row, : lengths[row]].exp().numpy(), beam)
        assert tuple(tokens) == text
        assert score == pytest.approx(math.log(probability), abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_a_beam_of_all_texts_finds_the_likeliest_of_all(seed: int, frames: int) -> None:
    scores = frame_log_probs(random_logits(seed, 1, frames, 4), torch.tensor([frames]))
    every = texts(scores[0].exp().numpy())
    tokens, score = prefix_search(scores, 70)[0]
    assert tuple(tokens) == max(every, key=lambda text: every[text])
    assert score == pytest.approx(math.log(every[tuple(tokens)]), abs=1e-9)
    # Torch's own loss, another way to sum over the labellings, agrees.
    lengths, counts = torch.tensor([frames]), torch.tensor([len(tokens)])
    targets = torch.tensor([tokens], dtype=torch.long)
    loss = torch.nn.functional.ctc_loss(scores.transpose(0, 1), targets, lengths, counts, reduction="sum")
    assert score == pytest.approx(-loss.item(), abs=1e-9)


def test_a_label_said_twice_does_not_hide_the_next_best() -> None:
    """By hand, at beam 1: after a, half of it on a blank, a is the likeliest label and yet ab the likeliest text."""
    frames = [[0.3, 0.6, 0.1, 0], [0.5, 0.45, 0.05, 0], [0.05, 0.5, 0.45, 0]]
    scores = frame_log_probs(torch.tensor([frames]).log(), torch.tensor([3]))
    # a stays with 0.57 · 0.05 + 0.27 · 0.5 = 0.1635, aa has 0.3 · 0.5 = 0.15.
    assert prefix_search(scores, 1) == [([1, 2], pytest.approx(math.log(0.57 * 0.45), abs=1e-6))]


def test_a_text_that_left_the_beam_may_come_back_once() -> None:
    """Many frames and a narrow beam: texts leave and are reached again, and no text is ever there twice."""
    scores = frame_log_probs(random_logits(3, 1, 200, 5) / 8, torch.tensor([200]))
    text, probability = beam_search(scores[0].exp().numpy(), 4)
    tokens, score = prefix_search(scores, 4)[0]
    assert tuple(tokens) == text
    assert score == pytest.approx(math.log(probability), abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 20), min_size=1, max_size=4))
def test_greedy_takes_the_best_label_of_each_real_frame(seed: int, lengths: list[int]) -> None:
    drawn = random_logits(seed, len(lengths), max(lengths), 4)
    for row, tokens in enumerate(greedy_labels(drawn, torch.tensor(lengths))):
        path = drawn[row, : lengths[row], :3].argmax(-1).tolist()
        assert tuple(tokens) == collapsed(tuple(path))
