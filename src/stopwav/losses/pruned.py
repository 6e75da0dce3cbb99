"""The pruned transducer loss: exact on the cells that were kept, and no path goes through any other."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from stopwav.errors import StopwavError
from stopwav.losses.lattice import transducer_lattice_loss
from stopwav.losses.lengths import Reduction, checked_lengths, checked_targets


def pruned_loss(
    logits: Tensor,
    places: Tensor,
    targets: Tensor,
    frame_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: Reduction = "mean",
) -> Tensor:
    """-log p of every utterance over the paths through the kept cells, or their sum or mean.

    `logits` is `(N, T, width, V)`, `places` says which place each stands for, `(N, T, width)`, as `pruned_places` gives
    them. An utterance of which no path is left has an infinite loss and a gradient of zero.
    """
    if logits.dim() != 4 or places.shape != logits.shape[:3]:
        shapes = f"{tuple(logits.shape)} and {tuple(places.shape)}"
        raise StopwavError(f"logits and places of shapes {shapes}; give (N, T, width, V) and (N, T, width)")
    batch, frames, _, symbols = logits.shape
    count = targets.shape[1]
    lengths = checked_lengths(frame_lengths, target_lengths, batch, frames, count, logits.device)
    labels = checked_targets(targets, lengths, symbols, blank, logits.device)
    wide = torch.promote_types(logits.dtype, torch.float32)
    normaliser = logits.to(wide).logsumexp(dim=3)
    blank_scores = logits[..., blank].to(wide) - normaliser
    # After the last label comes none: whatever stands in for it lies outside of the lattice and is cut off.
    following = torch.nn.functional.pad(labels, (0, 1))[:, None].expand(-1, frames, -1).gather(2, places)
    label_scores = logits.gather(3, following[..., None])[..., 0].to(wide) - normaliser
    nowhere = blank_scores.new_full((batch, frames, count + 1), -torch.inf)
    return transducer_lattice_loss(
        nowhere.scatter(2, places, blank_scores),
        nowhere.scatter(2, places, label_scores)[..., :-1],
        frame_lengths,
        target_lengths,
        reduction=reduction,
    )
