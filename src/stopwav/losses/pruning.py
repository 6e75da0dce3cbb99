"""Where in the lattice the paths go: for each frame, which few places the full joiner is worth computing at."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from stopwav.errors import StopwavError
from stopwav.losses.lengths import checked_lengths


@torch.no_grad()
def prune_starts(
    blank_posteriors: Tensor,
    label_posteriors: Tensor,
    frame_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    width: int,
) -> Tensor:
    """The first of the `width` places that are kept in each frame, `(N, T)`; posteriors as `simple_loss` gives them.

    A frame keeps the range that a path most probably stays in: it leaves the frame by a blank in the range, less where
    a label of the same frame brought it in from below. The ranges are then moved until they begin with the first place,
    end with the last, never go back, and overlap from frame to frame, so that a path can go through.
    """
    batch, frames, places = blank_posteriors.shape
    if width < 2 and places > 1:
        raise StopwavError(f"a range of {width} place lets no path through; give 2 at least")
    width = min(width, places)
    device = blank_posteriors.device
    lengths = checked_lengths(frame_lengths, target_lengths, batch, frames, places - 1, device)
    leaves = blank_posteriors.unfold(2, width, 1).sum(dim=3)
    enters = functional.pad(label_posteriors, (1, 0))[..., : places - width + 1]
    frame = torch.arange(frames, device=device)
    at_end = (lengths.labels + 1 - width).clamp(min=0)[:, None]
    starts = torch.where(frame < lengths.frames[:, None] - 1, (leaves - enters).argmax(dim=2), at_end)
    starts = _never_falling(starts)
    # A range may move by one place less than it is wide, or no cell would be in both. The same ramp keeps the first
    # frame at the first place.
    ramp = frame * (width - 1)
    return ramp - _never_falling(ramp - starts).clamp(min=0)


def pruned_places(starts: Tensor, width: int) -> Tensor:
    """The places that are kept, `(N, T, width)`."""
    return starts[..., None] + torch.arange(width, device=starts.device)


def pruned_predictions(predictions: Tensor, places: Tensor) -> Tensor:
    """The predictions at the places of each frame, `(N, T, width, D)`, from those of all places, `(N, U + 1, D)`."""
    batch = torch.arange(len(predictions), device=predictions.device)
    return predictions[batch[:, None, None], places]


def _never_falling(values: Tensor) -> Tensor:
    """The largest values below the given ones that never fall from frame to frame."""
    return values.flip(1).cummin(dim=1).values.flip(1)
