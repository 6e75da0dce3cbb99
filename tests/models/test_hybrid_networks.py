"""Encoders and decoders of the hybrid families against plain sums, and padding that changes nothing."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_hybrids import features, tiny

from stopwav.models.conformer import ConformerEncoder, RelativeAttention, relative_shift, sinusoids
from stopwav.models.hybrid import encode
from stopwav.models.lstm import BlstmEncoder, LocationDecoder
from stopwav.models.transformer_decoder import TransformerDecoder

FAMILIES = ["conformer", "lstm"]


@pytest.mark.parametrize("family", FAMILIES)
@settings(deadline=None, max_examples=15)
@given(lengths=st.lists(st.integers(7, 80), min_size=2, max_size=4), seed=st.integers(0, 1000))
def test_padding_changes_nothing(family: str, lengths: list[int], seed: int) -> None:
    model = tiny(family, seed % 3)
    inputs = features(lengths, seed)
    with torch.inference_mode():
        together, frames = encode(model, inputs)
        for row, utterance in enumerate(inputs):
            alone, count = encode(model, [utterance])
            assert count.tolist() == [frames[row]] == [model.shape.frames(len(utterance))]
            torch.testing.assert_close(together[row, : frames[row]], alone[0])
            assert not together[row, frames[row] :].any()


@pytest.mark.parametrize("family", FAMILIES)
def test_every_frame_of_the_input_is_heard(family: str) -> None:
    model, inputs = tiny(family), features([40])[0]
    with torch.inference_mode():
        before = encode(model, [inputs])[0]
        # The last frame or two may not fill a window of the front end.
        for time in range(39 - 2):
            changed = inputs.clone()
            changed[time] += 1
            assert not torch.allclose(encode(model, [changed])[0], before)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_shortest_input_makes_a_frame(family: str) -> None:
    model = tiny(family)
    with torch.inference_mode():
        assert encode(model, features([model.shape.min_features]))[1].tolist() == [1]
    assert model.shape.frames(model.shape.min_features - 1) == 0


@pytest.mark.parametrize("time", [1, 2, 5])
def test_scores_by_distance_become_scores_by_key(time: int) -> None:
    by_distance = torch.randn(2, 3, time, 2 * time - 1)
    by_key = relative_shift(by_distance)
    assert by_key.shape == (2, 3, time, time)
    for query in range(time):
        for key in range(time):
            # Distances stand from time - 1, behind, to 1 - time, ahead.
            place = (time - 1) - (query - key)
            assert torch.equal(by_key[:, :, query, key], by_distance[:, :, query, place])


def test_relative_attention_is_the_published_sum() -> None:
    torch.manual_seed(0)
    width, heads, time = 8, 2, 5
    layer = RelativeAttention(width, heads).double()
    x = torch.randn(1, time, width, dtype=torch.float64)
    distances = sinusoids(torch.arange(time - 1, -time, -1), width).double()
    actual = layer(x, distances, torch.zeros(1, 1, 1, time, dtype=torch.float64))
    query, key, value = (part(x)[0].view(time, heads, -1) for part in (layer.query, layer.key, layer.value))
    attended = torch.zeros(time, heads, width // heads, dtype=torch.float64)
    for head in range(heads):
        for i in range(time):
            scores = []
            for j in range(time):
                distance = layer.position(sinusoids(torch.tensor([i - j]), width).double()[0]).view(heads, -1)[head]
                by_content = (query[i, head] + layer.content_bias[head]) @ key[j, head]
                by_position = (query[i, head] + layer.position_bias[head]) @ distance
                scores.append((by_content + by_position) / math.sqrt(width // heads))
            attended[i, head] = torch.stack(scores).softmax(0) @ value[:, head]
    torch.testing.assert_close(actual[0], layer.out(attended.flatten(1)))


def test_positions_are_sines_and_cosines_in_turn() -> None:
    actual = sinusoids(torch.tensor([0, 3]), 4)
    expected = [[0, 1, 0, 1], [math.sin(3), math.cos(3), math.sin(0.03), math.cos(0.03)]]
    torch.testing.assert_close(actual, torch.tensor(expected))


def test_a_conformer_block_adds_its_parts_in_their_order() -> None:
    encoder = tiny("conformer").encoder
    assert isinstance(encoder, ConformerEncoder)
    block = encoder.blocks[0]
    x = torch.randn(1, 4, 8, dtype=torch.float64)
    distances = sinusoids(torch.arange(3, -4, -1), 8).double()
    mask, padding = torch.zeros(1, 1, 1, 4, dtype=torch.float64), torch.zeros(1, 4, dtype=torch.bool)
    y = x + 0.5 * block.first_half(block.first_half_norm(x))
    y = y + block.attention(block.attention_norm(y), distances, mask)
    y = y + block.convolution(block.convolution_norm(y), padding)
    y = y + 0.5 * block.second_half(block.second_half_norm(y))
    torch.testing.assert_close(block(x, distances, mask, padding), block.norm(y))


def test_the_conformer_is_its_parts_one_after_another() -> None:
    encoder = tiny("conformer").encoder
    assert isinstance(encoder, ConformerEncoder)
    inputs = features([31])[0]
    x = encoder.front(inputs[None]) * math.sqrt(8)
    time = x.shape[1]
    distances = sinusoids(torch.arange(time - 1, -time, -1), 8).double()
    mask, padding = torch.zeros(1, 1, 1, time, dtype=torch.float64), torch.zeros(1, time, dtype=torch.bool)
    for block in encoder.blocks:
        x = block(x, distances, mask, padding)
    torch.testing.assert_close(encoder(inputs[None], torch.tensor([31]))[0], encoder.norm(x))


def test_the_convolution_is_gated_normed_and_swished() -> None:
    encoder = tiny("conformer").encoder
    assert isinstance(encoder, ConformerEncoder)
    module = encoder.blocks[0].convolution
    x = torch.randn(1, 6, 8, dtype=torch.float64)
    values, gates = module.gate(x.transpose(1, 2)).chunk(2, dim=1)
    y = module.depthwise(values * gates.sigmoid())
    spread = (module.norm.running_var + module.norm.eps).sqrt()
    scale, offset = (
        module.norm.weight / spread,
        module.norm.bias - module.norm.running_mean * module.norm.weight / spread,
    )
    y = y * scale[:, None] + offset[:, None]
    expected = module.project(y * y.sigmoid()).transpose(1, 2)
    torch.testing.assert_close(module(x, torch.zeros(1, 6, dtype=torch.bool)), expected)


def test_the_lstm_encoder_is_its_layers_one_after_another() -> None:
    encoder = tiny("lstm").encoder
    assert isinstance(encoder, BlstmEncoder)
    first, second, third = encoder.layers
    x = inputs = features([31])[0][None]
    x = first.project(first.lstm(x)[0][:, ::2]).tanh()
    x = second.project(second.lstm(x)[0][:, ::2]).tanh()
    x = third.project(third.lstm(x)[0])
    torch.testing.assert_close(encoder(inputs, torch.tensor([31]))[0], x)


def whole_text(decoder: TransformerDecoder, encodings: torch.Tensor, text: list[int]) -> torch.Tensor:
    """What follows a text, by attention over all of it at once, without any cache."""
    width, heads = decoder.shape.width, decoder.shape.heads
    x = decoder.embedding(torch.tensor(text)) * math.sqrt(width) + sinusoids(torch.arange(len(text)), width)

    def attend(layer: torch.nn.Module, queries: torch.Tensor, keys: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        query, key, value = layer.query(queries), layer.key(keys), layer.value(keys)
        outs = []
        for q, k, v in zip(*(tensor.chunk(heads, dim=-1) for tensor in (query, key, value)), strict=True):
            outs.append((q @ k.T / math.sqrt(width // heads) + mask).softmax(-1) @ v)
        return layer.out(torch.cat(outs, dim=-1))

    future = torch.full((len(text), len(text)), -math.inf).triu(1)
    for block in decoder.blocks:
        own = block.text_norm(x)
        x = x + attend(block.text, own, own, future)
        x = x + attend(block.audio, block.audio_norm(x), encodings, torch.zeros(1))
        x = x + block.narrow(block.widen(block.feed_forward_norm(x)).relu())
    return decoder.output(decoder.norm(x)).log_softmax(-1)[-1]


@settings(deadline=None, max_examples=8)
@given(st.data())
def test_the_transformer_decoder_scores_as_if_it_read_each_whole_text(data: st.DataObject) -> None:
    decoder = tiny("conformer").decoder
    assert isinstance(decoder, TransformerDecoder)
    beam, lengths = 3, [6, 4]
    encodings = torch.randn(2, 6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    state = decoder.start(encodings, torch.tensor(lengths), beam)
    texts = [[[6] for _ in range(beam)] for _ in lengths]
    rows = [0, 1]
    for step in range(20):  # more than there is room for at first
        scores = decoder(torch.tensor([[text[-1] for text in beam_texts] for beam_texts in texts]), state)
        if step % 6 == 5:
            for row, utterance in enumerate(rows):
                for slot, text in enumerate(texts[row]):
                    expected = whole_text(decoder, encodings[utterance, : lengths[utterance]], text)
                    torch.testing.assert_close(scores[row, slot], expected)
        if step == 11:  # one utterance is done
            gone = data.draw(st.integers(0, 1))
            rows, texts = [rows[1 - gone]], [texts[1 - gone]]
            state.keep(torch.tensor([1 - gone]))
        places = st.lists(st.integers(0, beam - 1), min_size=beam, max_size=beam)
        parents = [data.draw(places) for _ in rows]
        tokens = [data.draw(places) for _ in rows]
        texts = [
            [[*beam_texts[parent], token] for parent, token in zip(parents[row], tokens[row], strict=True)]
            for row, beam_texts in enumerate(texts)
        ]
        state.reorder(torch.tensor(parents))


def test_location_attention_is_the_published_sum() -> None:
    decoder = tiny("lstm").decoder
    assert isinstance(decoder, LocationDecoder)
    encodings = torch.randn(1, 5, 6, dtype=torch.float64)
    state = decoder.start(encodings, torch.tensor([5]), 1)
    decoder(torch.tensor([[5]]), state)
    before, hidden, attention = state.weights[0, 0].clone(), state.hidden[0, 0], decoder.attention
    half = attention.location.kernel_size[1] // 2
    filters = attention.location.weight[:, 0, 0]
    scores = []
    for time in range(5):
        seen = torch.stack(
            [before[t] if 0 <= t < 5 else before.new_zeros(()) for t in range(time - half, time + half + 1)]
        )
        mixed = attention.frame(encodings[0, time]) + attention.state(hidden) + attention.filter(filters @ seen)
        scores.append(attention.score(mixed.tanh())[0])
    weights = (2 * torch.stack(scores)).softmax(0)
    seen, actual = attention(state)
    torch.testing.assert_close(actual[0, 0], weights)
    torch.testing.assert_close(seen[0, 0], weights @ encodings[0])


def test_attention_begins_everywhere_alike_and_never_in_the_padding() -> None:
    decoder = tiny("lstm").decoder
    assert isinstance(decoder, LocationDecoder)
    state = decoder.start(torch.randn(2, 4, 6, dtype=torch.float64), torch.tensor([4, 2]), 1)
    assert state.weights[:, 0].tolist() == [[0.25] * 4, [0.5, 0.5, 0, 0]]
    for token in (5, 1, 2):
        decoder(torch.tensor([[token], [token]]), state)
        assert state.weights[1, 0, 2:].tolist() == [0, 0]
        assert state.weights.sum(-1).flatten().tolist() == pytest.approx([1, 1])
