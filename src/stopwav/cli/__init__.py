"""The command line: one file per verb, each a thin skin over the library function of its name."""

from __future__ import annotations

import errno
import sys

import typer

from stopwav.cli.align import align
from stopwav.cli.compare import compare
from stopwav.cli.demo import demo
from stopwav.cli.diff import diff
from stopwav.cli.doctor import doctor
from stopwav.cli.engines import engines
from stopwav.cli.gate import gate
from stopwav.cli.grid import grid
from stopwav.cli.history import history
from stopwav.cli.init import init
from stopwav.cli.latency import latency
from stopwav.cli.loss import loss
from stopwav.cli.output import EXIT_UNUSABLE
from stopwav.cli.report import report
from stopwav.cli.run import run
from stopwav.cli.shapes import shapes
from stopwav.cli.step import step
from stopwav.errors import StopwavError

app = typer.Typer(
    name="stopwav",
    help="The stopwatch for speech recognition: measures recognisers honestly.",
    no_args_is_help=True,
    add_completion=False,
    # Boxes and colour in the help cost 80 ms of imports, a third of the time it may take.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(short_help="How long a listener waits for each word, and why.")(latency)
app.command(short_help="Run the studies that a YAML file describes.")(run)
app.command(short_help="Write a file for `run` to start from.")(init)
app.command(short_help="Whether it is real-time and fits, over duration × batch size.")(grid)
app.command(short_help="Which model to ship: size, speed, energy, errors side by side.")(compare)
app.command(short_help="Which transducer loss is right, fast and small.")(loss)
app.command(short_help="Frames and tokens of a corpus, for `loss`.")(shapes)
app.command(short_help="Where a training step goes: time and memory of each module.")(step)
app.command(short_help="Measure two recognisers in two minutes.")(demo)
app.command(short_help="Print a run again, or write its page.")(report)
app.command(short_help="Compare two runs: what is faster, slower, the same.")(diff)
app.command(short_help="Fail when a run is worse than its baseline.")(gate)
app.command(short_help="Chart every metric over the runs in a folder.")(history)
app.command(short_help="List the recognisers that can be measured.")(engines)
app.command(short_help="Say what would spoil a measurement here.")(doctor)
app.command(short_help="Find when each word of a corpus is spoken.")(align)


def _version(asked: bool) -> None:
    if asked:
        from stopwav import __version__

        print(f"stopwav {__version__}")
        raise typer.Exit


@app.callback()
def stopwav(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """The stopwatch for speech recognition: measures recognisers honestly."""


def main() -> None:
    """Run the command line; an error is one line on standard error, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal or a locale that has no µ or × shows a question mark, and a run is printed.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        app()
    except StopwavError as error:
        print(f"stopwav: {error}", file=sys.stderr)
        sys.exit(EXIT_UNUSABLE)
    except BrokenPipeError:
        # The reader of our output (head, less) went away: nothing is wrong.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(f"stopwav: what was asked for cannot be printed or written: {error.strerror}", file=sys.stderr)
        sys.stdout = None  # nor can what is left of it
        sys.exit(EXIT_UNUSABLE)
