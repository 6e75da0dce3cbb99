"""Steps side by side, on top of their page: a row for each row of theirs, a column for each run."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from stopwav.record import Record, Result
from stopwav.report.numbers import DASH, format_number
from stopwav.report.plain import plain
from stopwav.report.step_layout import Line, arrange_step


def step_comparison_html(runs: Sequence[tuple[Record, Sequence[Result]]]) -> str:
    """The table as an HTML fragment: milliseconds of a step, forward and backward together, and the share in brackets.

    Rows that only some of the runs have, as where they differ in the loss, stand at the end of those they share.
    """
    trees = [{line.row.name: line for line in _lines(results)} for _, results in runs]
    names = list(dict.fromkeys(name for tree in trees for name in tree))
    head = "".join(
        f'<th scope="col"><a href="#s{index}-run"><bdi>{escape(plain(str(record.header.spec.get("model")), 60))}'
        f"<br>{escape(plain(record.path.stem, 60))}</bdi></a></th>"
        for index, (record, _) in enumerate(runs)
    )
    body = "".join(_row(name, [tree.get(name) for tree in trees]) for name in names)
    return (
        f'<h1 class="title">{len(runs)} runs compared</h1>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="Comparison of steps"><table>'
        f'<thead><tr><th scope="col">ms of a step (share)</th>{head}</tr></thead>'
        f"<tbody>{_whole(runs)}{body}</tbody></table></div>"
    )


def _lines(results: Sequence[Result]) -> list[Line]:
    layout = arrange_step(results)
    return layout.lines() if layout.step.metrics else []


def _whole(runs: Sequence[tuple[Record, Sequence[Result]]]) -> str:
    times = [results[0].metrics["step_time"].value if results[0].metrics else None for _, results in runs]
    cells = "".join(f"<td>{DASH if one is None else _milliseconds(one)}</td>" for one in times)
    return f'<tr><th scope="row">a clean step, wall time</th>{cells}</tr>'


def _row(name: str, lines: Sequence[Line | None]) -> str:
    first = next(line for line in lines if line is not None)
    cells = "".join(f"<td>{DASH if line is None else _cell(line.row)}</td>" for line in lines)
    indent = f' style="padding-left: {0.6 + 1.2 * first.depth}em"'
    return f'<tr><th scope="row"{indent}><bdi>{escape(first.name)}</bdi></th>{cells}</tr>'


def _cell(row: Result) -> str:
    time_s, share = row.metrics["total_time"].value, row.metrics["share"].value
    if time_s is None or share is None:
        return DASH
    return f"{_milliseconds(time_s)} ({100 * share:.1f} %)"


def _milliseconds(seconds: float) -> str:
    return format_number(1e3 * seconds, 2 if seconds < 0.1 else 1)
