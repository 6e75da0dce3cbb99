"""Shapes of a corpus: from its durations and texts, without reading audio wherever the corpus itself says how long."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stopwav.errors import StopwavError
from stopwav.speech.corpus import FORMATS, Corpus, Utterance, load_corpus
from stopwav.speech.lines import read_lines
from stopwav.speech.shapes import Shapes, file_digest
from stopwav.speech.tokenizer import token_counter

# Frames of features per second: a hop of 10 ms, as all the recipes of the field have it.
FRAMES_PER_S = 100

Spoken = tuple[float, str]  # seconds, and what is said in them


def corpus_shapes(path: Path, tokenizer: str, subsampling: int = 4) -> Shapes:
    """The shapes of a NeMo manifest, Lhotse cuts, a Kaldi data folder, or any other corpus that stopwav reads."""
    count = token_counter(tokenizer)
    digest, spoken = _spoken(path)
    pairs = [(subsampled(round(duration_s * FRAMES_PER_S), subsampling), count(text)) for duration_s, text in spoken]
    if not pairs:
        raise StopwavError(f"{path}: no utterance with a duration and a text in it; check the file")
    usable = [pair for pair in pairs if pair[0] >= 1]
    if not usable:
        raise StopwavError(f"{path}: no utterance has a frame left after --subsampling {subsampling}")
    lost = f", {len(pairs) - len(usable)} too short for a frame left out" if len(usable) < len(pairs) else ""
    frames, tokens = np.array(usable, np.int64).T
    note = f"tokenizer {Path(tokenizer).name}, subsampling {subsampling}{lost}"
    return Shapes(path.resolve().name, frames, tokens, digest, note)


def subsampled(frames: int, factor: int) -> int:
    """Frames after subsampling: by convolutions of stride 2 and kernel 3 for a power of 2, else by plain division."""
    if factor < 1:
        raise StopwavError(f"--subsampling {factor}: give 1 or more, such as 4")
    if factor & (factor - 1):
        return frames // factor
    # Two of them, the front end of most recipes, leave ((n - 1) // 2 - 1) // 2 frames.
    for _ in range(factor.bit_length() - 1):
        frames = (frames - 1) // 2
    return max(0, frames)


def _spoken(path: Path) -> tuple[str, list[Spoken]]:
    """The source's digest, and the length and the text of each utterance."""
    if os.path.isfile(path):
        return file_digest(path), list(_entries(path))
    if os.path.isfile(path / "utt2dur") and os.path.isfile(path / "text"):
        return _kaldi(path)
    if not os.path.exists(path):
        raise StopwavError(f"{path} does not exist; shapes are read from Lhotse cuts (.jsonl.gz, .json.gz), {FORMATS}")
    corpus = load_corpus(path)
    return corpus.digest, list(_utterances(corpus))


def _kaldi(folder: Path) -> tuple[str, list[Spoken]]:
    """A data folder that says how long its utterances are: no audio is opened, and no command could be run."""
    texts = dict(line.split_first() for line in read_lines(folder / "text")[0])
    lengths = dict(line.split_first() for line in read_lines(folder / "utt2dur")[0])
    try:
        found = [(float(lengths[name]), text) for name, text in texts.items() if name in lengths]
    except ValueError as error:
        raise StopwavError(f"{folder / 'utt2dur'}: {error}; it has lines of `id seconds`") from error
    return file_digest(folder / "utt2dur"), found


def _utterances(corpus: Corpus) -> Iterator[Spoken]:
    for utterance in corpus.utterances:
        yield _duration_s(utterance), utterance.text


def _duration_s(utterance: Utterance) -> float:
    import soundfile

    if utterance.end_s is not None:
        return utterance.end_s - utterance.start_s
    try:
        return float(soundfile.info(utterance.path).duration) - utterance.start_s
    except (OSError, RuntimeError) as error:
        raise StopwavError(f"{utterance.path}: its length cannot be read ({error}); repair or remove it") from error


def _entries(path: Path) -> Iterator[Spoken]:
    """The utterances of a NeMo manifest or of Lhotse cuts, as lines or as one list, plain or compressed."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8") as file:
            text = file.read()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise StopwavError(f"{path}: cannot be read ({error}); give a manifest, cuts or a folder") from error
    for where, entry in _objects(path, text):
        try:
            yield _length_s(entry), " ".join(_texts(entry))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            told = f"{type(error).__name__}: {error}"
            raise StopwavError(f"{where}: neither a NeMo entry nor a Lhotse cut ({told}); correct it") from error


def _objects(path: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        if text.lstrip().startswith("["):
            yield from ((f"{path}, entry {number}", one) for number, one in enumerate(json.loads(text), start=1))
            return
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                yield f"{path}:{number}", json.loads(line)
    except ValueError as error:
        raise StopwavError(f"{path}: not JSON ({error}); give a NeMo manifest or Lhotse cuts") from error


def _length_s(entry: Mapping[str, Any]) -> float:
    """The duration of a cut or an entry; a mixed cut lasts as long as the last of its tracks."""
    if "tracks" in entry:
        return max(float(track.get("offset", 0.0)) + _length_s(track["cut"]) for track in entry["tracks"])
    return float(entry["duration"])


def _texts(entry: Mapping[str, Any]) -> Iterator[str]:
    """What is said in an entry: its own text, or those of a cut's supervisions in order."""
    if "tracks" in entry:
        for track in entry["tracks"]:
            # Padding and noise are cuts without a word.
            yield from _texts({"supervisions": [], **track["cut"]})
    elif "supervisions" in entry:
        yield from (str(one["text"]) for one in entry["supervisions"] if one.get("text"))
    else:
        yield str(entry["text"])
