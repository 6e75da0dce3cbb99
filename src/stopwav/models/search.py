"""Search over a transducer's scores: one stream, frame by frame, with the state carried between calls."""

from __future__ import annotations

import heapq

import numpy as np
from torch import Tensor

from stopwav.models.scorer import Prefix, Scorer

# More symbols than this in one frame of 40 ms are not speech; the published decoder's limit.
MAX_SYMBOLS_PER_FRAME = 100


class BeamSearch:
    """The likeliest texts of one stream, best first, and their log-probabilities.

    In each frame texts grow by symbols until none of them is likelier than the worst of the `beam` best texts that
    ended the frame with a blank; texts that are reached on several paths are one, with the sum of their probabilities.
    Texts are ranked by their score per symbol, where the blank at the root and an end count as symbols.
    """

    def __init__(self, scorer: Scorer, blank: int, beam: int, max_symbols: int = MAX_SYMBOLS_PER_FRAME) -> None:
        self._scorer = scorer
        self._beam = beam
        self._max_symbols = max_symbols
        self.texts = [Prefix(None, blank)]
        self.scores = np.zeros(1, np.float32)
        self._cached: set[Prefix] = set()

    def advance(self, encodings: Tensor) -> None:
        """Search the next frames."""
        self._scorer.start_segment(encodings)
        scored = set(self.texts)
        for frame in range(len(encodings)):
            self._advance(frame, scored)
        # A text of the beam was scored in these frames; the predictions of all others are not needed any more.
        self._scorer.slots.release(self._cached - scored)
        self._cached = scored

    def best(self) -> list[int]:
        """Return the best text so far."""
        return self.texts[0].symbols()

    def close(self) -> None:
        """Release the slots of the stream."""
        self._scorer.slots.release(self._cached)
        self._cached = set()

    def _advance(self, frame: int, scored: set[Prefix]) -> None:
        active, scores = self.texts, self.scores
        ended: dict[Prefix, np.float32] = {}
        for emitted in range(self._max_symbols + 1):
            next_symbols = self._scorer.next_symbols(frame, active)
            scored.update(active)
            for text, score in zip(active, scores + next_symbols.blank, strict=True):
                ended[text] = np.logaddexp(ended[text], score) if text in ended else score
            if emitted == self._max_symbols:
                break
            total = scores[:, None] + next_symbols.scores
            active, scores = self._grow(active, total, next_symbols.symbols, self._floor(ended))
            if not active:
                break
        ranked = heapq.nlargest(self._beam, ended.items(), key=lambda item: item[1] / (item[0].length + 2))
        self.texts = [text for text, _ in ranked]
        self.scores = np.array([score for _, score in ranked], np.float32)

    def _floor(self, ended: dict[Prefix, np.float32]) -> float:
        """Return the score that a growing text must beat: the worst of the best that ended, once these are enough."""
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


class GreedySearch:
    """The text of one stream that takes the likeliest symbol at every step."""

    def __init__(self, scorer: Scorer, blank: int, max_symbols: int = MAX_SYMBOLS_PER_FRAME) -> None:
        self._scorer = scorer
        self._max_symbols = max_symbols
        self._text = Prefix(None, blank)

    def advance(self, encodings: Tensor) -> None:
        """Search the next frames."""
        self._scorer.start_segment(encodings)
        for frame in range(len(encodings)):
            for _ in range(self._max_symbols):
                next_symbols = self._scorer.next_symbols(frame, [self._text])
                self._release(self._text.parent)
                if next_symbols.blank[0] >= next_symbols.scores[0, 0]:
                    break
                self._text = self._text.child(int(next_symbols.symbols[0, 0]))

    def best(self) -> list[int]:
        """Return the text so far."""
        return self._text.symbols()

    def close(self) -> None:
        """Release the slots of the stream."""
        self._release(self._text)
        self._release(self._text.parent)

    def _release(self, text: Prefix | None) -> None:
        if text is not None:
            self._scorer.slots.release([text])
