"""What goes wrong: an error is raised, a caution travels beside the number it touches."""

from __future__ import annotations

from dataclasses import dataclass


class StopwavError(Exception):
    """What failed, with which value, and what to do about it, in one line for the user."""


@dataclass(frozen=True)
class Caution:
    """A doubt about a number: a stable code for machines, and for people the cause and the next step."""

    code: str
    message: str
