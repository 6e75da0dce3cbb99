"""`stopwav gate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stopwav.cli.diff import Force, Threshold, parse_threshold
from stopwav.cli.options import Json
from stopwav.errors import StopwavError

if TYPE_CHECKING:
    from stopwav.studies.diff.gate import Gate

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
    from stopwav.studies.diff.calibrate import calibrate

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
