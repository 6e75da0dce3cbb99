"""Which reference words are in a hypothesis: a Levenshtein alignment that is updated from partial to partial."""

from __future__ import annotations

from collections.abc import Sequence

# A cost is one integer: the edits, and among equally few edits the alignment with the most correct words.
_EDIT = 1 << 20


class Matcher:
    """Aligns a growing, changing hypothesis to a fixed reference.

    Partials mostly repeat each other, so the rows of the words they share are kept: the cost of a stream is that of the
    changed words, not of all words shown.
    """

    def __init__(self, reference: Sequence[str]) -> None:
        self._reference = tuple(reference)
        self._words: list[str] = []
        self._rows: list[list[int]] = [[column * _EDIT for column in range(len(self._reference) + 1)]]

    def matches(self, hypothesis: Sequence[str], spoken: int | None = None) -> frozenset[int]:
        """Return the positions of the reference words that are in the hypothesis.

        Only the first `spoken` words of the reference have begun so far: the others cannot have been recognised. Of two
        equally good alignments the one with the earlier reference words is used.
        """
        self._update(hypothesis)
        column = len(self._reference) if spoken is None else min(spoken, len(self._reference))
        return frozenset(self._trace_back(column))

    def _update(self, hypothesis: Sequence[str]) -> None:
        shared = common_prefix(self._words, hypothesis)
        del self._rows[shared + 1 :]
        self._words = list(hypothesis)
        for word in self._words[shared:]:
            self._rows.append(self._next_row(self._rows[-1], word))

    def _next_row(self, above: list[int], word: str) -> list[int]:
        row = [above[0] + _EDIT]
        for column, expected in enumerate(self._reference, start=1):
            diagonal = above[column - 1] + (-1 if expected == word else _EDIT)
            row.append(min(diagonal, above[column] + _EDIT, row[-1] + _EDIT))
        return row

    def _trace_back(self, column: int) -> list[int]:
        matched = []
        row = len(self._words)
        while row > 0 and column > 0:
            here = self._rows[row][column]
            # Deletions first: they leave the words of the hypothesis to earlier words of the reference.
            if here == self._rows[row][column - 1] + _EDIT:
                column -= 1
                continue
            equal = self._reference[column - 1] == self._words[row - 1]
            if here == self._rows[row - 1][column - 1] + (-1 if equal else _EDIT):
                column -= 1
                if equal:
                    matched.append(column)
            row -= 1
        return matched


def common_prefix(a: Sequence[str], b: Sequence[str]) -> int:
    """Count the words that two texts share from the start."""
    count = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        count += 1
    return count
