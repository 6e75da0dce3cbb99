"""Engines show the whole text of a stream; protocols send it in parts: segments that end, or words that stay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile

from stopwav.speech.events import Hypothesis


@dataclass(frozen=True)
class CutSegment:
    """The text of the current segment, and whether it is final: then the next one begins."""

    text: str
    final: bool


class SegmentCutter:
    """Cuts whole texts into segments."""

    def __init__(self) -> None:
        self._committed = ""
        # The text of the current segment.
        self.partial = ""

    def cut(self, hypotheses: Iterable[Hypothesis]) -> list[CutSegment]:
        """Return the changes of segments that these hypotheses are."""
        segments = []
        for hypothesis in hypotheses:
            self.partial = self._after_committed(hypothesis.text)
            segments.append(CutSegment(self.partial, hypothesis.endpoint))
            if hypothesis.endpoint:
                self._committed, self.partial = hypothesis.text, ""
        return segments

    def finish(self, hypotheses: Iterable[Hypothesis]) -> str:
        """Return the text of the last segment, after the hypotheses of the end of the audio; then begin again."""
        texts = [hypothesis.text for hypothesis in hypotheses]
        text = self._after_committed(texts[-1]) if texts else self.partial
        self._committed = self.partial = ""
        return text

    def _after_committed(self, text: str) -> str:
        """The part of a whole text that belongs to the current segment."""
        if text.startswith(self._committed):
            return text[len(self._committed) :].strip()
        # The engine changed what it had ended. Clients cannot take that back, so that many words are left out.
        return " ".join(text.split()[len(self._committed.split()) :])


class AgreedWords:
    """Words that are sent for good, and so only once two texts in a row agree on them."""

    def __init__(self) -> None:
        self._sent: list[str] = []
        self._previous: list[str] = []

    def add(self, partial: str) -> str:
        """Return the words that this partial and the one before agree on, and that were not sent yet."""
        words = partial.split()
        pairs = zip(words, self._previous, strict=False)
        agreed = [word for word, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
        self._previous = words
        return self._extend(agreed)

    def finish(self, final: str) -> str:
        """Return the words of the final text that were not sent yet; none where it contradicts what was sent."""
        return self._extend(final.split())

    def _extend(self, words: list[str]) -> str:
        count = len(self._sent)
        if words[:count] != self._sent or len(words) == count:
            return ""
        self._sent = words
        return (" " if count else "") + " ".join(words[count:])
