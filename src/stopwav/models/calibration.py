"""A blank bias for weights that were never trained, so that they emit symbols as often as speech has them.

An untrained transducer emits up to the limit in every frame or nothing at all, and neither says anything about the time
that decoding takes.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from stopwav.models.transducer import Transducer

# Word pieces per second in read speech are 3 to 4 (LibriSpeech with 4,096 pieces: about 3.3).
WANTED_PER_S = 3.5
TOLERANCE_PER_S = 0.3
# The rate is a staircase in the bias and may have no step inside the tolerance: then the nearest is taken.
MAX_STEPS = 16
# A decoding that emits more than this is not worth finishing.
FAR_TOO_MANY_PER_S = 4 * WANTED_PER_S
# Wide enough for logits of any freshly initialised joiner, which are within a few units of 0.
WIDEST = 32.0


def calibrate_blank(transducer: Transducer, symbols_per_s: Callable[[], float]) -> float:
    """The rate of symbols after the blank's bias was set by bisection; `symbols_per_s` decodes some speech."""
    low, high = -WIDEST, WIDEST
    found: list[tuple[float, float, float]] = []
    for _ in range(MAX_STEPS):
        bias = (low + high) / 2
        set_blank_bias(transducer, bias)
        rate = symbols_per_s()
        found.append((abs(rate - WANTED_PER_S), rate, bias))
        if found[-1][0] <= TOLERANCE_PER_S:
            break
        low, high = (bias, high) if rate > WANTED_PER_S else (low, bias)
    _, rate, bias = min(found)
    set_blank_bias(transducer, bias)
    return rate


@torch.no_grad()
def set_blank_bias(transducer: Transducer, bias: float) -> None:
    """Make the blank likelier or less likely in every frame."""
    transducer.joiner.linear.bias[transducer.blank] = bias
