"""A corpus in memory: utterances with their transcripts, where they have one, and the time of every word."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from stopwav.errors import Caution, StopwavError
from stopwav.speech.text import normalise


@dataclass(frozen=True)
class Word:
    """One spoken word and when it is spoken, in seconds from the start of its utterance."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Utterance:
    """One utterance: its audio file, its transcript (None where it has none), and its words with their times.

    The words are empty where their times are unknown.
    """

    id: str
    path: Path
    text: str | None
    start_s: float = 0.0
    end_s: float | None = None
    words: tuple[Word, ...] = ()
    speaker: str = ""


@dataclass(frozen=True)
class Problem:
    """A part of a corpus that cannot be used: where it is (an id, or file:line), why, and what to do."""

    where: str
    message: str


@dataclass(frozen=True)
class Corpus:
    """The usable utterances of a corpus, sorted by id, the problems with the others, and warnings about the usable."""

    name: str
    utterances: tuple[Utterance, ...]
    problems: tuple[Problem, ...] = ()
    cautions: tuple[Caution, ...] = ()

    @property
    def digest(self) -> str:
        """16 hex digits that change with any id, text, time or audio file size, and with nothing else.

        The audio itself is not hashed, since reading a large corpus takes minutes: a file replaced by another of the
        same size goes unnoticed. The location of the corpus does not matter.
        """
        digest = hashlib.sha256()
        for utterance in self.utterances:
            words = [(word.text, word.start_s, word.end_s) for word in utterance.words]
            size_bytes = os.path.getsize(utterance.path) if os.path.isfile(utterance.path) else -1
            piece = (utterance.id, utterance.text, size_bytes, utterance.start_s, utterance.end_s, words)
            digest.update(json.dumps(piece).encode() + b"\n")
        return digest.hexdigest()[:16]


def assemble(name: str, entries: Iterable[tuple[str, Utterance]], problems: Iterable[Problem]) -> Corpus:
    """Return the corpus of `entries` with their places (file:line); one that cannot be measured becomes a problem.

    A transcript without a word is none: nothing can be counted against it.
    """
    utterances: dict[str, Utterance] = {}
    refused = list(problems)
    for where, utterance in entries:
        if utterance.id in utterances:
            refused.append(Problem(where, f"id {utterance.id} appears twice; the first is used: rename this one"))
        elif not os.path.isfile(utterance.path):
            refused.append(Problem(where, f"no audio for {utterance.id}: there is no file {str(utterance.path)!r}"))
        else:
            spoken = normalise(utterance.text or "")
            utterances[utterance.id] = utterance if spoken else replace(utterance, text=None)
    return Corpus(name, tuple(utterances[name] for name in sorted(utterances)), tuple(refused))


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
