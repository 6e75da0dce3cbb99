"""Word and character errors as counts, which are added over a corpus and divided once, at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stopwav.speech.normaliser import STOPWAV, Normaliser


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class CharacterErrorCount:
    """Character errors against `characters` reference characters. Counts add, and cannot be averaged, as word errors.

    The characters are those of the normalised words with one space between two words; that space counts as well. Of a
    language that is written without spaces, none counts.
    """

    errors: int = 0
    characters: int = 0

    def __add__(self, other: CharacterErrorCount) -> CharacterErrorCount:
        """Return the sum of both counts."""
        if not isinstance(other, CharacterErrorCount):
            return NotImplemented
        return CharacterErrorCount(self.errors + other.errors, self.characters + other.characters)

    @property
    def cer(self) -> float | None:
        """Errors per reference character, above 1 with many insertions; None where there is no reference character."""
        return self.errors / self.characters if self.characters else None


def count_character_errors(
    ref_words: Sequence[str], hyp_words: Sequence[str], separator: str = " "
) -> CharacterErrorCount:
    """Count the fewest substitutions, deletions and insertions of characters in normalised words."""
    from rapidfuzz.distance import Levenshtein  # as below

    ref, hyp = separator.join(ref_words), separator.join(hyp_words)
    return CharacterErrorCount(Levenshtein.distance(ref, hyp), len(ref))


def count_errors(reference: str, hypothesis: str, normaliser: Normaliser = STOPWAV) -> ErrorCount:
    """Count the word errors of `hypothesis` after both texts are normalised."""
    return count_word_errors(normaliser.words(reference), normaliser.words(hypothesis))


def count_word_errors(ref_words: Sequence[str], hyp_words: Sequence[str]) -> ErrorCount:
    """Count the fewest substitutions, deletions and insertions that turn `ref_words` into `hyp_words`."""
    # Here, and not at the top: the process of every engine would take the memory, and count no words.
    from rapidfuzz.distance import Levenshtein

    numbers: dict[str, int] = {}
    ref, hyp = ([numbers.setdefault(word, len(numbers)) for word in words] for words in (ref_words, hyp_words))
    edits = [edit.tag for edit in Levenshtein.editops(ref, hyp)]
    return ErrorCount(edits.count("replace"), edits.count("delete"), edits.count("insert"), len(ref))


def word_edits(ref_words: Sequence[str], hyp_words: Sequence[str]) -> list[tuple[str, str]]:
    """Return each error as the word of the reference and that of the hypothesis, "" where one has none."""
    from rapidfuzz.distance import Levenshtein  # as above

    numbers: dict[str, int] = {}
    ref, hyp = ([numbers.setdefault(word, len(numbers)) for word in words] for words in (ref_words, hyp_words))
    return [
        (
            "" if edit.tag == "insert" else ref_words[edit.src_pos],
            "" if edit.tag == "delete" else hyp_words[edit.dest_pos],
        )
        for edit in Levenshtein.editops(ref, hyp)
    ]


def common_prefix(a: Sequence[str], b: Sequence[str]) -> int:
    """Count the words that two texts share from the start."""
    if a == b[: len(a)]:  # most partials only go on
        return len(a)
    count = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        count += 1
    return count
