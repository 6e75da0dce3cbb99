"""The pruned transducer loss and its two earlier stages: the simple loss, and the choice of the cells to keep.

The joiner of the simple loss is a sum, so the scores of all cells cost one matrix product. Its posteriors show where
the paths go; the full joiner and the pruned loss are computed only there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from stopwav.errors import StopwavError
from stopwav.losses.lattice import transducer_lattice_loss
from stopwav.losses.lengths import Reduction, checked_lengths, checked_targets


@dataclass(frozen=True)
class SimpleLoss:
    """-log p of every utterance, `(N,)`, and the probabilities, without gradient, that a path takes each arc.

    The posteriors of blanks are `(N, T, U + 1)`, those of labels `(N, T, U)`.
    """

    losses: Tensor
    blank_posteriors: Tensor
    label_posteriors: Tensor


def simple_loss(
    encodings: Tensor,
    predictions: Tensor,
    targets: Tensor,
    frame_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    predictor_scale: float = 0.25,
    encoder_scale: float = 0.0,
) -> SimpleLoss:
    """The loss of the sums of encoder scores `(N, T, V)` and predictor scores `(N, U + 1, V)`, normalised over symbols.

    Smoothing mixes in the scores of the predictor alone and of the encoder alone, so that each learns to be a model of
    its own; `predictor_scale` and `encoder_scale` are their weights, and the sum has the rest of 1.
    """
    blank_scores, label_scores = _smoothed_scores(
        encodings, predictions, targets, frame_lengths, target_lengths, blank, predictor_scale, encoder_scale
    )
    with torch.enable_grad():
        # The posteriors are minus the gradient, which the lattice loss has computed already: no second pass is needed.
        blanks, labels = _with_gradient(blank_scores), _with_gradient(label_scores)
        losses = transducer_lattice_loss(blanks, labels, frame_lengths, target_lengths, reduction="none")
        blank_grad, label_grad = torch.autograd.grad(losses.sum(), (blanks, labels), retain_graph=True)
    return SimpleLoss(losses if blank_scores.requires_grad else losses.detach(), -blank_grad, -label_grad)


@torch.no_grad()
def prune_starts(
    blank_posteriors: Tensor,
    label_posteriors: Tensor,
    frame_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    width: int,
) -> Tensor:
    """The first of the `width` label positions to keep in each frame, `(N, T)`, by the posteriors of `simple_loss`.

    A frame keeps the range that a path most probably stays in: the path leaves the frame by a blank in the range, less
    the probability that a label of the same frame entered it from below. The ranges are then moved until they begin
    with the first position, end with the last, never go back, and overlap from frame to frame, so that a path fits.
    """
    batch, frames, positions = blank_posteriors.shape
    if width < 2 and positions > 1:
        raise StopwavError(f"no path fits in a range of {width} position; give at least 2")
    width = min(width, positions)
    device = blank_posteriors.device
    lengths = checked_lengths(frame_lengths, target_lengths, batch, frames, positions - 1, device)
    leaves = blank_posteriors.unfold(2, width, 1).sum(dim=3)
    enters = functional.pad(label_posteriors, (1, 0))[..., : positions - width + 1]
    frame = torch.arange(frames, device=device)
    last_start = (lengths.labels + 1 - width).clamp(min=0)[:, None]
    starts = torch.where(frame < lengths.frames[:, None] - 1, (leaves - enters).argmax(dim=2), last_start)
    starts = _never_falling(starts)
    # A range may move by at most one less than its width, or consecutive ranges would not overlap. The same ramp keeps
    # the first frame at the first position.
    ramp = frame * (width - 1)
    return ramp - _never_falling(ramp - starts).clamp(min=0)


def kept_positions(starts: Tensor, width: int) -> Tensor:
    """The label positions that are kept, `(N, T, width)`."""
    return starts[..., None] + torch.arange(width, device=starts.device)


def kept_predictions(predictions: Tensor, positions: Tensor) -> Tensor:
    """The predictions at the kept positions, `(N, T, width, D)`, from those at all positions, `(N, U + 1, D)`."""
    batch = torch.arange(len(predictions), device=predictions.device)
    return predictions[batch[:, None, None], positions]


def pruned_loss(
    logits: Tensor,
    positions: Tensor,
    targets: Tensor,
    frame_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: Reduction = "mean",
) -> Tensor:
    """-log p of every utterance over the paths through the kept cells only, or their sum or mean.

    `logits` is `(N, T, width, V)`; `positions`, from `kept_positions`, is `(N, T, width)`. An utterance without a path
    has an infinite loss and a gradient of zero.
    """
    if logits.dim() != 4 or positions.shape != logits.shape[:3]:
        shapes = f"{tuple(logits.shape)} and {tuple(positions.shape)}"
        raise StopwavError(f"logits and positions of shapes {shapes}; give (N, T, width, V) and (N, T, width)")
    batch, frames, _, symbols = logits.shape
    count = targets.shape[1]
    lengths = checked_lengths(frame_lengths, target_lengths, batch, frames, count, logits.device)
    labels = checked_targets(targets, lengths, symbols, blank, logits.device)
    sum_dtype = torch.promote_types(logits.dtype, torch.float32)
    normaliser = logits.to(sum_dtype).logsumexp(dim=3)
    blank_scores = logits[..., blank].to(sum_dtype) - normaliser
    # No label follows the last one: the padding that stands for it is cut off below.
    following = functional.pad(labels, (0, 1))[:, None].expand(-1, frames, -1).gather(2, positions)
    label_scores = logits.gather(3, following[..., None])[..., 0].to(sum_dtype) - normaliser
    impossible = blank_scores.new_full((batch, frames, count + 1), -torch.inf)
    return transducer_lattice_loss(
        impossible.scatter(2, positions, blank_scores),
        impossible.scatter(2, positions, label_scores)[..., :-1],
        frame_lengths,
        target_lengths,
        reduction=reduction,
    )


def _smoothed_scores(
    encodings: Tensor,
    predictions: Tensor,
    targets: Tensor,
    frame_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int,
    predictor_scale: float,
    encoder_scale: float,
) -> tuple[Tensor, Tensor]:
    """The log-probabilities of blanks, `(N, T, U + 1)`, and of the next labels, `(N, T, U)`."""
    _check(encodings, predictions, targets, predictor_scale, encoder_scale)
    batch, frames, symbols = encodings.shape
    lengths = checked_lengths(frame_lengths, target_lengths, batch, frames, predictions.shape[1] - 1, encodings.device)
    labels = checked_targets(targets, lengths, symbols, blank, encodings.device)
    # Exponentials in half precision would overflow at 11.
    sum_dtype = torch.promote_types(encodings.dtype, torch.float32)
    encodings, predictions = encodings.to(sum_dtype), predictions.to(sum_dtype)
    by_encoder = encodings[:, :, blank, None], encodings.gather(2, labels[:, None].expand(-1, frames, -1))
    by_predictor = predictions[:, None, :, blank], predictions[:, :-1].gather(2, labels[..., None])[:, None, :, 0]
    normaliser = _normaliser(encodings, predictions)
    sum_scale = 1 - predictor_scale - encoder_scale
    blanks = sum_scale * (by_encoder[0] + by_predictor[0] - normaliser)
    following = sum_scale * (by_encoder[1] + by_predictor[1] - normaliser[..., :-1])
    if predictor_scale:
        alone = predictions.logsumexp(dim=2)[:, None]
        blanks = blanks + predictor_scale * (by_predictor[0] - alone)
        following = following + predictor_scale * (by_predictor[1] - alone[..., :-1])
    if encoder_scale:
        unigram = _unigram(predictions, lengths.labels)
        alone = (encodings + unigram).logsumexp(dim=2, keepdim=True)
        blanks = blanks + encoder_scale * (by_encoder[0] + unigram[blank] - alone)
        following = following + encoder_scale * (by_encoder[1] + unigram[labels][:, None] - alone)
    return blanks, following


def _with_gradient(scores: Tensor) -> Tensor:
    return scores if scores.requires_grad else scores.detach().requires_grad_()


def _normaliser(encodings: Tensor, predictions: Tensor) -> Tensor:
    """log Σ exp(encoding + prediction) over the symbols of every cell, as a product of two matrices of exponentials."""
    # The maxima may be any constants: they cancel out, in the gradient too.
    maxima = [scores.detach().amax(dim=2, keepdim=True) for scores in (encodings, predictions)]
    products = (encodings - maxima[0]).exp() @ (predictions - maxima[1]).exp().transpose(1, 2)
    tiny = torch.finfo(products.dtype).tiny
    return (products + tiny).log() + maxima[0] + maxima[1].transpose(1, 2)


def _unigram(predictions: Tensor, label_lengths: Tensor) -> Tensor:
    """The logarithm of the predictor's mean distribution over all positions of the batch, padding excluded."""
    position = torch.arange(predictions.shape[1], device=predictions.device)
    real = (position <= label_lengths[:, None]).to(predictions.dtype)
    mean = (predictions.softmax(dim=2) * real[..., None]).sum(dim=(0, 1)) / real.sum()
    return (mean + torch.finfo(mean.dtype).tiny).log()


def _never_falling(values: Tensor) -> Tensor:
    """The largest values, none above the given ones, that never fall from frame to frame."""
    return values.flip(1).cummin(dim=1).values.flip(1)


def _check(
    encodings: Tensor, predictions: Tensor, targets: Tensor, predictor_scale: float, encoder_scale: float
) -> None:
    matching = encodings.dim() == predictions.dim() == 3 and encodings.shape[::2] == predictions.shape[::2]
    if not matching or targets.shape != (len(encodings), predictions.shape[1] - 1):
        shapes = f"{tuple(encodings.shape)}, {tuple(predictions.shape)} and {tuple(targets.shape)}"
        raise StopwavError(
            f"encodings, predictions and targets of shapes {shapes}; give (N, T, V), (N, U + 1, V), (N, U)"
        )
    if min(predictor_scale, encoder_scale) < 0 or predictor_scale + encoder_scale > 1:
        raise StopwavError(f"scales {predictor_scale} and {encoder_scale}; give two from 0 with a sum of at most 1")
