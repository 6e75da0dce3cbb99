"""The command line: one verb per study, made from its settings, and the verbs that belong to none."""

from __future__ import annotations

import errno
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from stopwav.cli.command import Command
from stopwav.errors import StopwavError, suggestion

# The verbs that belong to no study: where each is, and what its line in the help says. Imported when typed.
_VERBS = {
    "run": ("stopwav.cli.run:run", "Run the studies that a YAML file describes."),
    "init": ("stopwav.cli.init:init", "Write a file for `run` to start from."),
    "shapes": ("stopwav.cli.shapes:shapes", "Frames and tokens of a corpus, for `loss`."),
    "demo": ("stopwav.cli.demo:demo", "Measure two recognisers in two minutes."),
    "report": ("stopwav.cli.report:report", "Print a run again, or write its page."),
    "diff": ("stopwav.cli.diff:diff", "Compare two runs: what is faster, slower, the same."),
    "gate": ("stopwav.cli.gate:gate", "Fail when a run is worse than its baseline."),
    "baseline": ("stopwav.cli.baseline:baseline", "Keep runs to compare with, by machine and name."),
    "history": ("stopwav.cli.history:history", "Chart every metric over the runs in a folder."),
    "traces": ("stopwav.cli.traces:traces", "Analyse, compare or merge profiler traces."),
    "engines": ("stopwav.cli.engines:engines", "List the recognisers that can be measured."),
    "doctor": ("stopwav.cli.doctor:doctor", "Say what would spoil a measurement here."),
    "serve": ("stopwav.cli.serve:serve", "Put an engine behind the protocols of servers."),
    "corpus": ("stopwav.cli.corpus:corpus", "Say what is in a corpus, before anything is measured."),
    "align": ("stopwav.cli.align:align", "Find when each word of a corpus is spoken."),
}


class Verbs(TyperGroup):
    """The verbs, each imported when it is typed: the help of the whole stays quick."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The verbs in the order of the help: studies first."""
        from stopwav.studies.study import study_names

        return [*study_names(), *_VERBS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The verb of that name."""
        return verb(cmd_name) if cmd_name in self.list_commands(ctx) else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that the arguments begin with; an unknown one is an error that names the nearest."""
        known = self.list_commands(ctx)
        if args[0] not in known and not ctx.resilient_parsing and not args[0].startswith("-"):
            raise StopwavError(f"unknown command {args[0]!r}: {suggestion(args[0], known)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a line per verb without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _line(name)) for name in self.list_commands(ctx)])


def verb(name: str) -> Any:
    """Return the command of a verb."""
    kind: type[Command] = Command
    if name in _VERBS:
        from importlib import import_module

        module, _, attribute = _VERBS[name][0].partition(":")
        function = getattr(import_module(module), attribute)
        if isinstance(function, typer.Typer):  # a verb with verbs of its own
            return typer.main.get_command(function)
    else:
        from stopwav.cli.study_verb import command_class, study_verb
        from stopwav.studies.study import find_study

        study = find_study(name)
        kind, function = command_class(study), study_verb(study)
    single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    single.command(name, cls=kind, context_settings={"help_option_names": ["-h", "--help"]})(function)
    return typer.main.get_command(single)


def _line(name: str) -> str:
    from stopwav.studies.study import LISTED, find_study

    if name in _VERBS:
        return _VERBS[name][1]
    return LISTED[name][0] if name in LISTED else find_study(name).question


app = typer.Typer(
    name="stopwav",
    cls=Verbs,
    help="The stopwatch for speech recognition: measures recognisers honestly.",
    no_args_is_help=True,
    # Boxes and colour in the help cost 80 ms of imports, a third of the time it may take.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; an error is one line on standard error, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        # Where the locale has no µ or ×, print a question mark rather than fail.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        app(arguments)
    except StopwavError as error:
        _print_error(str(error))
        sys.exit(2)
    except KeyboardInterrupt:  # where nothing was being measured
        sys.exit(130)
    except MemoryError:
        _print_error("not enough memory for this; give it less at a time, or lift the limit (ulimit -v)")
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output (head, less) went away: nothing is wrong.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            _print_error(f"cannot print or write the output: {error.strerror}")
            sys.stdout = None  # the rest of it cannot be printed either
        elif error.filename is not None:  # such as one that may not be read, or a name that is too long
            _print_error(f"cannot use {error.filename} ({error.strerror}); name another file")
        else:
            raise
        sys.exit(2)


def _print_error(message: str) -> None:
    """Print an error; names and texts from files in it are shown, and do nothing to the terminal."""
    from stopwav.report.text import plain

    # A path may have 4096 characters, and what to do comes after it.
    print(f"stopwav: {plain(message, 5000)}", file=sys.stderr)
