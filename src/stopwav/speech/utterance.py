"""A corpus in memory: utterances with their transcripts and, where known, the time of every word."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stopwav.errors import Caution
from stopwav.speech.text import normalise


@dataclass(frozen=True)
class Word:
    """One spoken word and when it is spoken, in seconds from the start of its utterance."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Utterance:
    """One utterance: its audio file, its transcript, and its words with their times (empty where these are unknown)."""

    id: str
    path: Path
    text: str
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
    """Return the corpus of `entries` with their places (file:line); one that cannot be measured becomes a problem."""
    utterances: dict[str, Utterance] = {}
    refused = list(problems)
    for where, utterance in entries:
        if utterance.id in utterances:
            refused.append(Problem(where, f"id {utterance.id} appears twice; the first is used: rename this one"))
        elif not os.path.isfile(utterance.path):
            refused.append(Problem(where, f"no audio for {utterance.id}: there is no file {str(utterance.path)!r}"))
        elif not normalise(utterance.text):
            refused.append(
                Problem(where, f"no words in the transcript of {utterance.id}: {utterance.text!r}; add them")
            )
        else:
            utterances[utterance.id] = utterance
    return Corpus(name, tuple(utterances[name] for name in sorted(utterances)), tuple(refused))
