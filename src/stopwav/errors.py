"""What goes wrong: an error is raised, a status ends a piece of work, a caution stands beside a number."""

from __future__ import annotations

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
