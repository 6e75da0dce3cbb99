"""A trace file: its events one at a time, and the metadata around them."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from stopwav.errors import StopwavError

Event = dict[str, Any]

# Characters read at a time: many events, and little memory.
CHUNK_CHARS = 1 << 20
# No event is that long: one that has not ended by then is broken, and would otherwise read the rest of the file.
LONGEST_EVENT_CHARS = 1 << 24
# Nor is what stands before the events: a file of another kind would otherwise be read whole to find none.
LONGEST_HEAD_CHARS = 1 << 26

# Nanoseconds of more do not fit into 64 bits: a time of more is no time.
LATEST_US = 9e15

TRACE_SUFFIXES = (".json", ".json.gz")

_LIST = re.compile(r'"traceEvents"\s*:\s*\[')
# Longer than the key with its colon and bracket, so that one cut in two by a chunk's end is still found.
_KEPT_CHARS = 256
_BETWEEN = re.compile(r"[\s,]*")
_GZIP = b"\x1f\x8b"


class BrokenTrace(Exception):
    """The reason why a file is skipped: it is empty, truncated, corrupt, or not a trace."""


class TraceFile:
    """One file in Chrome's trace format: an object with `traceEvents`, or a bare list of events.

    `metadata` has the other keys of the object, and `unterminated` says that a bare list has no closing bracket, which
    the format allows; both are known when the events have been read to the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, Any] = {}
        self.unterminated = False

    def events(self) -> Iterator[Event]:
        """Yield the events in order; raise BrokenTrace, possibly after some of them, if the file is broken."""
        try:
            if self.path.stat().st_size == 0:
                raise BrokenTrace("empty")
            with _open(self.path) as text:
                yield from self._events(text)
        except EOFError as error:
            raise BrokenTrace("truncated: the compressed data end too early") from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise BrokenTrace(f"corrupt: {error}") from error
        except OSError as error:
            raise BrokenTrace(f"cannot be read: {error.strerror or error}") from error

    def _events(self, text: TextIO) -> Iterator[Event]:
        head, buffer = _find_list(text)
        bare = head == "["
        # NaN and control characters are not JSON, and are found in traces.
        decoder = json.JSONDecoder(strict=False, parse_constant=lambda name: None)
        position = 0
        while True:
            position = _BETWEEN.match(buffer, position).end()  # type: ignore[union-attr]  # always matches
            if buffer[position : position + 1] == "]":
                self.metadata = _metadata(head, buffer[position:] + text.read())
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
                if bare and position == len(buffer):
                    self.unterminated = True
                    return
                raise BrokenTrace("truncated or corrupt: the list of events does not end")
            buffer, position = buffer[position:] + more, 0


def trace_files(place: Path, verb: str) -> list[Path]:
    """Return the file, or every trace in the folder and below it, in the order of their names."""
    if place.is_dir():
        return sorted(path for path in place.rglob("*") if path.name.endswith(TRACE_SUFFIXES) and path.is_file())
    if not place.exists():
        raise StopwavError(f"{verb}: {str(place)!r} does not exist; give a trace, or a folder of traces")
    return [place]


def time_ns(value: object) -> int | None:
    """Return a time or length of an event, in microseconds, as whole nanoseconds; None where it is neither.

    Some tools write it as a text.
    """
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -LATEST_US < value < LATEST_US:
        return None
    whole = int(value)
    # In two parts: microseconds since 1970, times a thousand, are more than a float holds.
    return 1000 * whole + round(1000 * (value - whole))


def _open(path: Path) -> TextIO:
    with path.open("rb") as file:
        compressed = path.suffix == ".gz" or file.read(2) == _GZIP
    # A byte that is not UTF-8 is part of some name; the rest of the trace is fine.
    if compressed:
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open(encoding="utf-8", errors="replace")


def _find_list(text: TextIO) -> tuple[str, str]:
    """Return the text up to and with the opening bracket of the list of events, and the beginning of the rest."""
    buffer = text.read(CHUNK_CHARS).lstrip("\ufeff \t\r\n")
    if not buffer:
        raise BrokenTrace("empty")
    if buffer.startswith("["):
        return "[", buffer[1:]
    if not buffer.startswith("{"):
        raise BrokenTrace("not a trace: not JSON")
    searched = 0
    while not (match := _LIST.search(buffer, searched)):
        if not searched and _is_run(buffer):
            raise BrokenTrace("not a trace but a run file: traces of a run lie in the folder RUN-traces next to it")
        searched = max(0, len(buffer) - _KEPT_CHARS)
        more = text.read(CHUNK_CHARS)
        if not more or len(buffer) > LONGEST_HEAD_CHARS:
            raise BrokenTrace("not a trace: it has no list of traceEvents")
        buffer += more
    return buffer[: match.end()], buffer[match.end() :]


def _is_run(text: str) -> bool:
    """Whether the first line is the header of a run file."""
    try:
        header = json.loads(text.partition("\n")[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and header.get("kind") == "header" and "study" in header


def _metadata(head: str, rest: str) -> dict[str, Any]:
    """Return the keys around the list of events; raise unless the file continues to its proper end after it."""
    try:
        whole = json.loads(head + rest, strict=False)
    except (ValueError, RecursionError) as error:
        raise BrokenTrace("truncated or corrupt: it does not end properly after the list of events") from error
    return {key: value for key, value in whole.items() if key != "traceEvents"} if isinstance(whole, dict) else {}
