"""CTC: log-probabilities of labels, the probability of every beginning of a text, and search by CTC alone.

The usual recursion for the probability of a prefix goes frame by frame. `CtcPrefixScorer` does it for all frames,
hypotheses and utterances at once: a sum of products of falling length is a cumulative sum divided by a cumulative
product, and the scores of all next tokens are one matrix product. Only the hypotheses that a search keeps advance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

BLANK = 0
# The lowest log-probability of a label in a frame: below it, double precision has no probability left.
FLOOR = -700.0
# A text's number is its parent's number times this (Knuth's multiplier for 64 bits), plus its last token.
MULTIPLIER = 6_364_136_223_846_793_005
NO_TOKEN = -1


def frame_log_probs(logits: Tensor, lengths: Tensor) -> Tensor:
    """Return the log-probabilities of the labels in each frame, in double precision: `(utterances, time, tokens)`.

    Padding is blank with certainty, which changes the probability of no text. The last token, which begins and ends
    texts for the attention decoder, is not a label: the others share its probability, so that they still sum to 1.
    """
    scores = torch.full(logits.shape, FLOOR, dtype=torch.float64, device=logits.device)
    scores[..., :-1] = logits[..., :-1].double().log_softmax(-1).clamp_(min=FLOOR)
    padding = torch.arange(logits.shape[1], device=logits.device) >= lengths[:, None]
    scores.masked_fill_(padding[:, :, None], FLOOR)
    scores[..., BLANK].masked_fill_(padding, 0.0)
    return scores


class CtcPrefixScorer:
    """The hypotheses of some utterances, `beam` for each, all of them empty at first.

    Times run from 0, before the first frame, to the number of frames.
    """

    def __init__(self, log_probs: Tensor, lengths: Tensor, beam: int) -> None:
        utterances, time, _ = log_probs.shape
        self._padding = (torch.arange(time, device=log_probs.device) >= lengths[:, None])[:, None]
        self._labels = log_probs.exp().transpose(1, 2).contiguous()  # (utterances, tokens, time)
        self._blank = log_probs[:, None, :, BLANK].contiguous()  # (utterances, 1, time)
        # The probability of the frames up to a time in which the text is complete, and whose last frame is the text's
        # last label, or a blank.
        self._on_label = log_probs.new_full((utterances, beam, time + 1), -math.inf)
        blanks = torch.nn.functional.pad(self._blank.cumsum(-1), (1, 0))
        self._on_blank = blanks.repeat(1, beam, 1)
        self._last = torch.zeros(utterances, beam, dtype=torch.long, device=log_probs.device)

    def scores(self) -> Tensor:
        """Return the log-probability that the text begins with a hypothesis and a token: `(utterances, beam, tokens)`.

        The last token stands for the end: the probability that the hypothesis is the whole text.
        """
        before = torch.logaddexp(self._on_label, self._on_blank)
        arrive = self._in_frames(before)
        largest = arrive.amax(-1, keepdim=True).clamp(min=torch.finfo(before.dtype).min)
        scores = ((arrive - largest).exp() @ self._labels.transpose(1, 2)).log() + largest
        # A repeated label needs a blank in between, or the two would be one.
        repeated = torch.logsumexp(
            self._in_frames(self._on_blank) + self._labels_of(self._last).log(), dim=-1, keepdim=True
        )
        scores.scatter_(-1, self._last[..., None], repeated)
        scores[..., BLANK] = -math.inf
        scores[..., -1] = before[..., -1]
        return scores

    def advance(self, parents: Tensor, tokens: Tensor) -> None:
        """Replace each hypothesis by a parent of its utterance and one more token: `(utterances, beam)` each."""
        rows = parents[:, :, None]
        on_label, on_blank = (tensor.take_along_dim(rows, dim=1) for tensor in (self._on_label, self._on_blank))
        repeated = (tokens == self._last.take_along_dim(parents, dim=1))[..., None]
        arrive = torch.where(repeated, on_blank, torch.logaddexp(on_label, on_blank))
        self._on_label = _recursion(self._in_frames(arrive), self._labels_of(tokens).log())
        self._on_blank = _recursion(self._on_label[..., :-1], self._blank)
        self._last = tokens

    def keep(self, utterances: Tensor) -> None:
        """Drop all other utterances."""
        for name, tensor in vars(self).items():
            setattr(self, name, tensor[utterances])

    def _in_frames(self, before: Tensor) -> Tensor:
        """Return the values before each frame; in the padding no label begins, not even at the floor's probability."""
        return before[..., :-1].masked_fill(self._padding, -math.inf)

    def _labels_of(self, tokens: Tensor) -> Tensor:
        """Return the probabilities of tokens in all frames: `(utterances, beam)` to `(utterances, beam, time)`."""
        return self._labels.take_along_dim(tokens[:, :, None], dim=1)


def _recursion(arrive: Tensor, stay: Tensor) -> Tensor:
    """Return the state y with y(t + 1) = (y(t) + arrive(t)) · stay(t) and y(0) = 0, all in logarithms.

    y(t + 1) is the sum over s ≤ t of arrive(s) times the product of stay from s to t. Double precision is enough for
    the difference of two cumulative logarithms: a thousand frames at the floor leave ten digits.
    """
    product = stay.cumsum(-1)
    state = product + torch.logcumsumexp(arrive - (product - stay), dim=-1)
    return torch.nn.functional.pad(state, (1, 0), value=-math.inf)


