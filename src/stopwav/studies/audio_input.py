"""The audio that a study feeds where it needs a length and not a corpus: bundled speech, noise, a file or a folder."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stopwav.errors import Caution, StopwavError
from stopwav.studies.digests import content_digests, corpus_digest

if TYPE_CHECKING:
    from stopwav.speech.audio import Audio

BUNDLED = "bundled"
NOISE = "noise"
# A tenth of full scale: about as loud as speech in the corpora, and clipped once in 10²³ samples.
NOISE_LEVEL = 0.1


def make_audio(source: str, duration_s: float, sample_rate_hz: int, seed: int) -> Audio:
    """Return seconds of noise, of bundled speech, of a file, or of a folder's files in a row.

    They are cut where they are longer, and repeated where shorter.
    """
    import numpy as np

    from stopwav.speech.audio import Audio

    count = round(duration_s * sample_rate_hz)
    if count < 1:
        raise StopwavError(f"a duration of {duration_s:g} s has no sample at {sample_rate_hz} Hz; ask for more")
    if source == NOISE:
        samples = np.random.default_rng(seed).normal(0, NOISE_LEVEL, count).astype(np.float32)
    else:
        samples = np.resize(_speech(source, sample_rate_hz, duration_s).samples, count)
    return Audio(np.clip(samples, -1.0, 1.0), sample_rate_hz)


def located(source: str) -> str:
    """Return the source by its full path, for a process that may be in another folder when it reads it."""
    from stopwav.speech.corpora.name import located as located_corpus

    return source if source in (BUNDLED, NOISE) else located_corpus(source)


def audio_digest(source: str) -> str:
    """Return 16 hex digits that change with the audio that a run draws from: noise of any seed is noise."""
    if source == NOISE:
        return hashlib.sha256(b"noise 0").hexdigest()[:16]  # as older runs of the default seed have it
    from stopwav.speech.audio import load
    from stopwav.speech.corpus import is_audio_file, load_corpus

    if not is_audio_file(source):
        return load_corpus(source).digest

    load(source, 16_000)  # a broken file is an error before anything is measured
    return hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16]


def input_digests(source: str, duration_s: float) -> dict[str, str]:
    """Return the digests of the files that audio of that length is made of, and of the corpus that they are drawn from.

    Bundled speech comes with this version of stopwav, and noise from its seed.
    """
    from stopwav.speech.corpus import is_audio_file

    if source in (BUNDLED, NOISE):
        return {}
    if is_audio_file(source):
        return content_digests([source])
    return {**corpus_digest(source), **content_digests(_speech(source, 16_000, duration_s).paths)}


def audio_warnings(source: str, duration_s: float) -> list[Caution]:
    """Return a warning for each part of a folder or corpus that is left out of audio of that length."""
    from stopwav.speech.corpus import is_audio_file, load_corpus

    if source == NOISE or is_audio_file(source):
        return []
    problems = [f"{problem.where}: {problem.message}" for problem in load_corpus(source).problems]
    # Any rate does: what cannot be read cannot be read at any.
    return [Caution("corpus", message) for message in (*problems, *_speech(source, 16_000, duration_s).broken)]


@dataclass(frozen=True)
class _Speech:
    """Samples, the files that they are of, and why others are left out."""

    samples: Any
    paths: list[Path]
    broken: list[str]


def _speech(source: str, sample_rate_hz: int, duration_s: float) -> _Speech:
    """The samples of a file, or of as many utterances in a row as the duration takes."""
    import numpy as np

    from stopwav.speech.audio import load, load_utterance
    from stopwav.speech.corpus import is_audio_file, load_corpus

    if is_audio_file(source):
        return _Speech(load(source, sample_rate_hz).samples, [Path(source)], [])
    parts: list[Any] = []
    broken: list[str] = []
    paths: list[Path] = []
    for utterance in load_corpus(source).utterances:
        paths.append(utterance.path)
        try:
            parts.append(load_utterance(utterance, sample_rate_hz).samples)
        except StopwavError as error:
            broken.append(str(error))
        if sum(map(len, parts)) >= duration_s * sample_rate_hz:
            break
    if not parts:
        raise StopwavError(f"{source} has no audio that can be read: {broken[0]}")
    return _Speech(np.concatenate(parts), paths, broken)
