"""The command of a verb: a value of the wrong kind is an error in one line, as every other is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer import BadParameter
from typer.core import TyperCommand

from stopwav.errors import StopwavError


class Command(TyperCommand):
    """A command that says in one line what is wrong with a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; the value of an option that is not of its type is an error that names both."""
        given = list(args)  # reading uses them up
        try:
            return super().parse_args(ctx, args)
        except BadParameter as error:
            flags = [] if error.param is None else list(error.param.opts)
            values = _values(flags, given)
            if not values:
                raise
            raise StopwavError(f"{max(flags, key=len)} {values[0][:80]!r}: {_reason(error.message)}") from None


def _reason(message: str) -> str:
    """What typer says of a value, as a sentence of ours."""
    line = " ".join(message.split())
    return line.replace("Input should", "should").partition(", unable")[0]


def _values(flags: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """The values that follow one of these flags, or an equals sign after it."""
    values: list[str] = []
    for position, argument in enumerate(arguments):
        flag, equals, text = argument.partition("=")
        if flag in flags:
            values += [text] if equals else arguments[position + 1 : position + 2]
    return values
