"""`stopwav diff`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stopwav.cli.options import Json
from stopwav.errors import StopwavError

if TYPE_CHECKING:
    from stopwav.studies.diff.diff import Diff

Threshold = Annotated[
    str,
    typer.Option(metavar="CHANGE", help="The change that is of no concern, as `1%` or `0.01`; of WER, relative too."),
]
Force = Annotated[
    bool, typer.Option("--force", help="Compare runs that should not be compared; the output says why not.")
]


def diff(
    a: Annotated[Path, typer.Argument(help="The run file to compare with.")],
    b: Annotated[Path, typer.Argument(help="The run file to compare.")],
    threshold: Threshold = "1%",
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown instead of tables.")] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """What changed from one run to another, and is it more than noise?"""
    import json as encoder

    from stopwav import __version__
    from stopwav.report.diff_table import diff_markdown, print_diff
    from stopwav.studies.diff.diff import diff as compare

    found = compare(a, b, threshold=parse_threshold(threshold), force=force)
    cells = {cell.name: cell.changes for cell in found.cells}
    lead = [("a", str(found.a)), ("b", str(found.b))]
    if json:
        print(encoder.dumps({"stopwav": __version__, **found.to_json()}))
    elif markdown:
        print(diff_markdown("stopwav diff", cells, remarks_of(found), lead), end="")
    else:
        from rich.console import Console

        print_diff(cells, Console(markup=False, highlight=False), remarks_of(found), lead)


def remarks_of(found: Diff) -> list[str]:
    """What a reader has to know beside the verdicts, what was overridden first."""
    return [
        *(f"compared by force: {reason}" for reason in found.forced),
        *(f"only in a: {name}" for name in found.only_a),
        *(f"only in b: {name}" for name in found.only_b),
        *found.remarks,
    ]


def parse_threshold(text: str) -> float:
    """The relative change that `1%` or `0.01` names."""
    number = text.strip()
    percent = number.endswith("%")
    try:
        value = float(number.removesuffix("%")) / (100 if percent else 1)
    except ValueError:
        value = math.nan
    # Nobody means 500 % by 5.
    if not (math.isfinite(value) and value >= 0 and (percent or value < 1)):
        raise StopwavError(f"--threshold {text!r}: give a change of 0 or more as 1% or 0.01")
    return value
