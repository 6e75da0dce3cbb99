"""The steps against the networks: segment by segment against the whole utterance, and batches against one by one."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from stopwav.models.checkpoint import DenseLinear, Linear, PackedLinear
from stopwav.models.emformer import EmformerEncoder, EmformerShape
from stopwav.models.transducer import EncoderStep, Joiner, JoinerStep, Predictor, PredictorStep


def small(segment: int = 16, right_context: int = 4, left_context: int = 30) -> EmformerShape:
    return EmformerShape(
        bands=8,
        reduced=8,
        heads=4,
        feed_forward=48,
        layers=2,
        segment=segment,
        right_context=right_context,
        left_context=left_context,
        encoding=24,
    )


def encoder_of(shape: EmformerShape, seed: int = 0) -> EmformerEncoder:
    torch.manual_seed(seed)
    return EmformerEncoder(shape).eval().requires_grad_(False)


def features_of(length: int, seed: int = 0) -> Tensor:
    return torch.randn(length, 8, generator=torch.Generator().manual_seed(seed))


def whole(encoder: EmformerEncoder, features: Tensor) -> Tensor:
    padded = torch.cat([features, features.new_zeros(encoder.shape.right_context, 8)])
    encodings, lengths = encoder(padded[None], torch.tensor([len(features)]))
    assert lengths.tolist() == [encodings.shape[1]]
    return encodings[0]


def streamed(step: EncoderStep, features: Tensor) -> Tensor:
    shape, state = step.shape, step.initial_state()
    padded = torch.cat([features, features.new_zeros(shape.right_context, 8)])
    parts = []
    while len(padded) >= shape.stride + shape.right_context:
        parts.append(step(padded[: shape.segment + shape.right_context], state).clone())
        padded = padded[shape.segment :]
    return torch.cat(parts) if parts else features.new_zeros(0, shape.encoding)


@pytest.mark.parametrize("kind", [DenseLinear, PackedLinear])
@settings(max_examples=30, deadline=None)
@given(
    length=st.integers(4, 260),
    segment=st.sampled_from([4, 8, 12, 16, 20, 32]),
    right_context=st.sampled_from([0, 4, 8]),
    left_context=st.sampled_from([8, 9, 30]),
    seed=st.integers(0, 99),
)
@example(length=5, segment=16, right_context=4, left_context=30, seed=0)
@example(length=260, segment=16, right_context=4, left_context=9, seed=0)
def test_segment_by_segment_equals_the_whole(
    kind: type[Linear], length: int, segment: int, right_context: int, left_context: int, seed: int
) -> None:
    encoder = encoder_of(small(segment, right_context, left_context), seed)
    features = features_of(length, seed)
    torch.testing.assert_close(
        streamed(EncoderStep(encoder, kind), features), whole(encoder, features), atol=1e-4, rtol=1e-4
    )


def test_the_past_beyond_the_left_context_is_forgotten() -> None:
    # Two layers of 8 frames reach 16 frames, 64 feature frames, into the past of a segment.
    encoder = encoder_of(small(left_context=8))
    first, second = features_of(320, 0), features_of(320, 0)
    second[:160] = features_of(160, 1)
    step = EncoderStep(encoder, DenseLinear)
    first_encodings, second_encodings = streamed(step, first), streamed(step, second)
    assert not torch.allclose(first_encodings[:40], second_encodings[:40], atol=1e-2)
    torch.testing.assert_close(first_encodings[60:], second_encodings[60:], atol=1e-5, rtol=1e-5)


def test_a_frame_sees_its_right_context_and_nothing_beyond() -> None:
    encoder = encoder_of(small())
    features = features_of(64)
    base = whole(encoder, features)
    ahead, beyond = features.clone(), features.clone()
    ahead[16:20] += 1
    beyond[20:] += 1
    assert not torch.allclose(whole(encoder, ahead)[:4], base[:4], atol=1e-3)
    torch.testing.assert_close(whole(encoder, beyond)[:4], base[:4])


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(4, 90), min_size=2, max_size=5), right_context=st.sampled_from([0, 4, 8]))
@example(lengths=[22, 60], right_context=4)  # the short one ends inside a segment, with half a frame left over
def test_a_batch_equals_its_utterances_one_by_one(lengths: list[int], right_context: int) -> None:
    encoder = encoder_of(small(right_context=right_context))
    utterances = [features_of(length, seed) for seed, length in enumerate(lengths)]
    padded = torch.zeros(len(lengths), max(lengths) + right_context, 8)
    for row, utterance in zip(padded, utterances, strict=True):
        row[: len(utterance)] = utterance
    encodings, counts = encoder(padded, torch.tensor(lengths))
    assert counts.tolist() == [length // 4 for length in lengths]
    assert encodings.isfinite().all()
    for row, count, utterance in zip(encodings, counts, utterances, strict=True):
        torch.testing.assert_close(row[:count], whole(encoder, utterance), atol=1e-5, rtol=1e-5)


def test_streams_share_no_state() -> None:
    step = EncoderStep(encoder_of(small()), DenseLinear)
    audio = [features_of(16 * 12 + 4, seed) for seed in range(3)]
    alone = [streamed(step, utterance) for utterance in audio]
    states = [step.initial_state() for _ in audio]
    together: list[list[Tensor]] = [[] for _ in audio]
    padded = [torch.cat([utterance, utterance.new_zeros(4, 8)]) for utterance in audio]
    for start in range(0, 16 * 12 + 4, 16):
        for parts, state, utterance in zip(together, states, padded, strict=True):
            parts.append(step(utterance[start : start + 20], state).clone())
    for parts, expected in zip(together, alone, strict=True):
        torch.testing.assert_close(torch.cat(parts), expected)


def test_a_step_counts_the_frames_it_took_into_the_past() -> None:
    step = EncoderStep(encoder_of(small()), DenseLinear)
    state = step.initial_state()
    for count in (4, 8, 12):
        step(features_of(20), state)
        assert state.frames.item() == count


@pytest.mark.parametrize("kind", [DenseLinear, PackedLinear])
def test_the_steps_of_search_are_the_predictor_and_the_joiner(kind: type) -> None:
    torch.manual_seed(0)
    predictor = Predictor(11, 24, width=16).eval().requires_grad_(False)
    joiner = Joiner(24, 11).eval().requires_grad_(False)
    predictor_step, joiner_step = PredictorStep(predictor, kind), JoinerStep(joiner, kind)
    states = stepped = predictor.initial_state().expand(5, -1, -1, -1)
    for seed in range(4):
        symbols = torch.randint(0, 11, (5,), generator=torch.Generator().manual_seed(seed))
        expected, states = predictor(symbols, states)
        actual, stepped = predictor_step(symbols, stepped, predictor_step.recurrent_gates(stepped))
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(stepped, states, atol=1e-5, rtol=1e-5)
        encodings = torch.randn(5, 24)
        torch.testing.assert_close(joiner_step(encodings, actual), joiner(encodings, expected), atol=1e-5, rtol=1e-5)
