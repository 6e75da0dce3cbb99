"""Warnings of results: each shown once, numbered, with the results that it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stopwav.record import Result
from stopwav.report.plain import plain

# Engines are told apart by their settings, which stand at the end of a name.
LONGEST_NAME = 100


@dataclass(frozen=True)
class Footnote:
    """One warning of a run: its number, its code and message, and the results it is about."""

    number: int
    code: str
    message: str
    names: tuple[str, ...]
    everyone: bool

    @property
    def text(self) -> str:
        """The message, safe to show, with the results where it is not about all."""
        whom = "" if self.everyone else f"{', '.join(plain(name, LONGEST_NAME) for name in self.names)}: "
        return f"{whom}{plain(self.message)}"


def footnotes(results: Sequence[Result]) -> list[Footnote]:
    """Return the warnings of all results, each once, numbered from 1."""
    names_by_warning: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for warning in result.warnings:
            names_by_warning.setdefault((warning.code, warning.message), []).append(result.name)
    return [
        Footnote(number, code, message, tuple(names), len(names) == len(results))
        for number, ((code, message), names) in enumerate(names_by_warning.items(), start=1)
    ]
