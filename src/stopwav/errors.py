"""Errors, which are raised; the status in which a piece of work ended; and warnings about a number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

# How a piece of work ended. Everything but `ok` comes with a message.
Status = Literal["ok", "skipped", "oom", "timeout", "crashed", "error"]


class StopwavError(Exception):
    """An error for the user, in one line: what failed, with which value, and what to do about it."""


@dataclass(frozen=True)
class Caution:
    """A warning about a number: a stable code for machines, and for people the cause and the next step."""

    code: str
    message: str


def suggestion(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return advice on an unknown name: the known name most like it, or else `otherwise`, or else all of them."""
    import difflib

    names = list(known)
    similar = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {similar[0]!r}?" if similar else otherwise or f"there are {', '.join(names)}"
