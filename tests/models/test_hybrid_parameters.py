"""The two reference families have the published parameters, part by part."""

import pytest
import torch
from torch import nn

from stopwav.models.conformer import ConformerShape
from stopwav.models.hybrid import Hybrid
from stopwav.models.lstm import LstmShape


def count(model: nn.Module, part: str) -> int:
    return sum(parameter.numel() for parameter in model.get_submodule(part).parameters())


@pytest.fixture(scope="module")
def conformer() -> Hybrid:
    with torch.device("meta"):
        return Hybrid(ConformerShape())


@pytest.fixture(scope="module")
def lstm() -> Hybrid:
    with torch.device("meta"):
        return Hybrid(LstmShape())


@pytest.mark.parametrize(
    ("part", "parameters"),
    [
        ("", 116_146_960),
        ("encoder", 83_231_744),
        ("encoder.front", 7_346_176),
        ("encoder.front.first", 512 * 9 + 512),
        ("encoder.front.second", 512 * 512 * 9 + 512),
        ("encoder.front.project", 512 * 19 * 512 + 512),
        *((f"encoder.blocks.{number}", 6_323_712) for number in range(12)),
        ("encoder.blocks.0.attention", 5 * 512 * 512 + 4 * 512 + 2 * 512),
        ("encoder.blocks.0.first_half", 2 * 512 * 2048 + 2048 + 512),
        ("encoder.blocks.0.second_half", 2 * 512 * 2048 + 2048 + 512),
        ("encoder.blocks.0.convolution", 512 * 1024 + 1024 + 512 * 31 + 512 + 2 * 512 + 512 * 512 + 512),
        ("encoder.norm", 2 * 512),
        ("ctc", 2_565_000),
        ("decoder", 30_350_216),
        ("decoder.embedding", 5000 * 512),
        *((f"decoder.blocks.{number}", 4_204_032) for number in range(6)),
        ("decoder.norm", 2 * 512),
        ("decoder.output", 512 * 5000 + 5000),
    ],
)
def test_the_conformer_has_the_published_parameters(conformer: Hybrid, part: str, parameters: int) -> None:
    assert count(conformer, part) == parameters


@pytest.mark.parametrize(
    ("part", "parameters"),
    [
        ("", 8_248_145),
        ("encoder", 6_780_160),
        ("encoder.layers.0.lstm", 2 * 4 * 320 * (80 + 320 + 2)),
        *((f"encoder.layers.{number}.lstm", 2 * 4 * 320 * (320 + 320 + 2)) for number in (1, 2, 3)),
        *((f"encoder.layers.{number}.project", 640 * 320 + 320) for number in range(4)),
        ("ctc", 8_667),
        ("decoder", 1_459_318),
        ("decoder.embedding", 27 * 320),
        ("decoder.lstm", 4 * 320 * (640 + 320 + 2)),
        ("decoder.attention", 320 * 320 + 320 + 320 * 320 + 10 * 201 + 10 * 320 + 320 + 1),
        ("decoder.output", 320 * 27 + 27),
    ],
)
def test_the_lstm_has_the_published_parameters(lstm: Hybrid, part: str, parameters: int) -> None:
    assert count(lstm, part) == parameters


def test_there_are_no_other_parts(conformer: Hybrid, lstm: Hybrid) -> None:
    for model in (conformer, lstm):
        assert {name for name, _ in model.named_children()} == {"encoder", "ctc", "decoder"}
    assert {name for name, _ in conformer.encoder.named_children()} == {"front", "blocks", "norm"}
    assert {name for name, _ in lstm.encoder.named_children()} == {"layers"}


def test_nothing_is_tied(conformer: Hybrid, lstm: Hybrid) -> None:
    for model in (conformer, lstm):
        named = list(model.named_parameters(remove_duplicate=False))
        assert len({id(parameter) for _, parameter in named}) == len(named)
