"""One-pass beam search by attention and CTC together, all hypotheses of all utterances of a step in one batch.

At CTC weight 0 it is attention search, at 1 it is CTC's, label by label.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from stopwav.models.ctc_prefix import BLANK
from stopwav.models.joint_score import JointScore


@dataclass(frozen=True)
class Limits:
    """How long the text of one utterance may be: it does not end before `fewest` tokens, and does with `most`."""

    fewest: int
    most: int


@dataclass(frozen=True)
class Text:
    """A text and its score."""

    tokens: list[int]
    score: float


def joint_search(score: JointScore, limits: Sequence[Limits], beam: int, end: int, device: torch.device) -> list[Text]:
    """The best text of each utterance; `end` is the token that begins and ends texts.

    In each step the best `beam` of all hypotheses with one more token go on, and those of them that ended leave. An
    utterance is done when none of its hypotheses has a better score than its best ended one: scores only fall, so that
    nothing can overtake it. One whose every text is impossible has the empty text.
    """
    search = _Search(score, limits, beam, end, device)
    while search.rows:
        search.advance()
    return search.best


class _Search:
    """The utterances that are not done: `rows` says which of all of them each is."""

    def __init__(self, score: JointScore, limits: Sequence[Limits], beam: int, end: int, device: torch.device) -> None:
        self.best = [Text([], -math.inf) for _ in limits]
        self.rows = list(range(len(limits)))
        self._score = score
        self._end = end
        self._fewest = torch.tensor([one.fewest for one in limits], device=device)
        self._most = torch.tensor([one.most for one in limits], device=device)
        self._texts = torch.full((len(limits), beam, 1), end, device=device)
        # There is one empty text, and not `beam` of them.
        self._dead = (torch.arange(beam, device=device) > 0).expand(len(limits), beam)

    def advance(self) -> None:
        """One more token for every hypothesis."""
        scores = self._allowed(self._score.scores(self._texts[:, :, -1]))
        scores, index = scores.flatten(1).topk(self._texts.shape[1])
        parents, tokens = index // (self._end + 1), index % (self._end + 1)
        growing = scores.masked_fill(tokens == self._end, -math.inf)
        remaining = self._harvest(scores, growing, parents, tokens)
        if len(remaining) < len(self.rows):
            keep = torch.tensor(remaining, dtype=torch.long, device=index.device)
            parents, tokens, growing = parents[keep], tokens[keep], growing[keep]
            self._keep(remaining, keep)
        if self.rows:
            texts = self._texts.take_along_dim(parents[:, :, None], dim=1)
            self._texts = torch.cat([texts, tokens[:, :, None]], dim=2)
            self._dead = growing.isneginf()
            self._score.advance(parents, tokens)

    def _allowed(self, scores: Tensor) -> Tensor:
        """The scores, -inf for what may not come next."""
        length = self._texts.shape[2] - 1
        scores[..., BLANK] = -math.inf
        scores[..., self._end].masked_fill_((self._fewest > length)[:, None], -math.inf)
        scores[..., : self._end].masked_fill_((self._most <= length)[:, None, None], -math.inf)
        return scores.masked_fill_(self._dead[:, :, None], -math.inf)

    def _harvest(self, scores: Tensor, growing: Tensor, parents: Tensor, tokens: Tensor) -> list[int]:
        """The utterances that go on, after the texts that ended were compared with the best so far."""
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
            self._fewest, self._most, self._texts = self._fewest[keep], self._most[keep], self._texts[keep]
            self._score.keep(keep)
