"""Hybrid networks small enough to be looked at, in double precision, and features for them."""

import torch
from torch import Tensor

from stopwav.models.conformer import ConformerShape
from stopwav.models.hybrid import Hybrid
from stopwav.models.lstm import LstmShape

BANDS = 12
CONFORMER = ConformerShape(
    bands=BANDS, width=8, heads=2, feed_forward=16, kernel=5, blocks=2, decoder_blocks=2, tokens=7
)
LSTM = LstmShape(bands=BANDS, width=6, steps=(2, 2, 1), filters=2, filter_frames=7, tokens=6)
SHAPES = {"conformer": CONFORMER, "lstm": LSTM}


def tiny(family: str, seed: int = 0) -> Hybrid:
    """A network whose every tensor is drawn, those that begin as 0 or 1 too."""
    torch.manual_seed(seed)
    model = Hybrid(SHAPES[family]).double().eval().requires_grad_(False)
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point():
            # Wide enough for every token to depend on the text before it and on the audio; a variance is positive.
            drawn = torch.randn_like(tensor)
            tensor.copy_(drawn.abs() + 0.5 if name.endswith("running_var") else drawn)
    return model


def features(lengths: list[int], seed: int = 0) -> list[Tensor]:
    """Noise."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(length, BANDS, dtype=torch.float64, generator=generator) for length in lengths]
