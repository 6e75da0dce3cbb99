"""Joint search against a search that is written for reading, at every weight."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_joint_search import attention_scores, plain_search
from tiny_hybrids import features, tiny
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from stopwav.models.ctc import CtcPrefixScorer, frame_log_probs, greedy_labels
from stopwav.models.hybrid import Decoding, Hybrid, decode, encode
from stopwav.models.joint_search import AttentionScorer, JointScorer, LengthLimits, Text, joint_search

MODELS = {(family, seed): tiny(family, seed) for family in ("conformer", "lstm") for seed in range(3)}
models = st.sampled_from(sorted(MODELS)).map(MODELS.__getitem__)
lengths = st.lists(st.integers(7, 36), min_size=1, max_size=3)
weights = st.sampled_from([0.0, 0.3, 0.8, 1.0])


def search(
    model: Hybrid, encodings: torch.Tensor, frames: torch.Tensor, weight: float, limits, beam: int
) -> list[Text]:
    attention = AttentionScorer(model.decoder, encodings, frames, beam)
    ctc = CtcPrefixScorer(frame_log_probs(model.ctc(encodings), frames), frames, beam) if weight else None
    return joint_search(JointScorer(attention, ctc, weight), limits, beam, model.shape.tokens - 1, encodings.device)


@settings(deadline=None, max_examples=25)
@given(models, lengths, st.integers(0, 1000), weights, st.integers(1, 4), st.integers(0, 4))
def test_a_batch_finds_what_a_plain_search_finds_for_each_utterance(
    model: Hybrid, sizes: list[int], seed: int, weight: float, beam: int, min_tokens: int
) -> None:
    with torch.inference_mode():
        encodings, frames = encode(model, features(sizes, seed))
        limits = [LengthLimits(min(min_tokens, count), min(4, count)) for count in frames.tolist()]
        texts = search(model, encodings, frames, weight, limits, beam)
        for row, count in enumerate(frames.tolist()):
            own = encodings[row, :count]
            probabilities = frame_log_probs(model.ctc(own[None]), frames.new_tensor([count]))[0].exp().numpy()
            tokens, score = plain_search(model, own, probabilities, weight, limits[row], beam)
            assert tuple(texts[row].tokens) == tokens
            assert texts[row].score == pytest.approx(score, rel=1e-9)


@settings(deadline=None, max_examples=20)
@given(models, lengths, st.integers(0, 1000))
def test_a_beam_of_1_is_greedy(model: Hybrid, sizes: list[int], seed: int) -> None:
    with torch.inference_mode():
        encodings, frames = encode(model, features(sizes, seed))
        end = model.shape.tokens - 1
        decoding = Decoding(ctc_weight=0.0, beam=1, min_len_ratio=0.0, max_len_ratio=1.0)
        for row, tokens in enumerate(decode(model, encodings, frames, decoding)):
            greedy: list[int] = []
            while len(greedy) < frames[row]:
                best = int(attention_scores(model, encodings[row, : frames[row]], tuple(greedy))[1:].argmax()) + 1
                if best == end:
                    break
                greedy.append(best)
            assert tokens == greedy
        decoding = Decoding(ctc_weight=1.0, beam=1, min_len_ratio=0.0, max_len_ratio=1.0)
        assert decode(model, encodings, frames, decoding) == greedy_labels(model.ctc(encodings), frames)


@settings(deadline=None, max_examples=30)
@given(models, lengths, st.integers(0, 1000), weights, st.integers(1, 12))
def test_a_batch_of_different_lengths_is_decoded_as_one_by_one(
    model: Hybrid, sizes: list[int], seed: int, weight: float, beam: int
) -> None:
    inputs = features(sizes, seed)
    decoding = Decoding(weight, beam, min_len_ratio=0.2, max_len_ratio=1.0)
    with torch.inference_mode():
        together = decode(model, *encode(model, inputs), decoding)
        assert together == [decode(model, *encode(model, [utterance]), decoding)[0] for utterance in inputs]


@pytest.mark.parametrize("family", ["conformer", "lstm"])
@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_a_text_that_may_not_end_before_its_longest_is_as_long(family: str, weight: float) -> None:
    """More tokens than the decoder has room for at first, so that the room grows."""
    model = tiny(family)
    decoding = Decoding(weight, beam=3, min_len_ratio=0.5, max_len_ratio=0.5)
    with torch.inference_mode():
        encodings, frames = encode(model, features([180, 100]))
        assert [len(tokens) for tokens in decode(model, encodings, frames, decoding)] == [int(n) // 2 for n in frames]
        assert int(frames[0]) // 2 > 16


def operations_per_token(model: Hybrid, frames: int) -> float:
    """Multiplications and additions of a search, for each token of its text."""
    encodings = torch.randn(1, frames, model.shape.width, dtype=torch.float64)
    decoding = Decoding(ctc_weight=0.3, beam=4, min_len_ratio=0.5, max_len_ratio=0.5)
    # Attention as plain products: the counter does not know the CPU's fused kernel.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        text = decode(model, encodings, torch.tensor([frames]), decoding)[0]
    assert len(text) == frames // 2
    return counter.get_total_flops() / len(text)


@pytest.mark.parametrize("family", ["conformer", "lstm"])
def test_the_cost_of_a_token_grows_no_faster_than_the_utterance(family: str) -> None:
    model = tiny(family)
    short, long = operations_per_token(model, 20), operations_per_token(model, 80)
    assert 1.5 * short < long <= 4 * short


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here")
@pytest.mark.parametrize("family", ["conformer", "lstm"])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_a_gpu_finds_what_the_cpu_finds(family: str, weight: float) -> None:
    inputs = features([180, 33, 100])
    for beam in (1, 4):
        decoding = Decoding(weight, beam, min_len_ratio=0.2, max_len_ratio=0.8)
        model = tiny(family)
        with torch.inference_mode():
            expected = decode(model, *encode(model, inputs), decoding)
            model = model.cuda()
            assert decode(model, *encode(model, [utterance.cuda() for utterance in inputs]), decoding) == expected


def test_an_utterance_too_short_for_any_text_gets_the_empty_one() -> None:
    """At least two tokens, and one frame to place them in."""
    model = tiny("lstm")
    with torch.inference_mode():
        encodings, frames = encode(model, features([1]))
        assert search(model, encodings, frames, 0.3, [LengthLimits(2, 2)], 2) == [Text([], -math.inf)]
