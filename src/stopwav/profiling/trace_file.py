"""Events of a Chrome trace (JSON, plain or gzipped), one at a time: a gigabyte is never read into memory at once."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

Event = dict[str, Any]

# Characters read at a time: many events, and little memory.
CHUNK_CHARS = 1 << 20
# No event is that long: one that has not ended by then is broken, and would otherwise read the rest of the file.
LONGEST_EVENT_CHARS = 1 << 24

_LIST = re.compile(r'"traceEvents"\s*:\s*\[')
# Longer than the key with its colon and bracket, so that one cut in two by a chunk's end is still found.
_KEPT_CHARS = 256
_BETWEEN = re.compile(r"[\s,]*")


class BrokenTrace(Exception):
    """The reason why a file is skipped: it is empty, truncated, corrupt, or not a trace."""


def read_events(path: Path) -> Iterator[Event]:
    """Yield the events of one file in order; raise BrokenTrace, possibly after some of them, if it is broken."""
    try:
        if path.stat().st_size == 0:
            raise BrokenTrace("empty")
        with _open(path) as text:
            yield from _events(text)
    except EOFError as error:
        raise BrokenTrace("truncated: the compressed data end too early") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise BrokenTrace(f"corrupt: {error}") from error
    except OSError as error:
        raise BrokenTrace(f"cannot be read: {error.strerror or error}") from error


def _open(path: Path) -> TextIO:
    # A byte that is not UTF-8 is part of some name; the rest of the trace is fine.
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open(encoding="utf-8", errors="replace")


def _events(text: TextIO) -> Iterator[Event]:
    buffer, bare = _find_list(text)
    decoder = json.JSONDecoder()
    position = 0
    while True:
        position = _BETWEEN.match(buffer, position).end()  # type: ignore[union-attr]  # always matches
        if buffer[position : position + 1] == "]":
            _check_end(buffer[position + 1 :], text, bare)
            return
        event = None
        if buffer[position : position + 1] not in ("{", ""):
            raise BrokenTrace(f"corrupt: {buffer[position : position + 20]!r} where an event should begin")
        try:
            if position < len(buffer):
                event, position = decoder.raw_decode(buffer, position)
        except (ValueError, RecursionError) as error:
            if not isinstance(error, json.JSONDecodeError | RecursionError):  # a number of thousands of digits
                raise BrokenTrace(f"corrupt: {error}") from error
            if len(buffer) - position > LONGEST_EVENT_CHARS:
                raise BrokenTrace("corrupt: an event that does not end") from error
        if event is not None:
            if bare and "ph" not in event:
                raise BrokenTrace("not a trace: a list of something else")
            yield event
            continue
        more = text.read(CHUNK_CHARS)
        if not more:
            raise BrokenTrace("truncated or corrupt: the list of events does not end")
        buffer, position = buffer[position:] + more, 0


def _find_list(text: TextIO) -> tuple[str, bool]:
    """Return the text after the opening bracket of the list of events, and whether the list is the whole file."""
    buffer = text.read(CHUNK_CHARS).lstrip("\ufeff \t\r\n")
    if not buffer:
        raise BrokenTrace("empty")
    if buffer.startswith("["):
        return buffer[1:], True
    if not buffer.startswith("{"):
        raise BrokenTrace("not a trace: not JSON")
    while not (match := _LIST.search(buffer)):
        more = text.read(CHUNK_CHARS)
        if not more:
            raise BrokenTrace("not a trace: it has no list of traceEvents")
        buffer = buffer[-_KEPT_CHARS:] + more
    return buffer[match.end() :], False


def _check_end(rest: str, text: TextIO, bare: bool) -> None:
    """Raise unless the file continues to its proper end after the list of events."""
    rest += text.read()
    try:
        json.loads(f"[]{rest}" if bare else f'{{"traceEvents": []{rest}')
    except (ValueError, RecursionError) as error:
        raise BrokenTrace("truncated or corrupt: it does not end properly after the list of events") from error
