"""Search over a transducer's scores, one stream at a time, frame by frame, with the state carried between calls."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from stopwav.models.prefixes import Prefix
from stopwav.models.scorer import Scorer

# More symbols than this in one frame of 40 ms are no speech; the published decoder's limit.
MAX_SYMBOLS_PER_FRAME = 100


@dataclass(frozen=True)
class Candidate:
    """A text and its log-probability."""

    symbols: list[int]
    score: float

    @property
    def rank(self) -> float:
        """What candidates are ordered by: the score per symbol, where the root's blank and an end count as symbols."""
        return self.score / (len(self.symbols) + 2)


class BeamSearch:
    """The likeliest texts of one stream.

    In each frame texts grow by symbols until none of them is likelier than the worst of the `beam` best texts that
    ended the frame with a blank; texts that are reached on several paths are one, with the sum of their probabilities.
    """

    def __init__(self, scorer: Scorer, root: int, beam: int, max_symbols: int = MAX_SYMBOLS_PER_FRAME) -> None:
        self._scorer = scorer
        self._beam = beam
        self._max_symbols = max_symbols
        self._texts = [Prefix(None, root)]
        self._scores = np.zeros(1, np.float32)
        self._held: set[Prefix] = set()

    def advance(self, encodings: Tensor) -> None:
        """Go on by some frames."""
        self._scorer.hear(encodings)
        seen = set(self._texts)
        for frame in range(len(encodings)):
            self._advance(frame, seen)
        self._release(seen)

    def candidates(self) -> list[Candidate]:
        """The texts so far, best first."""
        return [Candidate(text.symbols(), float(score)) for text, score in zip(self._texts, self._scores, strict=True)]

    def best(self) -> list[int]:
        """The likeliest text so far."""
        return self._texts[0].symbols()

    def close(self) -> None:
        """Give back what the stream holds."""
        self._scorer.slots.give_back(self._held)
        self._held = set()

    def _advance(self, frame: int, seen: set[Prefix]) -> None:
        active, scores = self._texts, self._scores
        ended: dict[Prefix, np.float32] = {}
        for emitted in range(self._max_symbols + 1):
            following = self._scorer.following(frame, active)
            seen.update(active)
            for text, score in zip(active, scores + following.blank, strict=True):
                ended[text] = np.logaddexp(ended[text], score) if text in ended else score
            if emitted == self._max_symbols:
                break
            total = scores[:, None] + following.scores
            active, scores = self._grow(active, total, following.symbols, self._floor(ended))
            if not active:
                break
        self._keep_best(ended)

    def _floor(self, ended: dict[Prefix, np.float32]) -> float:
        """What a growing text must beat: the worst of the best that ended, once there are enough of them."""
        if len(ended) < self._beam:
            return -np.inf
        return float(heapq.nlargest(self._beam, ended.values())[-1])

    def _grow(
        self, active: list[Prefix], total: np.ndarray, symbols: np.ndarray, floor: float
    ) -> tuple[list[Prefix], np.ndarray]:
        order = np.argsort(-total, axis=None, kind="stable")[: self._beam]
        order = order[total.ravel()[order] > floor]
        rows = order // total.shape[1]
        grown = [active[row].child(int(symbol)) for row, symbol in zip(rows, symbols.ravel()[order], strict=True)]
        return grown, total.ravel()[order]

    def _keep_best(self, ended: dict[Prefix, np.float32]) -> None:
        ranked = heapq.nlargest(self._beam, ended.items(), key=lambda item: item[1] / (item[0].length + 2))
        self._texts = [text for text, _ in ranked]
        self._scores = np.array([score for _, score in ranked], np.float32)

    def _release(self, seen: set[Prefix]) -> None:
        """Forget the predictions of texts that were not looked at in these frames; one that stayed was looked at."""
        self._scorer.slots.give_back(self._held - seen)
        self._held = seen


class GreedySearch:
    """The text of one stream that takes the likeliest symbol at every step."""

    def __init__(self, scorer: Scorer, root: int, max_symbols: int = MAX_SYMBOLS_PER_FRAME) -> None:
        self._scorer = scorer
        self._max_symbols = max_symbols
        self._text = Prefix(None, root)

    def advance(self, encodings: Tensor) -> None:
        """Go on by some frames."""
        self._scorer.hear(encodings)
        for frame in range(len(encodings)):
            for _ in range(self._max_symbols):
                following = self._scorer.following(frame, [self._text])
                self._forget(self._text.parent)
                if following.blank[0] >= following.scores[0, 0]:
                    break
                self._text = self._text.child(int(following.symbols[0, 0]))

    def best(self) -> list[int]:
        """The text so far."""
        return self._text.symbols()

    def close(self) -> None:
        """Give back what the stream holds."""
        self._forget(self._text)
        self._forget(self._text.parent)

    def _forget(self, text: Prefix | None) -> None:
        if text is not None:
            self._scorer.slots.give_back([text])
