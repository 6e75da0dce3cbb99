"""Texts by CTC alone: the best label of each frame, or a beam of texts that grows frame by frame."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from stopwav.models.ctc_prefix import BLANK

# A text is known by a number: its parent's times this (Knuth's multiplier for 64 bits) and its last token.
MULTIPLIER = 6_364_136_223_846_793_005
STAYED = -1


def greedy_labels(logits: Tensor, lengths: Tensor) -> list[list[int]]:
    """The best label of each frame, repetitions once, blanks left out; the last token is no label."""
    best = logits[..., :-1].argmax(-1)
    best.masked_fill_(torch.arange(logits.shape[1], device=logits.device) >= lengths[:, None], BLANK)
    new = torch.ones_like(best, dtype=torch.bool)
    new[:, 1:] = best[:, 1:] != best[:, :-1]
    return [row[kept].tolist() for row, kept in zip(best.cpu(), (new & (best != BLANK)).cpu(), strict=True)]


def prefix_search(log_probs: Tensor, beam: int) -> list[tuple[list[int], float]]:
    """The likeliest text of each utterance and its log-probability, as far as the beam saw it.

    `log_probs` is `(utterances, time, tokens)` as `frame_log_probs` gives it. Texts that are reached on several paths
    are one, with the sum of their probabilities.
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
    found = _followed_back(torch.stack(steps).cpu(), best.cpu())
    return list(zip(found, scores.tolist(), strict=True))


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
        """One empty text, and free places of no probability."""
        nothing = log_probs.new_full((len(log_probs), beam), -math.inf)
        zeros = torch.zeros_like(nothing, dtype=torch.long)
        return _Texts(nothing.index_fill(1, zeros[0, :1], 0.0), nothing, zeros, zeros, zeros - 1)

    @property
    def total(self) -> Tensor:
        """The probability of each text."""
        return torch.logaddexp(self.on_blank, self.on_label)


def _advance(texts: _Texts, frame: Tensor, tops: Tensor, tokens: Tensor) -> tuple[_Texts, Tensor]:
    """The texts after one more frame, and for each which text it came from and the token it grew by."""
    total, last = texts.total, texts.last
    label = frame.gather(1, last)
    # Which text of the beam (second) is which other one without its last token (first).
    parent = (texts.parent[:, :, None] == texts.number[:, None]) & total.isfinite()[:, :, None]
    again = last[:, :, None] == last[:, None]
    arrive = torch.where(again, texts.on_blank[:, None], total[:, None]).masked_fill(~parent, -math.inf).amax(-1)
    on_label = label + torch.logaddexp(texts.on_label, arrive)
    on_blank = total + frame[:, BLANK, None]
    # (utterances, beam, tokens)
    grown = torch.where(tokens[:, None] == last[:, :, None], texts.on_blank[:, :, None], total[:, :, None])
    known = (parent[..., None] & (last[:, :, None] == tokens[:, None])[:, :, None]).any(dim=1)
    grown = (grown + tops[:, None]).masked_fill(known, -math.inf)
    return _selected(texts, on_blank, on_label, grown, tokens)


def _selected(
    texts: _Texts, on_blank: Tensor, on_label: Tensor, grown: Tensor, tokens: Tensor
) -> tuple[_Texts, Tensor]:
    """The best of those that stayed as they are and those that grew."""
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
    return after, torch.stack([source, token.masked_fill(stays, STAYED)], dim=-1)


def _followed_back(steps: Tensor, best: Tensor) -> list[list[int]]:
    """The tokens of one text of each utterance: `(time, utterances, beam, 2)`, and its place at the end."""
    found: list[list[int]] = [[] for _ in best]
    rows = torch.arange(len(best))
    for step in steps.flip(0):
        source, token = step[rows, best].unbind(-1)
        for text, one in zip(found, token.tolist(), strict=True):
            if one != STAYED:
                text.append(one)
        best = source
    return [text[::-1] for text in found]
