"""The duration and text of each utterance of a corpus: NeMo manifests, Lhotse cuts, Kaldi folders, and all others."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.speech.audio_file import read_header
from stopwav.speech.corpora.json_lines import is_json
from stopwav.speech.corpus import Corpus, Utterance, load_corpus
from stopwav.speech.utterance import Problem, read_file, read_lines

Spoken = tuple[float, str]  # duration in seconds, and text

# Eleven days: a mistake of any kind, and frames beyond it are no numbers that a loss could be measured with.
LONGEST_S = 1e6


def spoken_texts(source: str) -> tuple[str, list[Spoken], tuple[Problem, ...]]:
    """Return the source's digest, the duration and text of each utterance, and the problems with the others."""
    path = Path(source)
    if os.path.isfile(path) and is_json(path):
        return file_digest(path), list(_entries(path)), ()
    if os.path.isfile(path / "utt2dur") and os.path.isfile(path / "text"):
        return _kaldi(path)
    corpus = load_corpus(source)
    return corpus.digest, list(_utterances(corpus)), corpus.problems


def file_digest(path: Path) -> str:
    """Return 16 hex digits that identify a file's content."""
    return hashlib.sha256(read_file(path)).hexdigest()[:16]


def _kaldi(folder: Path) -> tuple[str, list[Spoken], tuple[Problem, ...]]:
    """Read a data folder with utt2dur: no audio is opened, and no command is run."""
    text_lines, problems = read_lines(folder / "text")
    duration_lines, unreadable = read_lines(folder / "utt2dur")
    problems += unreadable
    texts = dict(line.split_first() for line in text_lines)
    durations = {}
    for line in duration_lines:
        name, seconds = line.split_first()
        try:
            durations[name] = _checked_s(seconds)
        except ValueError as error:
            raise StopwavError(f"{folder}/{line.where}: {error}; its lines must be `id seconds`") from error
    spoken = [(durations[name], text) for name, text in texts.items() if name in durations]
    problems += [Problem(name, "utt2dur has no line for it; add one") for name in texts if name not in durations]
    return file_digest(folder / "utt2dur"), spoken, tuple(problems)


def _checked_s(value: object) -> float:
    """Return a duration in seconds; a ValueError says what is wrong with it."""
    shown = repr(value)[:40]
    try:
        seconds = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        seconds = math.nan
    if not 0.0 <= seconds <= LONGEST_S:
        raise ValueError(f"the duration {shown} is not a number of seconds, {LONGEST_S:g} at most")
    return seconds


def _utterances(corpus: Corpus) -> Iterator[Spoken]:
    for utterance in corpus.utterances:
        if utterance.text is not None:
            yield _duration_s(utterance), utterance.text


def _duration_s(utterance: Utterance) -> float:
    if utterance.end_s is not None:
        return utterance.end_s - utterance.start_s
    try:
        return _checked_s(read_header(utterance).duration_s - utterance.start_s)
    except ValueError as error:
        raise StopwavError(f"{utterance.path}: cannot read its duration ({error}); repair or remove it") from error


def _entries(path: Path) -> Iterator[Spoken]:
    """Yield the utterances of a NeMo manifest or of Lhotse cuts, as lines or as one list, plain or compressed."""
    content = read_file(path)
    try:
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise StopwavError(f"cannot read {path} ({error}); give a manifest, cuts or a folder") from error
    for where, entry in _objects(path, text):
        try:
            yield _entry_duration_s(entry), " ".join(_texts(entry))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise StopwavError(f"{where}: neither a NeMo entry nor a Lhotse cut ({reason}); correct it") from error


def _objects(path: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        if text.lstrip().startswith("["):
            yield from ((f"{path}, entry {number}", entry) for number, entry in enumerate(json.loads(text), start=1))
            return
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                yield f"{path}:{number}", json.loads(line)
    except (ValueError, RecursionError) as error:
        raise StopwavError(f"{path}: not JSON ({error}); give a NeMo manifest or Lhotse cuts") from error


def _entry_duration_s(entry: Mapping[str, Any]) -> float:
    """Return the duration of a cut or an entry; a mixed cut ends with the last of its tracks."""
    if "tracks" in entry:
        ends_s = [_checked_s(track.get("offset", 0.0)) + _entry_duration_s(track["cut"]) for track in entry["tracks"]]
        return max(ends_s)
    return _checked_s(entry["duration"])


def _texts(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of an entry: its own, or those of a cut's supervisions in order."""
    if "tracks" in entry:
        for track in entry["tracks"]:
            # Padding and noise are cuts without words.
            yield from _texts({"supervisions": [], **track["cut"]})
    elif "supervisions" in entry:
        yield from (_text(part) for part in entry["supervisions"] if part.get("text"))
    else:
        yield _text(entry)


def _text(entry: Mapping[str, Any]) -> str:
    if not isinstance(entry["text"], str):  # str(None) would count as the word "None"
        raise ValueError(f"the text is {repr(entry['text'])[:40]}, not a string")
    return entry["text"]
