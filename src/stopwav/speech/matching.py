"""Which reference words stand in a hypothesis: a Levenshtein alignment, kept from one partial to the next."""

from __future__ import annotations

from collections.abc import Sequence

# Costs are one integer: edits first, and among equally few edits the alignment with the most words right.
_EDIT = 1 << 20


class Matcher:
    """Aligns a growing, changing hypothesis to a fixed reference.

    Partials mostly repeat each other, so the rows of the table that belong to the words they share are kept: a stream
    costs the words that changed, not the words shown.
    """

    def __init__(self, reference: Sequence[str]) -> None:
        self._reference = tuple(reference)
        self._words: list[str] = []
        self._rows: list[list[int]] = [[column * _EDIT for column in range(len(self._reference) + 1)]]

    def matches(self, hypothesis: Sequence[str], spoken: int | None = None) -> frozenset[int]:
        """Positions of the reference words that stand in the hypothesis.

        `spoken` words of the reference have been begun so far: a recogniser cannot have recognised the others. Where
        two alignments are equally good the earlier reference words are taken.
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
        found = []
        line = len(self._words)
        while line > 0 and column > 0:
            here = self._rows[line][column]
            # A deletion first: it leaves the hypothesis's words to earlier words of the reference.
            if here == self._rows[line][column - 1] + _EDIT:
                column -= 1
                continue
            equal = self._reference[column - 1] == self._words[line - 1]
            if here == self._rows[line - 1][column - 1] + (-1 if equal else _EDIT):
                column -= 1
                if equal:
                    found.append(column)
            line -= 1
        return found


def common_prefix(a: Sequence[str], b: Sequence[str]) -> int:
    """How many words two texts share from the start."""
    count = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        count += 1
    return count
