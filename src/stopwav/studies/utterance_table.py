"""The utterances of a run by column, as all streams need them; an utterance itself is made when it is asked for."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from stopwav.record import UTTERANCES, Header
from stopwav.speech.events import Floats, Integers
from stopwav.speech.normaliser import STOPWAV, Normaliser, stored_normaliser
from stopwav.speech.utterance import Utterance
from stopwav.studies.corpus_header import utterance_from_json, utterance_to_json

# Streams whose words are looked up at a time.
_AT_ONCE = 4096


class UtteranceTable(Sequence[Utterance]):
    """The utterances that the header of a run holds, in its order."""

    def __init__(self, rows: Sequence[dict[str, Any]], normaliser: Normaliser) -> None:
        self._rows = rows
        # By which all texts are compared.
        self.normaliser = normaliser
        self.ids: list[str] = []
        # A number for what was said and when, by which equal utterances of two runs are known.
        self.hashes = array("q")
        starts_s, ends_s, counts, transcribed = array("d"), array("d"), array("q"), array("b")
        for row in rows:
            words = row["words"]
            self.ids.append(row["id"])
            self.hashes.append(hash((normaliser, row["text"], tuple(map(tuple, words)))))
            transcribed.append(row["text"] is not None)
            counts.append(len(words))
            starts_s.append(words[0][1] if words else np.nan)
            ends_s.extend([word[2] for word in words])
        # Of each utterance whether it has a transcript, the number of its words, and the start of the first, or NaN.
        self.transcribed: NDArray[np.bool_] = np.array(transcribed, dtype=bool)
        self.word_counts: Integers = np.array(counts, dtype=np.int64)
        self.start_s: Floats = np.array(starts_s, dtype=float)
        # The ends of all words, one utterance after the other, and where those of each utterance begin.
        self.word_end_s: Floats = np.array(ends_s, dtype=float)
        self.first_words: Integers = np.cumsum(self.word_counts) - self.word_counts

    @classmethod
    def of_header(cls, header: Header) -> UtteranceTable:
        """Return the table of the utterances that the header of a run holds."""
        return cls(header.corpus[UTTERANCES], stored_normaliser(header.normaliser))

    @classmethod
    def of(cls, utterances: Sequence[Utterance]) -> UtteranceTable:
        """Return the table of these utterances, all compared by the normaliser of the first."""
        normaliser = utterances[0].normaliser if utterances else STOPWAV
        return cls([utterance_to_json(utterance) for utterance in utterances], normaliser)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Utterance: ...
    @overload
    def __getitem__(self, index: slice) -> list[Utterance]: ...
    def __getitem__(self, index: int | slice) -> Utterance | list[Utterance]:
        if isinstance(index, slice):
            return [utterance_from_json(row, self.normaliser) for row in self._rows[index]]
        return utterance_from_json(self._rows[index], self.normaliser)

    def __iter__(self) -> Iterator[Utterance]:
        return (utterance_from_json(row, self.normaliser) for row in self._rows)

    def texts(self) -> Iterator[tuple[str, str | None]]:
        """Yield the id and transcript of each utterance."""
        return ((row["id"], row["text"]) for row in self._rows)

    def end_s(self, position: int) -> float | None:
        """Return the end of the last word of an utterance; None where it has none."""
        count = int(self.word_counts[position])
        return float(self.word_end_s[self.first_words[position] + count - 1]) if count else None

    def ends_of(self, positions: Integers) -> Floats:
        """Return the ends of the words of these utterances, one utterance after the other."""
        counts = self.word_counts[positions]
        ends_s, first = np.empty(int(counts.sum())), 0
        # Some at a time: the places of all words of a corpus take several times as much memory as their ends.
        for start in range(0, counts.size, _AT_ONCE):
            block = slice(start, start + _AT_ONCE)
            before = np.cumsum(counts[block]) - counts[block]
            places = np.repeat(self.first_words[positions[block]] - before, counts[block])
            places += np.arange(places.size)
            ends_s[first : first + places.size] = self.word_end_s[places]
            first += places.size
        return ends_s
