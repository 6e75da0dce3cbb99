"""A corpus in memory: utterances with their transcripts, where they have one, and the time of every word."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from stopwav.errors import Caution, StopwavError
from stopwav.speech.language import language_code
from stopwav.speech.normaliser import STOPWAV, Normaliser, spoken_words

# What is being done, how much of it is done, and of how much.
Progress = Callable[[str, int, int], None]

# Four hours: longer than any meeting, call or chapter of a corpus, and 0.9 GB of samples at 16 kHz. A few hundred
# kilobytes of FLAC can hold days of silence, which no memory does.
LONGEST_S = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class Word:
    """One spoken word and when it is spoken, in seconds from the start of its utterance."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class ByteRange:
    """The bytes of a file that are an audio file of their own, such as a member of a tar archive."""

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Utterance:
    """One utterance: its audio file, its transcript (None where it has none), and its words with their times.

    The words are empty where their times are unknown. Without a channel, counted from 0, it is the mean of all.
    """

    id: str
    path: Path
    text: str | None
    start_s: float = 0.0
    end_s: float | None = None
    words: tuple[Word, ...] = ()
    speaker: str = ""
    # The code of its language, such as `de`; "" where it is not known.
    language: str = ""
    channel: int | None = None
    byte_range: ByteRange | None = None
    # By which its text is compared. The words are in its spelling once the utterance is in a run, and before that as
    # they are spoken.
    normaliser: Normaliser = STOPWAV


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
    # What found the word times, with its version; "" where nothing had to.
    aligner: str = ""

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that are spoken in it, as far as they are known."""
        return tuple(sorted({utterance.language for utterance in self.utterances} - {""}))

    @property
    def digest(self) -> str:
        """16 hex digits that change with any id, text, time, channel or audio file size, and with nothing else.

        The audio itself is not hashed, since reading a large corpus takes minutes: a file replaced by another of the
        same size goes unnoticed. The location of the corpus does not matter.
        """
        digest = hashlib.sha256()
        for utterance in sorted(self.utterances, key=lambda utterance: utterance.id):
            words = [(word.text, word.start_s, word.end_s) for word in utterance.words]
            piece = [utterance.id, utterance.text, _size_bytes(utterance), utterance.start_s, utterance.end_s, words]
            channel = [] if utterance.channel is None else [utterance.channel]
            digest.update(json.dumps([*piece, *channel]).encode() + b"\n")
        return digest.hexdigest()[:16]


def _size_bytes(utterance: Utterance) -> int:
    """The size of the audio file, -1 where there is none."""
    if utterance.byte_range is not None:
        return utterance.byte_range.size
    return os.path.getsize(utterance.path) if os.path.isfile(utterance.path) else -1


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
            missing = f"{str(utterance.path)!r} {no_file_reason(utterance.path)}"
            refused.append(Problem(where, f"no audio for {utterance.id}: {missing}"))
        elif utterance.end_s is not None and utterance.end_s - utterance.start_s > LONGEST_S:
            refused.append(Problem(where, too_long(utterance.end_s - utterance.start_s)))
        else:
            language = language_code(utterance.language)
            spoken = spoken_words(utterance.text or "", language)
            text = utterance.text if spoken else None
            utterances[utterance.id] = replace(utterance, text=text, language=language)
    return Corpus(name, tuple(utterances[name] for name in sorted(utterances)), tuple(refused))


def no_file_reason(path: Path) -> str:
    """Return why a path is not that of a file which can be read to its end."""
    if os.path.isdir(path):
        return "is a folder, not a file"
    if os.path.islink(path) and not os.path.exists(path):
        return "is a link to nothing"
    return "is a pipe, a socket or a device, not a file" if os.path.exists(path) else "does not exist"


def too_long(duration_s: float) -> str:
    """Return what to do about an utterance that is longer than any can be."""
    return (
        f"{duration_s / 3600:.3g} h are too long for one utterance, {LONGEST_S / 3600:g} h at most; cut it into "
        "segments, for example with a manifest of offsets and durations"
    )


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

    A file whose name ends in .gz is decompressed. `shown` is the file's name in places and problems, where its bare
    name would be ambiguous.
    """
    content = read_file(path)
    if path.suffix == ".gz":
        content = _decompressed(content, path)
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


def read_file(path: Path) -> bytes:
    """Return the content of a file; a pipe or a device, which may have no end, is an error as is what is not there."""
    if not os.path.isfile(path):
        raise StopwavError(f"cannot read {one_line(str(path))}: it {no_file_reason(path)}; correct or remove it")
    try:
        return path.read_bytes()
    except OSError as error:
        raise StopwavError(f"cannot read {one_line(str(path))} ({error.strerror}); check its permissions") from None


def _decompressed(content: bytes, path: Path) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise StopwavError(f"cannot read {one_line(str(path))} ({error}); write or download it again") from None


def one_line(text: str) -> str:
    """Return the text on one line, without what cannot be printed or saved (lone surrogates, control characters)."""
    return " ".join(_CONTROL.sub(" ", text.encode("utf-8", "replace").decode()).split())


def id_of(name: str) -> str:
    """Return a name as an id: without spaces and unprintable characters, for CTM files, tables and log lines."""
    return "".join(character if character.isprintable() and character != " " else "_" for character in name) or "_"
