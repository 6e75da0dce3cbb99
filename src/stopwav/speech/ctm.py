"""CTM, the NIST format of word times: `id channel start duration word [confidence]`, one word a line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.speech.corpus import Word


def read(path: Path) -> dict[str, tuple[Word, ...]]:
    """The words of each id, in the order of the file; whether the times make sense is for the user of them to judge."""
    words: dict[str, list[Word]] = {}
    channels: dict[str, str] = {}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise StopwavError(f"{path} cannot be read as a CTM file ({error}); give UTF-8 text, one word a line") from None
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.split()
        if not fields or fields[0].startswith(";;"):
            continue
        where = f"{path}:{number}"
        if len(fields) not in (5, 6):
            raise StopwavError(
                f"{where}: {len(fields)} fields, not 5 or 6; a line is `id channel start duration word [confidence]`"
            )
        name, channel = fields[0], fields[1]
        if channels.setdefault(name, channel) != channel:
            raise StopwavError(f"{where}: {name} has channels {channels[name]} and {channel}; keep the words of one")
        start_s, duration_s = _seconds(where, fields[2]), _seconds(where, fields[3])
        # The sum of two decimals is rounded to what the format can say, so that reading and writing are inverse.
        words.setdefault(name, []).append(Word(fields[4], start_s, round(start_s + duration_s, 6)))
    return {name: tuple(found) for name, found in words.items()}


def write(path: Path, words: Mapping[str, Sequence[Word]]) -> None:
    """Nothing; the file holds the words sorted by id, times to a tenth of a millisecond, the same bytes each time."""
    lines = []
    for name in sorted(words):
        for word in words[name]:
            for field in (name, word.text):
                if len(field.split()) != 1 or field != field.strip() or field.startswith(";;"):
                    raise StopwavError(
                        f"{field!r} cannot stand in a CTM file; use a name without spaces or a leading ;;"
                    )
            start_s = round(word.start_s, 4)
            lines.append(f"{name} 1 {start_s:.4f} {round(word.end_s, 4) - start_s:.4f} {word.text}\n")
    try:
        path.write_bytes("".join(lines).encode())  # encoded first, so that a failure leaves an older file whole
    except UnicodeEncodeError as error:
        raise StopwavError(f"{path} cannot be written: {error}; correct the ids and words") from None


def _seconds(where: str, field: str) -> float:
    try:
        seconds = float(field)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise StopwavError(f"{where}: {field!r} is not a time in seconds; correct the line")
    return seconds
