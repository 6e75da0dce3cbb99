"""Make the German utterance of the tests, with the times of its words: python scripts/make_german.py.

espeak-ng (the Debian package of that name) speaks each word by itself; with silence between them, the times are known.
"""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from stopwav.speech import ctm
from stopwav.speech.audio import Audio
from stopwav.speech.normaliser import spoken_words
from stopwav.speech.utterance import Word

FOLDER = Path(__file__).parent.parent / "tests" / "german"
TEXT = "Guten Morgen, Herr Müller! Die Straße ist heute größer als gestern."
RATE_HZ = 16_000
# Between two words, as a slow speaker pauses; before the first and after the last twice that.
SILENCE_S = 0.1
# Of full scale: below it espeak-ng's voice is not there any more.
QUIET = 0.01


def speak(word: str) -> NDArray[np.float32]:
    """Return a word as espeak-ng says it, without the silence before and after it."""
    command = ["espeak-ng", "-v", "de", "-s", "150", "--stdout", word]
    wave = subprocess.run(command, check=True, capture_output=True).stdout
    samples, rate_hz = soundfile.read(io.BytesIO(wave), dtype="float32")
    own = Audio(samples, rate_hz).resampled(RATE_HZ).samples
    loud = np.flatnonzero(np.abs(own) > QUIET)
    return own[loud[0] : loud[-1] + 1]


def main() -> None:
    """Write the audio, its transcript and the times of its words."""
    silence = np.zeros(round(SILENCE_S * RATE_HZ), np.float32)
    parts, words = [silence, silence], []
    for word in spoken_words(TEXT, "de"):
        start = sum(map(len, parts))
        parts += [speak(word), silence]
        words.append(Word(word, start / RATE_HZ, (sum(map(len, parts)) - len(silence)) / RATE_HZ))
    FOLDER.mkdir(exist_ok=True)
    soundfile.write(FOLDER / "satz.ogg", np.concatenate([*parts, silence]), RATE_HZ)
    (FOLDER / "satz.txt").write_text(f"{TEXT}\n")
    ctm.write(FOLDER / "words.ctm", {"satz": words})


if __name__ == "__main__":
    main()
