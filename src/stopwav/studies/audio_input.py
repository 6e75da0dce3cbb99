"""The audio that a study feeds where it needs a length and not a corpus: bundled speech, noise, or a file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stopwav.errors import StopwavError

if TYPE_CHECKING:
    from stopwav.speech.audio import Audio

BUNDLED = "bundled"
NOISE = "noise"
# A tenth of full scale: about as loud as speech in the corpora, and clipped once in 10²³ samples.
NOISE_LEVEL = 0.1


def make_audio(source: str, duration_s: float, sample_rate_hz: int, seed: int) -> Audio:
    """Return seconds of noise, of bundled speech or of a file: cut where they are longer, repeated where shorter."""
    import numpy as np

    from stopwav.speech.audio import Audio

    count = round(duration_s * sample_rate_hz)
    if count < 1:
        raise StopwavError(f"a duration of {duration_s:g} s has no sample at {sample_rate_hz} Hz; ask for more")
    if source == NOISE:
        samples = np.random.default_rng(seed).normal(0, NOISE_LEVEL, count).astype(np.float32)
    else:
        samples = np.resize(_speech(source, sample_rate_hz, duration_s), count)
    return Audio(np.clip(samples, -1.0, 1.0), sample_rate_hz)


def audio_digest(source: str, seed: int) -> str:
    """Return 16 hex digits that change with the audio of a run."""
    if source == NOISE:
        return hashlib.sha256(f"noise {seed}".encode()).hexdigest()[:16]
    if source == BUNDLED:
        from stopwav.speech.corpus import bundled_corpus

        return bundled_corpus().digest
    from stopwav.speech.audio import load

    load(source, 16_000)  # a broken file is an error before anything is measured
    return hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16]


def _speech(source: str, sample_rate_hz: int, duration_s: float) -> Any:
    """The samples of a file, or as many utterances of the bundled corpus in a row as the duration takes."""
    import numpy as np

    from stopwav.speech.audio import load
    from stopwav.speech.corpus import bundled_corpus

    if source != BUNDLED:
        return load(source, sample_rate_hz).samples
    parts: list[Any] = []
    for utterance in bundled_corpus().utterances:
        parts.append(load(utterance.path, sample_rate_hz).samples)
        if sum(map(len, parts)) >= duration_s * sample_rate_hz:
            break
    return np.concatenate(parts)
