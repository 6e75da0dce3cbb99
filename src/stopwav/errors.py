"""What goes wrong: an error is raised, a status ends a piece of work, a caution stands beside a number."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

# How a piece of work ended. Everything but `ok` comes with a message.
Status = Literal["ok", "skipped", "oom", "timeout", "crashed", "error"]


class StopwavError(Exception):
    """What failed, with which value, and what to do about it, in one line for the user."""


@dataclass(frozen=True)
class Caution:
    """A doubt about a number: a stable code for machines, and for people the cause and the next step."""

    code: str
    message: str


def suggestion(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """What to do about a name that is not known: take the one that it resembles, or one of all there are."""
    import difflib

    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}{otherwise}"
