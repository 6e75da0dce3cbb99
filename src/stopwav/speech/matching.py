"""Which words of a fixed reference are in a hypothesis that grows and changes, at the cost of what changed.

The alignment is the one with the fewest edits, and among those the one with the most correct words; of two equally good
ones that with the earlier reference words. Hypotheses of a stream mostly repeat each other, so three things are kept
from one to the next: the words that agree with the reference from the start, the rows of the table of costs, and the
path through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

# A cost is one integer: the edits, and among equally few edits the alignment with the most correct words.
_EDIT = 1 << 20
_IMPOSSIBLE = 1 << 60
# Rows of more columns are faster as arrays.
WIDE = 64
# Words that rows are computed ahead of the last word spoken, so that they are not extended with every word.
AHEAD = 8
# Words by which a hypothesis may be ahead of or behind its best alignment so far: over six minutes of speech. Without a
# limit an hour of speech takes a table of 80 million cells.
REACH = 1000
# Words of a hypothesis without that limit: the last sentence of an engine that shows no more than that.
NARROWED = 64

Row = list[int] | NDArray[np.int64]


class Matcher:
    """Aligns a growing, changing hypothesis to a fixed reference."""

    def __init__(self, reference: Sequence[str]) -> None:
        self._reference = list(reference)
        self._words: list[str] = []
        # How many words agree with the reference from the start; the table has rows and columns for the others.
        self._agreed = 0
        self._rows: list[Row] = []
        # The column at which a row begins: later ones of a long table have only some of them.
        self._offsets: list[int] = []
        # The columns between which the last path was in each row.
        self._path: list[tuple[int, int]] = []
        self._agreed_before = 0
        self._codes: NDArray[np.int64] | None = None
        self._numbers: dict[str, int] = {}

    def change(self, kept: int, added: Sequence[str], spoken: int | None = None) -> tuple[int, list[int]]:
        """Replace the words behind the first `kept`, and return the positions of reference words that are there now.

        The positions are those from a start on, which comes first; before it they are as after the last change. Only
        the first `spoken` words of the reference have begun so far: the others cannot have been recognised.
        """
        self._update(kept, added)
        column = len(self._reference) if spoken is None else min(spoken, len(self._reference))
        agreed = min(self._agreed, column)
        start = min(agreed, self._agreed_before)
        self._agreed_before = agreed
        if column <= self._agreed or len(self._words) == self._agreed:
            self._path.clear()
            return start, list(range(start, agreed))
        self._fill(column - self._agreed)
        merged, matched = self._trace_back(column - self._agreed)
        if merged is not None:
            return merged, matched
        return start, [*range(start, agreed), *matched]

    def _update(self, kept: int, added: Sequence[str]) -> None:
        self._words[kept:] = added
        if kept > self._agreed:  # the first word that does not agree is still there
            rows = kept - self._agreed + 1
            del self._rows[rows:], self._offsets[rows:], self._path[rows:]
            return
        agreed, most = kept, min(len(self._words), len(self._reference))
        while agreed < most and self._words[agreed] == self._reference[agreed]:
            agreed += 1
        rows = 1 if agreed == self._agreed else 0
        del self._rows[rows:], self._offsets[rows:], self._path[rows:]
        self._agreed = agreed

    def _fill(self, columns: int) -> None:
        """Compute what is missing of the table, at least up to this column."""
        words = self._words[self._agreed :]
        width = len(self._reference) - self._agreed
        if width > WIDE:
            if not self._rows:
                self._append(np.arange(width + 1, dtype=np.int64) * _EDIT, 0)
            for word in words[len(self._rows) - 1 :]:
                self._append_wide(word, width)
            return
        for number in range(len(self._rows), len(words) + 1):
            self._append([number * _EDIT], 0)
        if len(self._rows[-1]) > columns:  # no row is longer than the one above it
            return
        columns = min(width, columns + AHEAD)
        rows: Any = self._rows
        rows[0] += [column * _EDIT for column in range(len(rows[0]), columns + 1)]
        for number, word in enumerate(words):
            if len(rows[number + 1]) <= columns:
                self._extend(rows[number + 1], rows[number], word, columns)

    def _append(self, row: Row, offset: int) -> None:
        self._rows.append(row)
        self._offsets.append(offset)

    def _extend(self, row: list[int], above: list[int], word: str, columns: int) -> None:
        """Extend a row up to a column."""
        left, diagonal = row[-1], above[len(row) - 1]
        expected = self._reference[self._agreed + len(row) - 1 : self._agreed + columns]
        for reference, up in zip(expected, above[len(row) : columns + 1], strict=True):
            if reference == word:
                left = diagonal - 1  # never more than with an edit
            else:
                if diagonal < left:
                    left = diagonal
                left = (left if left < up else up) + _EDIT
            row.append(left)
            diagonal = up

    def _append_wide(self, word: str, width: int) -> None:
        above, offset = self._rows[-1], self._offsets[-1]
        assert isinstance(above, np.ndarray)
        first, last = 0, width
        if len(self._rows) > NARROWED and width > 2 * REACH:
            center = offset + int(above.argmin()) + 1
            first, last = max(0, center - REACH), min(width, center + REACH)
        # The row above over the columns first - 1 to last.
        padded = np.full(last - first + 2, _IMPOSSIBLE, dtype=np.int64)
        low, high = max(offset, first - 1), min(offset + above.size, last + 1)
        padded[low - first + 1 : high - first + 1] = above[low - offset : high - offset]
        cost = np.where(self._equal(word, first, last), -1, _EDIT)
        best: NDArray[np.int64] = np.minimum(padded[:-1] + cost, padded[1:] + _EDIT)
        # A step to the right costs an edit: the best of all cells to the left, each with its steps.
        steps = np.arange(best.size, dtype=np.int64) * _EDIT
        self._append(np.minimum.accumulate(best - steps) + steps, first)

    def _equal(self, word: str, first: int, last: int) -> NDArray[np.bool_]:
        """Whether the reference word of each column is this word; column 0 has none."""
        if self._codes is None:
            codes = [self._numbers.setdefault(other, len(self._numbers)) for other in self._reference]
            self._codes = np.array([-2, *codes], dtype=np.int64)
        expected = self._codes[self._agreed + first : self._agreed + last + 1]
        equal: NDArray[np.bool_] = np.equal(expected, self._numbers.get(word, -1))
        if first == 0:
            equal[0] = False
        return equal

    def _trace_back(self, column: int) -> tuple[int | None, list[int]]:
        """The positions that the path from a column of the last row matches, and where it meets the last path."""
        row = len(self._rows) - 1
        rows, offsets, settled = self._rows, self._offsets, len(self._path)
        self._path += [(0, 0)] * (row + 1 - settled)
        column = min(max(column, offsets[row]), offsets[row] + len(rows[row]) - 1)
        matched: list[int] = []
        entered = column
        while row > 0 and column > 0:
            if row < settled and self._path[row][0] <= column <= self._path[row][1]:
                self._path[row] = (self._path[row][0], entered)
                matched.reverse()
                return self._agreed + column, matched
            here = column - offsets[row]
            cost = rows[row][here]
            # Deletions first: they leave the words of the hypothesis to earlier words of the reference.
            if here > 0 and cost == rows[row][here - 1] + _EDIT:
                column -= 1
                continue
            self._path[row] = (column, entered)
            equal = self._reference[self._agreed + column - 1] == self._words[self._agreed + row - 1]
            above = column - 1 - offsets[row - 1]
            if 0 <= above < len(rows[row - 1]) and cost == rows[row - 1][above] + (-1 if equal else _EDIT):
                column -= 1
                if equal:
                    matched.append(self._agreed + column)
            row -= 1
            entered = column
        matched.reverse()
        # The rest is one row or one column, which no later path can leave.
        self._path[row] = (0, entered)
        self._path[1:row] = [(0, 0)] * max(0, row - 1)
        return None, matched


def matches(reference: Sequence[str], hypothesis: Sequence[str]) -> list[int]:
    """Return the positions of the reference words that are in a hypothesis."""
    return Matcher(reference).change(0, hypothesis)[1]
