"""Events of a Chrome trace (JSON, plain or gzipped), one at a time: a trace of a gigabyte is never held as a whole."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

Event = dict[str, Any]

# What is read at a time: large beside an event, small beside a machine's memory.
CHUNK_CHARS = 1 << 20
# No event is that long: text that has not closed by then is broken, and would otherwise pull in the rest of the file.
LONGEST_EVENT_CHARS = 1 << 24

_LIST = re.compile(r'"traceEvents"\s*:\s*\[')
# Longer than the key with its colon and bracket, so that one cut in two by a chunk's end is still found.
_KEPT_CHARS = 256
_BETWEEN = re.compile(r"[\s,]*")


class BrokenTrace(Exception):
    """Why a file is not read: it is empty, torn, corrupt, or no trace."""


def read_events(path: Path) -> Iterator[Event]:
    """The events of one file, in its order; BrokenTrace, possibly after some of them, where it is not whole."""
    try:
        if path.stat().st_size == 0:
            raise BrokenTrace("empty")
        with _open(path) as text:
            yield from _events(text)
    except EOFError as error:
        raise BrokenTrace("torn: the compressed data end too early") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise BrokenTrace(f"corrupt: {error}") from error
    except OSError as error:
        raise BrokenTrace(f"cannot be read: {error.strerror or error}") from error


def _open(path: Path) -> TextIO:
    # A byte that is no UTF-8 stands in some name; the rest of the trace is as good as ever.
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open(encoding="utf-8", errors="replace")


def _events(text: TextIO) -> Iterator[Event]:
    buffer, bare = _find_list(text)
    decoder = json.JSONDecoder()
    position = 0
    while True:
        position = _BETWEEN.match(buffer, position).end()  # type: ignore[union-attr]  # it matches nothing, too
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
                raise BrokenTrace("no trace: a list of something else")
            yield event
            continue
        more = text.read(CHUNK_CHARS)
        if not more:
            raise BrokenTrace("torn or corrupt: the list of events does not end")
        buffer, position = buffer[position:] + more, 0


def _find_list(text: TextIO) -> tuple[str, bool]:
    """The text from behind the bracket of the list of events on, and whether the list is the whole file."""
    buffer = text.read(CHUNK_CHARS).lstrip("\ufeff \t\r\n")
    if not buffer:
        raise BrokenTrace("empty")
    if buffer.startswith("["):
        return buffer[1:], True
    if not buffer.startswith("{"):
        raise BrokenTrace("no trace: not JSON")
    while not (found := _LIST.search(buffer)):
        more = text.read(CHUNK_CHARS)
        if not more:
            raise BrokenTrace("no trace: there is no list of traceEvents in it")
        buffer = buffer[-_KEPT_CHARS:] + more
    return buffer[found.end() :], False


def _check_end(rest: str, text: TextIO, bare: bool) -> None:
    """Nothing where the file goes on to its proper end after the list of events."""
    rest += text.read()
    try:
        json.loads(f"[]{rest}" if bare else f'{{"traceEvents": []{rest}')
    except (ValueError, RecursionError) as error:
        raise BrokenTrace("torn or corrupt: it does not end properly after the list of events") from error
