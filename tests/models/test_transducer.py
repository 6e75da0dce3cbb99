"""The published sizes, to the parameter, every tensor by name and shape, and the calibration of the blank."""

import math

import pytest
import torch

from stopwav.models.emformer import EmformerShape
from stopwav.models.transducer import Predictor, Transducer, calibrate_blank


@pytest.fixture(scope="module")
def base() -> Transducer:
    with torch.device("meta"):
        return Transducer()


def parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_base_model_has_the_published_parameters(base: Transducer) -> None:
    assert parameters(base) == 76_738_049
    assert parameters(base.transcriber) == 63_605_760
    assert parameters(base.predictor) == 8_932_864
    assert parameters(base.joiner) == 4_199_425


def test_a_layer_adds_up_on_paper(base: Transducer) -> None:
    width, inner = 512, 2048
    attention = (width * width + width) * 4  # query, key, value, output
    feed_forward = width * inner + inner + inner * width + width
    norms = 3 * 2 * width
    assert parameters(base.transcriber.transformer.layers[0]) == attention + feed_forward + norms


def expected_shapes() -> dict[str, tuple[int, ...]]:
    """Every tensor of torchaudio's `emformer_rnnt_base(4097)`."""
    shapes: dict[str, tuple[int, ...]] = {"transcriber.input_linear.weight": (128, 80)}

    def linear(name: str, out: int, into: int) -> None:
        shapes[f"{name}.weight"] = (out, into)
        shapes[f"{name}.bias"] = (out,)

    def norm(name: str, width: int) -> None:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (width,)

    for index in range(20):
        layer = f"transcriber.transformer.emformer_layers.{index}"
        linear(f"{layer}.attention.emb_to_key_value", 1024, 512)
        linear(f"{layer}.attention.emb_to_query", 512, 512)
        linear(f"{layer}.attention.out_proj", 512, 512)
        norm(f"{layer}.pos_ff.0", 512)
        linear(f"{layer}.pos_ff.1", 2048, 512)
        linear(f"{layer}.pos_ff.4", 512, 2048)
        norm(f"{layer}.layer_norm_input", 512)
        norm(f"{layer}.layer_norm_output", 512)
    linear("transcriber.output_linear", 1024, 512)
    norm("transcriber.layer_norm", 1024)
    shapes["predictor.embedding.weight"] = (4097, 512)
    norm("predictor.input_layer_norm", 512)
    for index in range(3):
        shapes[f"predictor.lstm_layers.{index}.x2g.weight"] = (2048, 512)
        shapes[f"predictor.lstm_layers.{index}.p2g.weight"] = (2048, 512)
        norm(f"predictor.lstm_layers.{index}.c_norm", 512)
        norm(f"predictor.lstm_layers.{index}.g_norm", 2048)
    linear("predictor.linear", 1024, 512)
    norm("predictor.output_layer_norm", 1024)
    linear("joiner.linear", 4097, 1024)
    return shapes


def test_the_352_tensors_have_the_published_names_and_shapes(base: Transducer) -> None:
    actual = {name: tuple(tensor.shape) for name, tensor in base.state_dict().items()}
    assert len(actual) == 352
    assert actual == expected_shapes()


def test_blank_is_the_last_symbol() -> None:
    with torch.device("meta"):
        tiny = Transducer(EmformerShape(layers=1), symbols=7)
    assert (tiny.symbols, tiny.blank) == (7, 6)


def test_the_predictor_depends_on_the_order_of_the_text() -> None:
    torch.manual_seed(0)
    predictor = Predictor(11, 24, width=16).eval().requires_grad_(False)

    def after(*text: int) -> torch.Tensor:
        states = predictor.initial_state()[None]
        for symbol in text:
            actual, states = predictor(torch.tensor([symbol]), states)
        return actual

    assert not torch.allclose(after(1, 2, 3), after(2, 1, 3), atol=1e-3)


@pytest.fixture
def tiny() -> Transducer:
    shape = EmformerShape(bands=8, reduced=8, heads=2, feed_forward=16, layers=1, encoding=8)
    return Transducer(shape, symbols=5).requires_grad_(False)


def bias(model: Transducer) -> float:
    return model.joiner.linear.bias[model.blank].item()


def test_the_blank_alone_is_biased_until_the_rate_is_that_of_speech(tiny: Transducer) -> None:
    before = tiny.joiner.linear.bias.clone()
    rate = calibrate_blank(tiny, lambda: 50 * math.exp(-bias(tiny)))
    assert torch.equal(tiny.joiner.linear.bias[:-1], before[:-1])
    assert rate == pytest.approx(50 * math.exp(-bias(tiny)))
    assert 3 <= rate <= 4


def test_the_nearest_step_is_used_where_none_is_within_the_tolerance(tiny: Transducer) -> None:
    rate = calibrate_blank(tiny, lambda: 100.0 if bias(tiny) < 1.3 else 2.0)
    assert rate == 2.0
    assert bias(tiny) >= 1.3
