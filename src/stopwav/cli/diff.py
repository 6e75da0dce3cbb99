"""`stopwav diff` and `stopwav gate`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stopwav.cli.options import Json
from stopwav.errors import StopwavError

if TYPE_CHECKING:
    from stopwav.studies.diff.gate import Gate


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


EXIT_VIOLATED = 3  # a condition is violated; 1 and 2 say that something could not be measured or compared


Runs = Annotated[
    list[Path],
    typer.Argument(metavar="BASELINE RUN", help="Two run files; with --calibrate, three or more of the same thing."),
]
FailOn = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="Fail when the run is `slower`, `bigger` or `worse-wer`, or something is `missing`; "
        "give it once for each. Default: any of them.",
    ),
]
Thresholds = Annotated[
    Path | None, typer.Option(help="File with a threshold per metric, from --calibrate; others take --threshold.")
]
Calibrate = Annotated[
    bool, typer.Option("--calibrate", help="Print thresholds derived from repeated runs of the same thing, as JSON.")
]
Markdown = Annotated[
    Path | None, typer.Option(help="File to write the outcome to, as Markdown for a pull-request comment.")
]


def gate(
    runs: Runs,
    fail_on: FailOn = None,
    threshold: Threshold = "1%",
    thresholds: Thresholds = None,
    calibrate: Calibrate = False,
    markdown: Markdown = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Does a run hold against a baseline? Exits 3 where a condition is violated beyond noise."""
    if calibrate:
        _print_calibration(runs, force)
        return
    if len(runs) != 2:
        raise StopwavError(f"gate takes a baseline and a run, got {len(runs)} files; --calibrate takes more")
    from stopwav.studies.diff.gate import CONDITIONS, read_thresholds
    from stopwav.studies.diff.gate import gate as judge

    judged = judge(
        *runs,
        fail_on=fail_on or tuple(CONDITIONS),
        threshold=parse_threshold(threshold),
        thresholds=None if thresholds is None else read_thresholds(thresholds),
        force=force,
    )
    if markdown is not None:
        from stopwav.report.markdown import render_markdown
        from stopwav.studies.diff.document import gate_document

        _write(markdown, render_markdown(gate_document(judged)))
    _print(judged, as_json=json)
    if not judged.passed:
        raise typer.Exit(EXIT_VIOLATED)


def _print_calibration(runs: list[Path], force: bool) -> None:
    import json

    from stopwav import __version__
    from stopwav.studies.diff.gate import calibrate

    print(json.dumps({"stopwav": __version__, **calibrate(runs, force=force).to_json()}, indent=2))


def _print(gate: Gate, *, as_json: bool) -> None:
    if as_json:
        import json

        from stopwav import __version__

        print(json.dumps({"stopwav": __version__, **gate.to_json()}))
        return
    from rich.console import Console

    from stopwav.report.terminal import print_document
    from stopwav.studies.diff.document import gate_document

    print_document(gate_document(gate), Console(markup=False, highlight=False))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StopwavError(f"--markdown {path}: cannot be written: {error.strerror}") from error
