"""Several step runs next to each other, as a document."""

from __future__ import annotations

from collections.abc import Sequence

from stopwav.record import Result
from stopwav.report.document import Cell, Column, Document, Row, Table
from stopwav.report.text import DASH, plain
from stopwav.studies.step.document import LONGEST_NAME, milliseconds
from stopwav.studies.step.tree import StepTree, TreeRow
from stopwav.studies.study import StudyRun


def step_comparison(runs: Sequence[StudyRun]) -> Document:
    """Return the milliseconds of a step and the share of each row, a column for each run.

    Rows that only some of the runs have, as where they differ in the loss, stand after those that they share.
    """
    trees = [StepTree(run.results) for run in runs]
    rows = [{row.result.name: row for row in tree.shown()} if tree.step.metrics else {} for tree in trees]
    names = list(dict.fromkeys(name for by_name in rows for name in by_name))
    models = [Column(plain(str(run.record.header.spec.get("model")), LONGEST_NAME)) for run in runs]
    links = [Cell(run.record.path.stem, href=f"#s{index}-run") for index, run in enumerate(runs)]
    times = [tree.step.metrics["step_time"].value if tree.step.metrics else None for tree in trees]
    body = [_compared_row([by_name.get(name) for by_name in rows]) for name in names]
    table = Table(
        (Column("ms per step (share)", "left"), *models),
        (
            Row((Cell("run"), *links)),
            Row((Cell("clean step, wall time"), *(Cell(milliseconds(time_s)) for time_s in times))),
            *body,
        ),
        title="Comparison of steps",
    )
    return Document(f"{len(runs)} runs compared", (table,))


def _compared_row(rows: Sequence[TreeRow | None]) -> Row:
    first = next(row for row in rows if row is not None)
    cells = [DASH if row is None else _time_and_share(row.result) for row in rows]
    return Row((Cell(first.name), *map(Cell, cells)), depth=first.depth)


def _time_and_share(row: Result) -> str:
    time_s, share = row.metrics["total_time"].value, row.metrics["share"].value
    return DASH if time_s is None or share is None else f"{milliseconds(time_s)} ({100 * share:.1f} %)"
