"""`stopwav diff`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from stopwav.cli.options import Json
from stopwav.errors import StopwavError

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
    from stopwav.cli.output import print_text
    from stopwav.studies.diff.diff import diff as compare
    from stopwav.studies.diff.document import diff_document

    compared = compare(a, b, threshold=parse_threshold(threshold), force=force)
    if json:
        print(encoder.dumps({"stopwav": __version__, **compared.to_json()}))
    elif markdown:
        from stopwav.report.markdown import render_markdown

        print_text(render_markdown(diff_document(compared)))
    else:
        from rich.console import Console

        from stopwav.report.terminal import print_document

        print_document(diff_document(compared), Console(markup=False, highlight=False))


def parse_threshold(text: str) -> float:
    """Return the relative change that `1%` or `0.01` names."""
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
