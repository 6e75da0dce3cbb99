"""The blank's bias is found where the rate falls with it, and the nearest step is taken where none fits."""

import math

import pytest
import torch

from stopwav.models.calibration import calibrate_blank, set_blank_bias
from stopwav.models.emformer import EmformerShape
from stopwav.models.transducer import Transducer


@pytest.fixture
def tiny() -> Transducer:
    shape = EmformerShape(bands=8, reduced=8, heads=2, feed_forward=16, layers=1, encoding=8)
    return Transducer(shape, symbols=5).requires_grad_(False)


def bias(model: Transducer) -> float:
    return model.joiner.linear.bias[model.blank].item()


def test_only_the_blank_is_biased(tiny: Transducer) -> None:
    before = tiny.joiner.linear.bias.clone()
    set_blank_bias(tiny, 7.5)
    assert bias(tiny) == 7.5
    assert torch.equal(tiny.joiner.linear.bias[:-1], before[:-1])


def test_a_rate_that_falls_with_the_bias_is_met(tiny: Transducer) -> None:
    rate = calibrate_blank(tiny, lambda: 50 * math.exp(-bias(tiny)))
    assert rate == pytest.approx(50 * math.exp(-bias(tiny)))
    assert 3 <= rate <= 4


def test_a_staircase_without_a_fitting_step_gives_the_nearest(tiny: Transducer) -> None:
    rate = calibrate_blank(tiny, lambda: 100.0 if bias(tiny) < 1.3 else 2.0)
    assert rate == 2.0
    assert bias(tiny) >= 1.3
