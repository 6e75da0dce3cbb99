"""Options that several verbs share, how their lists of numbers are read, and verbs that have verbs of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from stopwav.errors import StopwavError

Number = TypeVar("Number", int, float)

# The budget that --quick stands for.
QUICK = "60s"
Quick = Annotated[bool, typer.Option("--quick", help="A budget of one minute: the same as --budget 60s.")]
Save = Annotated[Path, typer.Option(help="Folder for the run file.")]
EveryMetric = Annotated[bool, typer.Option("--all", help="Print every metric with its interval.")]
PrintTexts = Annotated[
    bool,
    typer.Option("--print-texts", help="Print the recognised texts after the tables, with transcripts and errors."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
NoHtml = Annotated[
    bool, typer.Option("--no-html", help="Write no page next to the run file; --json writes none either.")
]
Scientific = Annotated[
    bool, typer.Option("--scientific", help="Show a grid as real-time factors in the notation 4.08E-02.")
]
Unfold = Annotated[bool, typer.Option("--unfold", help="Show the repeated layers of a step one by one.")]
Labels = Annotated[
    str | None,
    typer.Option(metavar="PATTERN", help="Print only the rows of a step whose label matches, such as rnnt."),
]


def verb_group(purpose: str) -> typer.Typer:
    """Return a verb that has verbs of its own; its help looks like that of all others."""
    return typer.Typer(
        help=purpose,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def read_numbers(option: str, text: str, kind: Callable[[str], Number], example: str) -> list[Number]:
    """Return the numbers that an option lists with commas, all of one kind: whole, or any."""
    numbers = []
    for part in text.split(","):
        try:
            numbers.append(kind(part))
        except ValueError:
            what = "whole number" if kind is int else "number"
            raise StopwavError(
                f"{option}: {part[:80]!r} is not a {what}; write them with commas, such as {example}"
            ) from None
    return numbers
