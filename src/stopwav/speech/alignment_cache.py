"""Alignments on disk: what was aligned once is not aligned again, and an interrupted alignment continues.

The cache only ever saves time: where it is damaged, locked, full or cannot be written, word times are found again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stopwav.speech.utterance import Word

if TYPE_CHECKING:
    import sqlite3

FILE_NAME = "alignments.sqlite3"

# Twice the word times of LibriSpeech's 281 thousand utterances. Beyond this the oldest quarter is dropped.
LARGEST_BYTES = 500_000_000

# Another process holds the file for the milliseconds of a write; one that was stopped meanwhile is not waited for.
LOCK_WAIT_S = 5.0


@dataclass(frozen=True)
class AlignedWords:
    """The words of an utterance with their times, and those of which the aligner had to guess something."""

    words: tuple[Word, ...]
    guessed: tuple[str, ...] = ()


def alignment_key(samples: NDArray[np.int16], words: Sequence[str], aligner: Sequence[str | int]) -> str:
    """Return what identifies an alignment: the audio, the words, and what aligns them with its version."""
    digest = hashlib.sha256(json.dumps([*aligner, list(words)]).encode())
    digest.update(np.ascontiguousarray(samples).data)
    return digest.hexdigest()


class AlignmentCache:
    """The alignments in a folder, by key; each is in the file when `put` returns. Processes may share the folder."""

    def __init__(self, folder: Path | None) -> None:
        self._path = None if folder is None else folder / FILE_NAME
        self._database: sqlite3.Connection | None = None

    def __enter__(self) -> AlignmentCache:
        with contextlib.suppress(Exception):  # whatever is wrong with the place, it is only a slower start
            self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def get(self, key: str, words: Sequence[str]) -> AlignedWords | None:
        """Return the alignment of these words under a key; None where there is none that can be used."""
        rows = self._execute("SELECT alignment FROM alignments WHERE key = ?", key)
        return _parsed(rows[0][0], words) if rows else None

    def put(self, key: str, alignment: AlignedWords) -> None:
        """Store an alignment."""
        times = [[word.text, word.start_s, word.end_s] for word in alignment.words]
        text = json.dumps([times, alignment.guessed], separators=(",", ":"))
        self._execute("INSERT OR REPLACE INTO alignments (key, alignment) VALUES (?, ?)", key, text)
        if self._size_bytes() > LARGEST_BYTES:
            self._execute(
                "DELETE FROM alignments WHERE rowid < "
                "(SELECT rowid FROM alignments ORDER BY rowid LIMIT 1 OFFSET (SELECT count(*) / 4 + 1 FROM alignments))"
            )

    def _open(self) -> None:
        import sqlite3  # a Python may be built without it

        if self._path is None or (os.path.lexists(self._path) and not os.path.isfile(self._path)):
            return  # a pipe or a device is never opened
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Each statement is a transaction of its own, which a killed process leaves whole or not at all.
        self._database = sqlite3.connect(self._path, timeout=LOCK_WAIT_S, isolation_level=None)
        # Without a wait for the disk: what a power failure damages is found again.
        self._execute("PRAGMA synchronous = OFF")
        self._execute("CREATE TABLE IF NOT EXISTS alignments (key TEXT UNIQUE, alignment TEXT)")

    def _size_bytes(self) -> int:
        pages = [self._execute(f"PRAGMA {name}") for name in ("page_count", "freelist_count", "page_size")]
        if not all(pages):
            return 0
        total, free, size_bytes = (int(rows[0][0]) for rows in pages)
        return (total - free) * size_bytes

    def _execute(self, statement: str, *values: str) -> list[Any]:
        """Return the rows of a statement; after an error there are none, and the cache is not used any more."""
        if self._database is None:
            return []
        import sqlite3

        try:
            return self._database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            self._close()
            if error.sqlite_errorcode in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) and self._path is not None:
                with contextlib.suppress(OSError):
                    self._path.unlink()  # the next process starts a new one
            return []

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _parsed(text: object, words: Sequence[str]) -> AlignedWords | None:
    """Return the alignment that a row holds; None where it is not one of these words."""
    try:
        times, guessed = json.loads(str(text))
        aligned = tuple(Word(str(word), float(start_s), float(end_s)) for word, start_s, end_s in times)
    except (ValueError, TypeError, RecursionError):
        return None
    if [word.text for word in aligned] != list(words) or not isinstance(guessed, list):
        return None
    return AlignedWords(aligned, tuple(map(str, guessed)))
