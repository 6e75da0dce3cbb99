"""The probability that a text begins so, by CTC: over all ways to lay its tokens, and blanks, along the frames.

The usual recursion goes frame by frame. Here it is done for all frames, hypotheses and utterances at once: a sum of
products of falling length is a cumulated sum once it is divided by the cumulated product, and the scores of all tokens
that may follow are one matrix product. Only the hypotheses that a search keeps have their own recursion advanced.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

BLANK = 0
# The lowest log-probability of a label in a frame: below it, double precision has no probability left.
FLOOR = -700.0


def frame_log_probs(logits: Tensor, lengths: Tensor) -> Tensor:
    """The log-probabilities of the labels in each frame, in double precision: `(utterances, time, tokens)`.

    Padding is blank for certain, which changes the probability of no text. The last token, which begins and ends texts
    for the attention decoder, is no label: the others share its probability, so that they still sum up to 1.
    """
    scores = torch.full(logits.shape, FLOOR, dtype=torch.float64, device=logits.device)
    scores[..., :-1] = logits[..., :-1].double().log_softmax(-1).clamp_(min=FLOOR)
    padding = torch.arange(logits.shape[1], device=logits.device) >= lengths[:, None]
    scores.masked_fill_(padding[:, :, None], FLOOR)
    scores[..., BLANK].masked_fill_(padding, 0.0)
    return scores


class CtcPrefixes:
    """The hypotheses of some utterances, `beam` for each, all of them empty at first.

    Times are counted from 0, before the first frame, to the number of frames.
    """

    def __init__(self, log_probs: Tensor, lengths: Tensor, beam: int) -> None:
        utterances, time, _ = log_probs.shape
        self._padding = (torch.arange(time, device=log_probs.device) >= lengths[:, None])[:, None]
        self._labels = log_probs.exp().transpose(1, 2).contiguous()  # (utterances, tokens, time)
        self._blank = log_probs[:, None, :, BLANK].contiguous()  # (utterances, 1, time)
        # The probability of the frames up to a time, where the text is complete and the last of them is its last label,
        # or a blank.
        self._on_label = log_probs.new_full((utterances, beam, time + 1), -math.inf)
        blanks = torch.nn.functional.pad(self._blank.cumsum(-1), (1, 0))
        self._on_blank = blanks.repeat(1, beam, 1)
        self._last = torch.zeros(utterances, beam, dtype=torch.long, device=log_probs.device)

    def scores(self) -> Tensor:
        """Log-probabilities that the text begins with a hypothesis and then a token: `(utterances, beam, tokens)`.

        The last token stands for the end: the probability that the hypothesis is the whole text.
        """
        before = torch.logaddexp(self._on_label, self._on_blank)
        arrive = self._in_frames(before)
        largest = arrive.amax(-1, keepdim=True).clamp(min=torch.finfo(before.dtype).min)
        scores = ((arrive - largest).exp() @ self._labels.transpose(1, 2)).log() + largest
        # A label that is said twice needs a blank between, or it would be one.
        again = torch.logsumexp(
            self._in_frames(self._on_blank) + self._labels_of(self._last).log(), dim=-1, keepdim=True
        )
        scores.scatter_(-1, self._last[..., None], again)
        scores[..., BLANK] = -math.inf
        scores[..., -1] = before[..., -1]
        return scores

    def advance(self, parents: Tensor, tokens: Tensor) -> None:
        """Let every hypothesis be another one of its utterance and one more token: `(utterances, beam)` each."""
        rows = parents[:, :, None]
        on_label, on_blank = (tensor.take_along_dim(rows, dim=1) for tensor in (self._on_label, self._on_blank))
        again = (tokens == self._last.take_along_dim(parents, dim=1))[..., None]
        arrive = torch.where(again, on_blank, torch.logaddexp(on_label, on_blank))
        self._on_label = _carried(self._in_frames(arrive), self._labels_of(tokens).log())
        self._on_blank = _carried(self._on_label[..., :-1], self._blank)
        self._last = tokens

    def keep(self, utterances: Tensor) -> None:
        """Forget all but some utterances."""
        for name, tensor in vars(self).items():
            setattr(self, name, tensor[utterances])

    def _in_frames(self, before: Tensor) -> Tensor:
        """What holds before each frame; no new label begins in the padding, not even with the floor's probability."""
        return before[..., :-1].masked_fill(self._padding, -math.inf)

    def _labels_of(self, tokens: Tensor) -> Tensor:
        """The probabilities of some tokens in all frames: `(utterances, beam)` to `(utterances, beam, time)`."""
        return self._labels.take_along_dim(tokens[:, :, None], dim=1)


def _carried(arrive: Tensor, stay: Tensor) -> Tensor:
    """The state y with y(t + 1) = (y(t) + arrive(t)) · stay(t) and y(0) = 0, all in logarithms: one more time.

    y(t + 1) is the sum over s ≤ t of arrive(s) times the product of stay from s to t. Double precision keeps the
    difference of two cumulated logarithms: a thousand frames at the floor leave ten digits.
    """
    product = stay.cumsum(-1)
    carried = product + torch.logcumsumexp(arrive - (product - stay), dim=-1)
    return torch.nn.functional.pad(carried, (1, 0), value=-math.inf)
