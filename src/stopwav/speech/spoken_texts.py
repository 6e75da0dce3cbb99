"""The duration and text of each utterance of a corpus: NeMo manifests, Lhotse cuts, Kaldi folders, and all others."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.speech.corpus import FORMATS, Corpus, Utterance, load_corpus
from stopwav.speech.utterance import read_lines

Spoken = tuple[float, str]  # duration in seconds, and text


def spoken_texts(path: Path) -> tuple[str, list[Spoken]]:
    """Return the source's digest, and the duration and text of each utterance."""
    if os.path.isfile(path):
        return file_digest(path), list(_entries(path))
    if os.path.isfile(path / "utt2dur") and os.path.isfile(path / "text"):
        return _kaldi(path)
    if not os.path.exists(path):
        raise StopwavError(f"{path} does not exist; shapes are read from Lhotse cuts (.jsonl.gz, .json.gz), {FORMATS}")
    corpus = load_corpus(path)
    return corpus.digest, list(_utterances(corpus))


def file_digest(path: Path) -> str:
    """Return 16 hex digits that identify a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _kaldi(folder: Path) -> tuple[str, list[Spoken]]:
    """Read a data folder with utt2dur: no audio is opened, and no command is run."""
    texts = dict(line.split_first() for line in read_lines(folder / "text")[0])
    durations = dict(line.split_first() for line in read_lines(folder / "utt2dur")[0])
    try:
        spoken = [(float(durations[name]), text) for name, text in texts.items() if name in durations]
    except ValueError as error:
        raise StopwavError(f"{folder / 'utt2dur'}: {error}; its lines must be `id seconds`") from error
    return file_digest(folder / "utt2dur"), spoken


def _utterances(corpus: Corpus) -> Iterator[Spoken]:
    for utterance in corpus.utterances:
        if utterance.text is not None:
            yield _duration_s(utterance), utterance.text


def _duration_s(utterance: Utterance) -> float:
    import soundfile

    if utterance.end_s is not None:
        return utterance.end_s - utterance.start_s
    try:
        return float(soundfile.info(utterance.path).duration) - utterance.start_s
    except (OSError, RuntimeError) as error:
        raise StopwavError(f"{utterance.path}: cannot read its duration ({error}); repair or remove it") from error


def _entries(path: Path) -> Iterator[Spoken]:
    """Yield the utterances of a NeMo manifest or of Lhotse cuts, as lines or as one list, plain or compressed."""
    open_text = gzip.open if path.suffix == ".gz" else open
    try:
        with open_text(path, "rt", encoding="utf-8") as file:
            text = file.read()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise StopwavError(f"cannot read {path} ({error}); give a manifest, cuts or a folder") from error
    for where, entry in _objects(path, text):
        try:
            yield _entry_duration_s(entry), " ".join(_texts(entry))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
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
    except ValueError as error:
        raise StopwavError(f"{path}: not JSON ({error}); give a NeMo manifest or Lhotse cuts") from error


def _entry_duration_s(entry: Mapping[str, Any]) -> float:
    """Return the duration of a cut or an entry; a mixed cut ends with the last of its tracks."""
    if "tracks" in entry:
        return max(float(track.get("offset", 0.0)) + _entry_duration_s(track["cut"]) for track in entry["tracks"])
    return float(entry["duration"])


def _texts(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of an entry: its own, or those of a cut's supervisions in order."""
    if "tracks" in entry:
        for track in entry["tracks"]:
            # Padding and noise are cuts without words.
            yield from _texts({"supervisions": [], **track["cut"]})
    elif "supervisions" in entry:
        yield from (str(part["text"]) for part in entry["supervisions"] if part.get("text"))
    else:
        yield str(entry["text"])
