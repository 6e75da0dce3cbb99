"""Lines of the text files that describe a corpus, each with its place for error messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.speech.utterance import Problem

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Line:
    """One line that is not blank: its place (file:number) and its text, stripped."""

    where: str
    text: str

    def split_first(self) -> tuple[str, str]:
        """Return the first word of the line and the rest, which may be empty."""
        first, *rest = self.text.split(maxsplit=1)
        return first, rest[0] if rest else ""


def read_lines(path: Path, shown: str = "") -> tuple[list[Line], list[Problem]]:
    """Return the lines of a file, with or without BOM and carriage returns, and a problem for each that is not UTF-8.

    `shown` is the file's name in places and problems, where its bare name would be ambiguous.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StopwavError(f"cannot read {path} ({error.strerror}); check its permissions") from None
    lines: list[Line] = []
    problems: list[Problem] = []
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        where = f"{shown or path.name}:{number}"
        try:
            text = raw.decode("utf-8").strip()
        except UnicodeDecodeError:
            problems.append(Problem(where, "not UTF-8; convert the file, for example with iconv -f latin1 -t utf-8"))
            continue
        if text:
            lines.append(Line(where, text))
    return lines, problems


def one_line(text: str) -> str:
    """Return the text on one line, without what cannot be printed or saved (lone surrogates, control characters)."""
    return " ".join(_CONTROL.sub(" ", text.encode("utf-8", "replace").decode()).split())


def id_of(name: str) -> str:
    """Return a name as an id: without spaces and unprintable characters, for CTM files, tables and log lines."""
    return "".join(character if character.isprintable() and character != " " else "_" for character in name) or "_"
