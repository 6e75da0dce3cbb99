"""Word errors as counts, which are added over a corpus and divided once, at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jiwer

from stopwav.speech.text import normalise


@dataclass(frozen=True)
class ErrorCount:
    """Word errors against `words` reference words. Counts add, also by `sum(counts, ErrorCount())`.

    They support neither division nor `float`, on purpose: the mean of per-utterance rates weighs a word of a short
    utterance more than one of a long utterance, and is not the WER. Add first, then read `.wer`.
    """

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    words: int = 0

    def __add__(self, other: ErrorCount) -> ErrorCount:
        """Return the sum of both counts."""
        if not isinstance(other, ErrorCount):
            return NotImplemented
        return ErrorCount(
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
            self.words + other.words,
        )

    def __radd__(self, other: int) -> ErrorCount:
        """Return the count itself when it is added to the 0 with which `sum` starts."""
        return self if other == 0 else NotImplemented

    @property
    def errors(self) -> int:
        """Substitutions, deletions and insertions together."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def wer(self) -> float | None:
        """Errors per reference word, above 1 with many insertions; None where there is no reference word."""
        return self.errors / self.words if self.words else None


def count_errors(reference: str, hypothesis: str) -> ErrorCount:
    """Count the word errors of `hypothesis` after both texts are normalised."""
    return count_word_errors(normalise(reference), normalise(hypothesis))


def count_word_errors(ref_words: Sequence[str], hyp_words: Sequence[str]) -> ErrorCount:
    """Count the fewest substitutions, deletions and insertions that turn `ref_words` into `hyp_words`."""
    if not ref_words or not hyp_words:  # jiwer rejects an empty reference
        return ErrorCount(deletions=len(ref_words), insertions=len(hyp_words), words=len(ref_words))
    # Numbers instead of words, so that jiwer's own splitting and stripping has no effect.
    numbers: dict[str, int] = {}
    ref, hyp = (
        " ".join(str(numbers.setdefault(word, len(numbers))) for word in words) for words in (ref_words, hyp_words)
    )
    output = jiwer.process_words(ref, hyp)
    return ErrorCount(output.substitutions, output.deletions, output.insertions, len(ref_words))
