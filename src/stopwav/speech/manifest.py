"""A NeMo manifest: one JSON object per line, with audio_filepath, and where it has them text, duration and offset."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path, PurePath

from stopwav.errors import StopwavError
from stopwav.speech.language import language_code
from stopwav.speech.utterance import Corpus, Problem, Utterance, assemble, id_of, one_line, read_lines

# The language of the speech, in the order in which NeMo's own tools prefer them.
_LANGUAGE_KEYS = ("lang", "source_lang", "language")


def is_manifest(path: Path) -> bool:
    """Whether a file is a manifest, by its name or its first characters."""
    if path.suffix.lower() in (".json", ".jsonl", ".ndjson"):
        return True
    try:
        with path.open("rb") as file:
            return file.read(256).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    except OSError as error:
        raise StopwavError(f"cannot read {one_line(str(path))} ({error.strerror}); check its permissions") from None


def load_manifest(path: Path) -> Corpus:
    """Load the utterances of a manifest; relative audio paths start from the folder of the manifest."""
    lines, problems = read_lines(path)
    entries: list[tuple[str, Utterance]] = []
    for line in lines:
        entry = _parse(line.text)
        utterance = entry if isinstance(entry, str) else _utterance(path.parent, entry)
        if isinstance(utterance, str):
            problems.append(Problem(line.where, utterance))
        else:
            entries.append((line.where, utterance))
    return assemble(path.stem, entries, problems)


def _parse(text: str) -> dict[str, object] | str:
    """Return the object on a line, or what is wrong with the line."""
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError also for integers with thousands of digits
        return f"not JSON ({one_line(str(error))[:80]}); write one object per line"
    return entry if isinstance(entry, dict) else f"a {type(entry).__name__}, not an object; write {{…}} with the keys"


def _utterance(folder: Path, entry: Mapping[str, object]) -> Utterance | str:
    """Return the utterance that an object describes, or what is wrong with it."""
    audio, text = entry.get("audio_filepath"), entry.get("text")
    if audio is None:
        return "key 'audio_filepath' is missing; add it"
    for key, value in (("audio_filepath", audio), ("text", text)):
        if value is not None and not isinstance(value, str):
            return f"key {key!r} is {_shown(value)}, not a string; correct it"
    start_s, duration_s = _seconds(entry.get("offset")), _seconds(entry.get("duration"))
    for key, seconds in (("offset", start_s), ("duration", duration_s)):
        if seconds is not None and not seconds >= 0.0:
            return f"key {key!r} is {_shown(entry[key])}, not a number of seconds; correct it"
    if duration_s == 0.0:
        return "key 'duration' is 0: there is nothing to recognise; correct or remove the line"
    start_s = start_s or 0.0
    speaker = entry.get("speaker")
    return Utterance(
        id=_id(folder, entry, str(audio), start_s),
        path=folder / str(audio),  # an absolute path stays as it is
        text=None if text is None else one_line(str(text)),
        start_s=start_s,
        end_s=None if duration_s is None else start_s + duration_s,
        speaker=one_line(str(speaker)) if isinstance(speaker, str | int) else "",
        language=next((language_code(str(entry[key])) for key in _LANGUAGE_KEYS if entry.get(key)), ""),
    )


def _id(folder: Path, entry: Mapping[str, object], audio: str, start_s: float) -> str:
    """Return the line's own id, or else the audio's path without suffix, with the offset where there is one."""
    given = entry.get("id", entry.get("utt_id"))
    if isinstance(given, str | int) and str(given):
        return id_of(str(given))
    base = PurePath(os.path.splitext(audio)[0])
    if base.is_absolute():
        parent = PurePath(os.path.abspath(folder))
        base = base.relative_to(parent) if base.is_relative_to(parent) else base.relative_to(base.anchor)
    return id_of(base.as_posix() + (f"@{start_s:.3f}" if start_s else ""))


def _seconds(value: object) -> float | None:
    """Return a time in seconds; None where none is given, NaN where it is not a time."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value) if math.isfinite(value) else math.nan
    except OverflowError:  # an integer too large for a float
        return math.nan


def _shown(value: object) -> str:
    return one_line(repr(value))[:40]
