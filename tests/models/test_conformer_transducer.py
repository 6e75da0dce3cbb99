"""The Conformer transducer: every part has its count of parameters, and padding changes nothing."""

import pytest
import torch

from stopwav.models.scaled import BasicNorm, ConformerTransducer, EncoderShape, ScaledLinear, TransducerShape

TINY = TransducerShape(
    EncoderShape(bands=16, width=16, heads=2, feed_forward=24, kernel=3, layers=2, channels=(2, 2, 4), dropout=0.0),
    symbols=11,
)


@pytest.fixture(scope="module")
def reference() -> ConformerTransducer:
    with torch.device("meta"):
        return ConformerTransducer()


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_whole_and_its_parts(reference: ConformerTransducer) -> None:
    assert count(reference) == 78_648_040
    assert count(reference.encoder) == 77_096_192
    assert count(reference.encoder.embed) == 1_285_112
    assert [count(layer) for layer in reference.encoder.layers] == 12 * [6_317_590]
    assert count(reference.predictor) == 257_026
    assert count(reference.joiner) == 781_818
    assert count(reference.simple_encoder_proj) == count(reference.simple_predictor_proj) == 256_502


def test_the_parts_of_a_layer(reference: ConformerTransducer) -> None:
    layer = reference.encoder.layers[0]
    assert count(layer.feed_forward) == count(layer.feed_forward_macaron) == 2_099_716
    assert count(layer.self_attn) == 1_313_799
    assert count(layer.conv) == 804_358
    assert count(layer.norm) == 1


@torch.no_grad()
def test_an_utterance_is_encoded_alike_alone_and_in_a_batch() -> None:
    torch.manual_seed(0)
    model = ConformerTransducer(TINY).eval()
    features, tokens = torch.randn(2, 40, 16), torch.randint(1, 11, (2, 4))
    features[1, 27:] = 0.0
    together = model(features, torch.tensor([40, 27]), tokens)
    assert together.lengths.tolist() == [9, 6]
    assert together.encodings.shape == (2, 9, 16)
    assert together.predictions.shape == (2, 5, 16)
    alone = model(features[1:, :27], torch.tensor([27]), tokens[1:])
    torch.testing.assert_close(together.encodings[1, :6], alone.encodings[0], rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_the_predictor_sees_two_tokens_back_and_nothing_ahead() -> None:
    model = ConformerTransducer(TINY).eval()
    tokens = torch.tensor([[3, 4, 5, 6, 7]])
    before = model.predictor(tokens)
    tokens[0, 2] = 9
    changed = (model.predictor(tokens) != before).any(dim=2)[0]
    assert changed.tolist() == [False, False, False, True, True, False]


def test_scales_are_logarithmic_and_learned() -> None:
    layer = ScaledLinear(3, 2)
    x = torch.randn(4, 3)
    before = layer(x)
    with torch.no_grad():
        layer.weight_scale.fill_(1.0)
        layer.bias_scale.fill_(1.0)
    torch.testing.assert_close(layer(x), before * torch.e)
    layer(x).sum().backward()
    assert layer.weight_scale.grad is not None
    assert not list(BasicNorm(learned=False).parameters())


def test_the_joiner_adds_projections() -> None:
    model = ConformerTransducer(TINY)
    logits = model.joiner(torch.zeros(2, 3, 1, 16), torch.zeros(2, 3, 5, 16))
    torch.testing.assert_close(logits, model.joiner.output.scaled_bias().expand(2, 3, 5, 11))
