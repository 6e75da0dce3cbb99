"""The command line: one file per verb, each a thin skin over the library function of its name."""

from __future__ import annotations

import sys

import typer

from stopwav.cli.align import align
from stopwav.cli.demo import demo
from stopwav.cli.diff import diff
from stopwav.cli.doctor import doctor
from stopwav.cli.engines import engines
from stopwav.cli.gate import gate
from stopwav.cli.history import history
from stopwav.cli.latency import latency
from stopwav.cli.output import EXIT_UNUSABLE
from stopwav.cli.report import report
from stopwav.errors import StopwavError

app = typer.Typer(
    name="stopwav",
    help="The stopwatch for speech recognition: measures recognisers honestly.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(rich_help_panel="Measure")(latency)
app.command(rich_help_panel="Measure")(demo)
app.command(rich_help_panel="Look")(report)
app.command(rich_help_panel="Look")(history)
app.command(rich_help_panel="Look")(engines)
app.command(rich_help_panel="Look")(doctor)
app.command(rich_help_panel="Compare")(diff)
app.command(rich_help_panel="Compare")(gate)
app.command(rich_help_panel="Prepare")(align)


def _version(asked: bool) -> None:
    if asked:
        from stopwav import __version__

        print(f"stopwav {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """The stopwatch for speech recognition: measures recognisers honestly."""


def main() -> None:
    """Run the command line; an error is one line on standard error, never a traceback."""
    try:
        app()
    except StopwavError as error:
        print(f"stopwav: {error}", file=sys.stderr)
        sys.exit(EXIT_UNUSABLE)
    except BrokenPipeError:
        # The reader of our output (head, less) went away: nothing is wrong.
        sys.stderr.close()
        sys.exit(0)
