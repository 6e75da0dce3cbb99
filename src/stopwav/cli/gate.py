"""`stopwav gate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stopwav.cli.diff import Force, Threshold, parse_threshold, remarks_of
from stopwav.cli.options import Json
from stopwav.errors import StopwavError

if TYPE_CHECKING:
    from stopwav.report.diff_table import Cells, Line
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

    found = judge(
        *runs,
        fail_on=fail_on or tuple(CONDITIONS),
        threshold=parse_threshold(threshold),
        thresholds=None if thresholds is None else read_thresholds(thresholds),
        force=force,
    )
    if markdown is not None:
        _write(markdown, _markdown(found))
    _print(found, as_json=json)
    if not found.passed:
        raise typer.Exit(EXIT_VIOLATED)


def _print_calibration(runs: list[Path], force: bool) -> None:
    import json

    from stopwav import __version__
    from stopwav.studies.diff.calibrate import calibrate

    print(json.dumps({"stopwav": __version__, **calibrate(runs, force=force).to_json()}, indent=2))


def _print(found: Gate, *, as_json: bool) -> None:
    import json

    from rich.console import Console
    from rich.text import Text

    from stopwav import __version__
    from stopwav.report.diff_table import print_diff, print_lines

    if as_json:
        print(json.dumps({"stopwav": __version__, **found.to_json()}))
        return
    console = Console(markup=False, highlight=False)
    print_diff(_cells(found), console, remarks_of(found.diff), _places(found))
    console.print()
    console.print(Text(_outcome(found), style="bold"))
    print_lines(_lead(found), console)


def _markdown(found: Gate) -> str:
    from stopwav.report.diff_table import diff_markdown

    lead = [*_lead(found), *_places(found)]
    return diff_markdown(_outcome(found), _cells(found), remarks_of(found.diff), lead)


def _cells(found: Gate) -> Cells:
    return {cell.name: cell.changes for cell in found.diff.cells}


def _places(found: Gate) -> list[Line]:
    return [("a, the baseline", str(found.diff.a)), ("b, the run", str(found.diff.b))]


def _outcome(found: Gate) -> str:
    return f"stopwav gate: {'passed' if found.passed else 'failed'}"


def _lead(found: Gate) -> list[Line]:
    """What was violated, what is still open, and what was asked for."""
    from stopwav.report.diff_table import title_of

    lines = [
        (f"{failure.condition}, {title_of(failure.metric) or failure.message}", failure.name)
        for failure in found.failures
    ]
    if found.undecided:
        verb = "is" if len(found.undecided) == 1 else "are"
        lines.append((f"{len(found.undecided)} {verb} undecided, which never fails", ""))
    return [*lines, (f"fails on {', '.join(found.fail_on)}", "")]


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StopwavError(f"--markdown {path}: cannot be written: {error.strerror}") from error
