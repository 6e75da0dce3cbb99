"""A corpus: utterances with their transcripts and, where known, the time of every word."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Word:
    """One spoken word and when it is spoken, in seconds from the start of its utterance."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Utterance:
    """One utterance: where its audio lies, what is said, and when (`words` is empty where the times are unknown)."""

    id: str
    path: Path
    text: str
    start_s: float = 0.0
    end_s: float | None = None
    words: tuple[Word, ...] = ()
    speaker: str = ""


@dataclass(frozen=True)
class Problem:
    """Something in a corpus that could not be used: which (an id, or file:line), and why and what to do."""

    where: str
    message: str


@dataclass(frozen=True)
class Corpus:
    """The usable utterances of a corpus, in a fixed order, and what of it could not be used."""

    name: str
    utterances: tuple[Utterance, ...]
    problems: tuple[Problem, ...] = ()
