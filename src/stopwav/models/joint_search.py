"""One-pass beam search by attention and CTC together, all hypotheses of all utterances of a step in one batch.

The score of a text is `(1 - ctc_weight)` times the attention decoder's log-probability plus `ctc_weight` times that of
CTC, which scores every token that may follow and not a selection of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from stopwav.models.ctc import BLANK, CtcPrefixScorer


class DecoderState(Protocol):
    """The state of an attention decoder for the hypotheses of some utterances."""

    def reorder(self, parents: Tensor) -> None:
        """Replace each hypothesis by a parent of its utterance: `(utterances, beam)`."""
        ...

    def keep(self, utterances: Tensor) -> None:
        """Drop all other utterances."""
        ...


class AttentionScorer:
    """The hypotheses of some utterances, `beam` for each, scored by an attention decoder."""

    def __init__(self, decoder: torch.nn.Module, encodings: Tensor, lengths: Tensor, beam: int) -> None:
        self._decoder = decoder
        self._state: DecoderState = decoder.start(encodings, lengths, beam)  # type: ignore[operator]
        self._sums = torch.zeros(len(encodings), beam, dtype=torch.float64, device=encodings.device)
        self._scores = self._sums

    def scores(self, newest: Tensor) -> Tensor:
        """Return the log-probability of each hypothesis and a token: `(utterances, beam)` to `(…, tokens)`."""
        self._scores = self._sums[..., None] + self._decoder(newest, self._state).double()
        return self._scores

    def advance(self, parents: Tensor, tokens: Tensor) -> None:
        """Replace each hypothesis by a parent of its utterance and one more token: `(utterances, beam)` each."""
        index = parents * self._scores.shape[2] + tokens
        self._sums = self._scores.flatten(1).gather(1, index)
        self._state.reorder(parents)

    def keep(self, utterances: Tensor) -> None:
        """Drop all other utterances."""
        self._sums, self._scores = self._sums[utterances], self._scores[utterances]
        self._state.keep(utterances)


class JointScorer:
    """The weighted sum of both; `ctc` is `None` at weight 0, where an infinite score times 0 would be NaN."""

    def __init__(self, attention: AttentionScorer, ctc: CtcPrefixScorer | None, ctc_weight: float) -> None:
        self._attention = attention
        self._ctc = ctc
        self._ctc_weight = ctc_weight

    def scores(self, newest: Tensor) -> Tensor:
        """Return the score of each hypothesis and a token: `(utterances, beam)` to `(…, tokens)`."""
        attention = (1 - self._ctc_weight) * self._attention.scores(newest)
        return attention if self._ctc is None else attention.add_(self._ctc.scores(), alpha=self._ctc_weight)

    def advance(self, parents: Tensor, tokens: Tensor) -> None:
        """Replace each hypothesis by a parent of its utterance and one more token: `(utterances, beam)` each."""
        self._attention.advance(parents, tokens)
        if self._ctc is not None:
            self._ctc.advance(parents, tokens)

    def keep(self, utterances: Tensor) -> None:
        """Drop all other utterances."""
        self._attention.keep(utterances)
        if self._ctc is not None:
            self._ctc.keep(utterances)


@dataclass(frozen=True)
class LengthLimits:
    """The length of the text of one utterance: it cannot end before `min_tokens`, and must end at `max_tokens`."""

    min_tokens: int
    max_tokens: int


@dataclass(frozen=True)
class Text:
    """A text and its score."""

    tokens: list[int]
    score: float


def joint_search(
    scorer: JointScorer, limits: Sequence[LengthLimits], beam: int, end: int, device: torch.device
) -> list[Text]:
    """Return the best text of each utterance; `end` is the token that begins and ends texts.

    In each step the best `beam` of all hypotheses with one more token are kept, and those that ended leave. An
    utterance is done when none of its hypotheses has a better score than its best ended one: scores only fall, so
    nothing can overtake it. If every text is impossible, the result is the empty text.
    """
    search = _Search(scorer, limits, beam, end, device)
    while search.rows:
        search.advance()
    return search.best


class _Search:
    """The utterances that are not done; `rows` holds the number of each."""

    def __init__(
        self, scorer: JointScorer, limits: Sequence[LengthLimits], beam: int, end: int, device: torch.device
    ) -> None:
        self.best = [Text([], -math.inf) for _ in limits]
        self.rows = list(range(len(limits)))
        self._scorer = scorer
        self._end = end
        self._min_tokens = torch.tensor([limit.min_tokens for limit in limits], device=device)
        self._max_tokens = torch.tensor([limit.max_tokens for limit in limits], device=device)
        self._texts = torch.full((len(limits), beam, 1), end, device=device)
        # There is one empty text, not `beam` of them.
        self._dead = (torch.arange(beam, device=device) > 0).expand(len(limits), beam)

    def advance(self) -> None:
        """Extend every hypothesis by one token."""
        scores = self._mask(self._scorer.scores(self._texts[:, :, -1]))
        scores, index = scores.flatten(1).topk(self._texts.shape[1])
        parents, tokens = index // (self._end + 1), index % (self._end + 1)
        growing = scores.masked_fill(tokens == self._end, -math.inf)
        remaining = self._collect_ended(scores, growing, parents, tokens)
        if len(remaining) < len(self.rows):
            keep = torch.tensor(remaining, dtype=torch.long, device=index.device)
            parents, tokens, growing = parents[keep], tokens[keep], growing[keep]
            self._keep(remaining, keep)
        if self.rows:
            texts = self._texts.take_along_dim(parents[:, :, None], dim=1)
            self._texts = torch.cat([texts, tokens[:, :, None]], dim=2)
            self._dead = growing.isneginf()
            self._scorer.advance(parents, tokens)

    def _mask(self, scores: Tensor) -> Tensor:
        """Set the scores of tokens that must not come next to -inf."""
        length = self._texts.shape[2] - 1
        scores[..., BLANK] = -math.inf
        scores[..., self._end].masked_fill_((self._min_tokens > length)[:, None], -math.inf)
        scores[..., : self._end].masked_fill_((self._max_tokens <= length)[:, None, None], -math.inf)
        return scores.masked_fill_(self._dead[:, :, None], -math.inf)

    def _collect_ended(self, scores: Tensor, growing: Tensor, parents: Tensor, tokens: Tensor) -> list[int]:
        """Update the best texts by those that ended, and return the rows of the utterances that are not done."""
        ended, place = scores.masked_fill(tokens != self._end, -math.inf).max(dim=-1)
        parent = parents.gather(1, place[:, None])[:, 0]
        # One transfer, since each waits for the device.
        summary = torch.stack([ended, parent.double(), growing.amax(dim=-1)], dim=-1).tolist()
        remaining = []
        for row, (score, hypothesis, highest) in enumerate(summary):
            utterance = self.rows[row]
            if score > self.best[utterance].score:
                self.best[utterance] = Text(self._texts[row, int(hypothesis), 1:].tolist(), score)
            if highest > self.best[utterance].score:
                remaining.append(row)
        return remaining

    def _keep(self, remaining: list[int], keep: Tensor) -> None:
        self.rows = [self.rows[row] for row in remaining]
        if remaining:
            self._min_tokens, self._max_tokens = self._min_tokens[keep], self._max_tokens[keep]
            self._texts = self._texts[keep]
            self._scorer.keep(keep)
