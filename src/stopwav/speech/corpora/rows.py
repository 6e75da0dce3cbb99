"""A row of a manifest, a table or a dataset as an utterance: which of its columns hold what."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from stopwav.errors import StopwavError
from stopwav.speech.corpora.name import CorpusName
from stopwav.speech.utterance import Utterance, id_of, one_line


@dataclass(frozen=True)
class Columns:
    """The name of the column of each part of an utterance, as the field names them; "" where there is none."""

    audio: str = ""
    text: str = ""
    id: str = ""
    speaker: str = ""
    language: str = ""
    offset: str = ""
    duration: str = ""
    end: str = ""


# The names that each column has in NeMo, Common Voice, SpeechBrain, audiofolder and most datasets of the Hub, those
# that are meant first.
NAMES = {
    "audio": ("audio_filepath", "audio", "file_name", "path", "wav", "audio_path", "file", "filename"),
    "text": ("text", "sentence", "transcript", "transcription", "normalized_text", "wrd"),
    "id": ("id", "utt_id", "utterance_id", "segment_id", "key"),
    "speaker": ("speaker", "speaker_id", "client_id", "spk_id"),
    "language": ("language", "locale", "lang", "source_lang"),
    "offset": ("offset", "start", "start_s"),
    "duration": ("duration", "duration_s"),
    "end": ("end", "end_s"),
}

# The options that name a column.
COLUMN_OPTIONS = tuple(NAMES)


def choose_columns(name: CorpusName, present: Collection[str]) -> Columns:
    """Return the columns that the options name, else those with a usual name, whatever its case."""
    spelled = {column.lower(): column for column in reversed(list(present))}
    chosen: dict[str, str] = {}
    for part in NAMES:
        column = name.options.get(part)
        if column is not None and column not in present:
            columns = ", ".join(one_line(name) for name in present)
            raise StopwavError(f"corpus {name}: there is no column {column!r} for {part}; it has {columns}")
        usual = next((spelled[usual] for usual in NAMES[part] if usual in spelled), "")
        chosen[part] = usual if column is None else column
    return Columns(**chosen)


def row_utterance(folder: Path, row: Mapping[str, object], columns: Columns) -> Utterance | str:
    """Return the utterance that a row describes, or what is wrong with it; audio paths are relative to the folder."""
    row = {key: value for key, value in row.items() if key}  # no column at all has the name ""
    audio, text = row.get(columns.audio), row.get(columns.text)
    if audio is None:
        return f"key {columns.audio or 'audio_filepath'!r} is missing; add it"
    for key, value in ((columns.audio, audio), (columns.text, text)):
        if value is not None and not isinstance(value, str):
            return f"key {key!r} is {_shown(value)}, not a string; correct it"
    times = _times(row, columns)
    if isinstance(times, str):
        return times
    start_s, end_s = times
    return Utterance(
        id=_id(folder, row.get(columns.id), str(audio), start_s),
        path=folder / str(audio),  # an absolute path stays as it is
        text=None if text is None else one_line(str(text)),
        start_s=start_s,
        end_s=end_s,
        speaker=label(row.get(columns.speaker)),
        language=label(row.get(columns.language)),
    )


def label(value: object) -> str:
    """Return the name of a speaker or a language, "" where the value is none."""
    return one_line(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _times(row: Mapping[str, object], columns: Columns) -> tuple[float, float | None] | str:
    """Return when the utterance starts and ends in its file, or which time is wrong."""
    start_s, duration_s, end_s = (_seconds(row.get(key)) for key in (columns.offset, columns.duration, columns.end))
    pairs = ((columns.offset, start_s), (columns.duration, duration_s), (columns.end, end_s))
    for key, seconds in pairs:
        if seconds is not None and not seconds >= 0.0:
            return f"key {key!r} is {_shown(row[key])}, not a number of seconds; correct it"
    if duration_s == 0.0:
        return f"key {columns.duration!r} is 0: there is nothing to recognise; correct or remove the line"
    start_s = start_s or 0.0
    if duration_s is not None:
        return start_s, start_s + duration_s
    if end_s is not None and end_s <= start_s:
        return f"an utterance cannot last from {start_s:g} s to {end_s:g} s; correct its times"
    return start_s, end_s


def _id(folder: Path, given: object, audio: str, start_s: float) -> str:
    """Return the row's own id, or else the audio's path without suffix, with the offset where there is one."""
    if isinstance(given, str | int) and not isinstance(given, bool) and str(given):
        return id_of(str(given))
    base = PurePath(os.path.splitext(audio)[0])
    if base.is_absolute():
        parent = PurePath(os.path.abspath(folder))
        base = base.relative_to(parent) if base.is_relative_to(parent) else base.relative_to(base.anchor)
    return id_of(base.as_posix() + (f"@{start_s:.3f}" if start_s else ""))


def _seconds(value: Any) -> float | None:
    """Return a time in seconds; None where none is given, NaN where it is not a time."""
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        seconds = float(value)
    except (ValueError, OverflowError):  # no number, or an integer too large for a float
        return math.nan
    return seconds if math.isfinite(seconds) else math.nan


def _shown(value: object) -> str:
    return one_line(repr(value))[:40]