def greedy_labels(logits: Tensor, lengths: Tensor) -> list[list[int]]:
    """Return the best label of each frame, without repetitions and blanks; the last token is not a label."""
    best = logits[..., :-1].argmax(-1)
    best.masked_fill_(torch.arange(logits.shape[1], device=logits.device) >= lengths[:, None], BLANK)
    new = torch.ones_like(best, dtype=torch.bool)
    new[:, 1:] = best[:, 1:] != best[:, :-1]
    return [row[kept].tolist() for row, kept in zip(best.cpu(), (new & (best != BLANK)).cpu(), strict=True)]


def prefix_search(log_probs: Tensor, beam: int) -> list[tuple[list[int], float]]:
    """Return the likeliest text of each utterance and its log-probability, as far as the beam covers it.

    `log_probs` is `(utterances, time, tokens)`, from `frame_log_probs`. Texts that are reached on several paths are
    one, with the sum of their probabilities.
    """
    # More of a frame's tokens could not enter the beam: one that leads to a text already there counts as that text,
    # which ranks no lower, and only a text's own last token, which needs a blank before it, may rank below its place.
    labels = log_probs[..., 1:-1]
    tops, tokens = labels.topk(min(beam + 1, labels.shape[-1]), dim=-1)
    texts = _Texts.empty(log_probs, beam)
    steps = []
    for frame in range(log_probs.shape[1]):
        texts, step = _advance(texts, log_probs[:, frame], tops[:, frame], tokens[:, frame] + 1)
        steps.append(step)
    scores, best = texts.total.max(dim=-1)
    return list(zip(_trace_back(torch.stack(steps).cpu(), best.cpu()), scores.tolist(), strict=True))


@dataclass(frozen=True)
class _Texts:
    """A beam of texts for each utterance, `(utterances, beam)` each; probabilities as logarithms."""

    on_blank: Tensor
    on_label: Tensor
    last: Tensor
    number: Tensor
    parent: Tensor  # the number of the text without its last token

    @staticmethod
    def empty(log_probs: Tensor, beam: int) -> _Texts:
        """Return one empty text, and free places of no probability."""
        impossible = log_probs.new_full((len(log_probs), beam), -math.inf)
        zeros = torch.zeros_like(impossible, dtype=torch.long)
        return _Texts(impossible.index_fill(1, zeros[0, :1], 0.0), impossible, zeros, zeros, zeros - 1)

    @property
    def total(self) -> Tensor:
        """The probability of each text."""
        return torch.logaddexp(self.on_blank, self.on_label)


def _advance(texts: _Texts, frame: Tensor, tops: Tensor, tokens: Tensor) -> tuple[_Texts, Tensor]:
    """Return the texts after one more frame, and for each the text it came from and the token it grew by."""
    total, last = texts.total, texts.last
    label = frame.gather(1, last)
    # Which text of the beam (second) is which other one without its last token (first).
    parent = (texts.parent[:, :, None] == texts.number[:, None]) & total.isfinite()[:, :, None]
    repeated = last[:, :, None] == last[:, None]
    arrive = torch.where(repeated, texts.on_blank[:, None], total[:, None]).masked_fill(~parent, -math.inf).amax(-1)
    on_label = label + torch.logaddexp(texts.on_label, arrive)
    on_blank = total + frame[:, BLANK, None]
    # (utterances, beam, tokens)
    grown = torch.where(tokens[:, None] == last[:, :, None], texts.on_blank[:, :, None], total[:, :, None])
    in_beam = (parent[..., None] & (last[:, :, None] == tokens[:, None])[:, :, None]).any(dim=1)
    grown = (grown + tops[:, None]).masked_fill(in_beam, -math.inf)
    return _select(texts, on_blank, on_label, grown, tokens)


def _select(texts: _Texts, on_blank: Tensor, on_label: Tensor, grown: Tensor, tokens: Tensor) -> tuple[_Texts, Tensor]:
    """Return the best of the texts that stayed as they are and those that grew."""
    beam, width = on_blank.shape[1], tokens.shape[1]
    scores, index = torch.cat([torch.logaddexp(on_blank, on_label), grown.flatten(1)], dim=1).topk(beam)
    stays = index < beam
    source = torch.where(stays, index, (index - beam) // width)
    token = tokens.gather(1, ((index - beam) % width))
    number = texts.number.gather(1, source)
    after = _Texts(
        on_blank=torch.where(stays, on_blank.gather(1, source), -math.inf),
        on_label=torch.where(stays, on_label.gather(1, source), scores),
        last=torch.where(stays, texts.last.gather(1, source), token),
        number=torch.where(stays, number, number * MULTIPLIER + token),
        parent=torch.where(stays, texts.parent.gather(1, source), number),
    )
    return after, torch.stack([source, token.masked_fill(stays, NO_TOKEN)], dim=-1)


def _trace_back(steps: Tensor, best: Tensor) -> list[list[int]]:
    """Return the tokens of one text of each utterance: `(time, utterances, beam, 2)`, and its place at the end."""
    texts: list[list[int]] = [[] for _ in best]
    rows = torch.arange(len(best))
    for step in steps.flip(0):
        source, tokens = step[rows, best].unbind(-1)
        for text, token in zip(texts, tokens.tolist(), strict=True):
            if token != NO_TOKEN:
                text.append(token)
        best = source
    return [text[::-1] for text in texts]
