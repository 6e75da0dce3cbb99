"""Word matching as its definition says, from the start each time: what the incremental one is compared with."""

from collections.abc import Sequence

EDIT = 1 << 20


def plain_matches(reference: Sequence[str], hypothesis: Sequence[str], spoken: int | None = None) -> set[int]:
    """Return the matched positions of the alignment with the fewest edits, then the most correct words.

    Of two equally good ones that with the earlier reference words is taken.
    """
    rows = [[column * EDIT for column in range(len(reference) + 1)]]
    for word in hypothesis:
        above, row = rows[-1], [rows[-1][0] + EDIT]
        for column, expected in enumerate(reference, start=1):
            diagonal = above[column - 1] + (-1 if expected == word else EDIT)
            row.append(min(diagonal, above[column] + EDIT, row[-1] + EDIT))
        rows.append(row)
    matched = set()
    row_number, column = len(hypothesis), len(reference) if spoken is None else min(spoken, len(reference))
    while row_number > 0 and column > 0:
        here = rows[row_number][column]
        if here == rows[row_number][column - 1] + EDIT:
            column -= 1
            continue
        equal = reference[column - 1] == hypothesis[row_number - 1]
        if here == rows[row_number - 1][column - 1] + (-1 if equal else EDIT):
            column -= 1
            if equal:
                matched.add(column)
        row_number -= 1
    return matched
