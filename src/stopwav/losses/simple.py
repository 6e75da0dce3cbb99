"""The simple transducer loss: its joiner is a sum, so the scores of all cells cost one matrix product.

The score of a symbol is that of the encoder plus that of the predictor, normalised over symbols. Smoothing mixes in the
score of the predictor alone and of the encoder alone, so that each learns to be a model of its own. Where its paths
go tells where the full joiner is worth its cost: see `pruning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from stopwav.errors import StopwavError
from stopwav.losses.lattice import transducer_lattice_loss
from stopwav.losses.lengths import checked_lengths, checked_targets


@dataclass(frozen=True)
class SimpleLoss:
    """-log p of every utterance, `(N,)`, and as constants how probably a path takes each cell's blank and label.

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
    """The simple loss of scores `(N, T, V)` and `(N, U + 1, V)`.

    `predictor_scale` and `encoder_scale` are the weights of the scores of each side alone; the rest of 1 is that of
    both together.
    """
    blank_scores, label_scores = smoothed_scores(
        encodings, predictions, targets, frame_lengths, target_lengths, blank, predictor_scale, encoder_scale
    )
    with torch.enable_grad():
        # The posteriors are minus the gradient, which the lattice has at hand: no second pass over it is needed.
        blanks, labels = _with_gradient(blank_scores), _with_gradient(label_scores)
        losses = transducer_lattice_loss(blanks, labels, frame_lengths, target_lengths, reduction="none")
        by_blank, by_label = torch.autograd.grad(losses.sum(), (blanks, labels), retain_graph=True)
    return SimpleLoss(losses if blank_scores.requires_grad else losses.detach(), -by_blank, -by_label)


def smoothed_scores(
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
    # Exponentials of half precision would overflow at 11.
    wide = torch.promote_types(encodings.dtype, torch.float32)
    encodings, predictions = encodings.to(wide), predictions.to(wide)
    by_encoder = encodings[:, :, blank, None], _wanted(encodings, labels)
    by_predictor = predictions[:, None, :, blank], predictions[:, :-1].gather(2, labels[..., None])[:, None, :, 0]
    normaliser = _normaliser(encodings, predictions)
    together = 1 - predictor_scale - encoder_scale
    scores = [
        together * (by_encoder[0] + by_predictor[0] - normaliser),
        together * (by_encoder[1] + by_predictor[1] - normaliser[..., :-1]),
    ]
    if predictor_scale:
        alone = predictions.logsumexp(dim=2)[:, None]
        scores[0] = scores[0] + predictor_scale * (by_predictor[0] - alone)
        scores[1] = scores[1] + predictor_scale * (by_predictor[1] - alone[..., :-1])
    if encoder_scale:
        unigram = _unigram(predictions, lengths.labels)
        alone = (encodings + unigram).logsumexp(dim=2, keepdim=True)
        scores[0] = scores[0] + encoder_scale * (by_encoder[0] + unigram[blank] - alone)
        scores[1] = scores[1] + encoder_scale * (by_encoder[1] + unigram[labels][:, None] - alone)
    return scores[0], scores[1]


def _with_gradient(scores: Tensor) -> Tensor:
    return scores if scores.requires_grad else scores.detach().requires_grad_()


def _normaliser(encodings: Tensor, predictions: Tensor) -> Tensor:
    """log Σ exp(encoding + prediction) over symbols of every cell, as the product of two matrices of exponentials."""
    # The largest of each side may be any constant: it cancels, gradient included.
    tops = [one.detach().amax(dim=2, keepdim=True) for one in (encodings, predictions)]
    products = (encodings - tops[0]).exp() @ (predictions - tops[1]).exp().transpose(1, 2)
    tiny = torch.finfo(products.dtype).tiny
    return (products + tiny).log() + tops[0] + tops[1].transpose(1, 2)


def _unigram(predictions: Tensor, label_lengths: Tensor) -> Tensor:
    """The logarithm of the mean over all places of the batch, without its padding, of the predictor's distribution."""
    place = torch.arange(predictions.shape[1], device=predictions.device)
    real = (place <= label_lengths[:, None]).to(predictions.dtype)
    mean = (predictions.softmax(dim=2) * real[..., None]).sum(dim=(0, 1)) / real.sum()
    return (mean + torch.finfo(mean.dtype).tiny).log()


def _wanted(encodings: Tensor, labels: Tensor) -> Tensor:
    """The encoder's score of each label in each frame, `(N, T, U)`."""
    return encodings.gather(2, labels[:, None].expand(-1, encodings.shape[1], -1))


def _check(
    encodings: Tensor, predictions: Tensor, targets: Tensor, predictor_scale: float, encoder_scale: float
) -> None:
    sides = encodings.dim() == predictions.dim() == 3 and encodings.shape[::2] == predictions.shape[::2]
    if not sides or targets.shape != (len(encodings), predictions.shape[1] - 1):
        shapes = f"{tuple(encodings.shape)}, {tuple(predictions.shape)} and {tuple(targets.shape)}"
        raise StopwavError(
            f"encodings, predictions and targets of shapes {shapes}; give (N, T, V), (N, U + 1, V), (N, U)"
        )
    if min(predictor_scale, encoder_scale) < 0 or predictor_scale + encoder_scale > 1:
        raise StopwavError(f"scales {predictor_scale} and {encoder_scale}; give two from 0 whose sum is 1 at the most")
