"""The rates of errors in recognised text, as every study of it has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from stopwav.speech.utterance import Utterance
from stopwav.speech.wer import CharacterErrorCount, ErrorCount
from stopwav.stats import Estimate
from stopwav.studies.definition import NO_SPACES, NO_WORDS

WER, CER = "wer", "cer"

# From the errors and the lengths of texts to their rate, with an interval.
Ratio = Callable[[Any, Any], Estimate]


def error_rates(
    words: Sequence[ErrorCount], characters: Sequence[CharacterErrorCount], ratio: Ratio, *, by_character: bool
) -> dict[str, Estimate]:
    """Return the word and character error rate, and of the first its parts; without words there is no first."""
    lengths = np.array([count.words for count in words], dtype=np.int64)
    kinds = {
        WER: [count.errors for count in words],
        "substitution_rate": [count.substitutions for count in words],
        "deletion_rate": [count.deletions for count in words],
        "insertion_rate": [count.insertions for count in words],
    }
    rates = {name: ratio(np.array(counts, dtype=np.int64), lengths) for name, counts in kinds.items()}
    if by_character:
        rates[WER] = Estimate(None, note=NO_WORDS, code=NO_SPACES)
    wrong = np.array([count.errors for count in characters], dtype=np.int64)
    total = np.array([count.characters for count in characters], dtype=np.int64)
    return {WER: rates.pop(WER), CER: ratio(wrong, total), **rates}


def is_by_character(utterances: Iterable[Utterance]) -> bool:
    """Whether texts are compared by their characters, because their language is written without spaces."""
    return any(utterance.normaliser.by_character for utterance in utterances)
