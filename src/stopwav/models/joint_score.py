"""What a joint search scores by: the attention decoder and CTC, each with its weight.

A text's score is `(1 - ctc_weight)` times the attention decoder's log-probability plus `ctc_weight` times that of CTC,
which scores every token that may follow and not a choice of them. What has no weight is not computed.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from stopwav.models.ctc_prefix import CtcPrefixes


class DecoderState(Protocol):
    """What an attention decoder remembers of the hypotheses of some utterances."""

    def reorder(self, parents: Tensor) -> None:
        """Let every hypothesis go on from another one of its utterance: `(utterances, beam)`."""
        ...

    def keep(self, utterances: Tensor) -> None:
        """Forget all but some utterances."""
        ...


class AttentionTexts:
    """The hypotheses of some utterances, `beam` for each, as an attention decoder sees them."""

    def __init__(self, decoder: torch.nn.Module, encodings: Tensor, lengths: Tensor, beam: int) -> None:
        self._decoder = decoder
        self._state: DecoderState = decoder.start(encodings, lengths, beam)  # type: ignore[operator]
        self._sums = torch.zeros(len(encodings), beam, dtype=torch.float64, device=encodings.device)
        self._scores = self._sums

    def scores(self, newest: Tensor) -> Tensor:
        """Log-probabilities of each hypothesis and then a token: `(utterances, beam)` to `(…, tokens)`."""
        self._scores = self._sums[..., None] + self._decoder(newest, self._state).double()
        return self._scores

    def advance(self, parents: Tensor, tokens: Tensor) -> None:
        """Let every hypothesis be another one of its utterance and one more token: `(utterances, beam)` each."""
        index = parents * self._scores.shape[2] + tokens
        self._sums = self._scores.flatten(1).gather(1, index)
        self._state.reorder(parents)

    def keep(self, utterances: Tensor) -> None:
        """Forget all but some utterances."""
        self._sums, self._scores = self._sums[utterances], self._scores[utterances]
        self._state.keep(utterances)


class JointScore:
    """Both, weighted; a part without weight may be absent."""

    def __init__(self, attention: AttentionTexts | None, ctc: CtcPrefixes | None, ctc_weight: float) -> None:
        # An infinite score times 0 would be no number.
        self._attention = attention if ctc_weight < 1 else None
        self._ctc = ctc if ctc_weight > 0 else None
        self._ctc_weight = ctc_weight

    def scores(self, newest: Tensor) -> Tensor:
        """The scores of each hypothesis and then a token: `(utterances, beam)` to `(…, tokens)`."""
        weight = self._ctc_weight
        if self._attention is None:
            assert self._ctc is not None
            return self._ctc.scores()
        attention = (1 - weight) * self._attention.scores(newest)
        return attention if self._ctc is None else attention.add_(self._ctc.scores(), alpha=weight)

    def advance(self, parents: Tensor, tokens: Tensor) -> None:
        """Let every hypothesis be another one of its utterance and one more token: `(utterances, beam)` each."""
        for part in (self._attention, self._ctc):
            if part is not None:
                part.advance(parents, tokens)

    def keep(self, utterances: Tensor) -> None:
        """Forget all but some utterances."""
        for part in (self._attention, self._ctc):
            if part is not None:
                part.keep(utterances)
