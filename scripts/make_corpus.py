"""Make the bundled corpus: speak the sentences of its transcripts.txt with flite, and write audio and word times.

    python scripts/make_corpus.py [FOLDER]

An id ends in the name of its voice. flite itself decides when each phone ends, so the word times are exact and need no
aligner. Needs the Debian package `libflite1`. Every run writes the same bytes.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from stopwav.errors import StopwavError
from stopwav.speech import ctm
from stopwav.speech.corpus import Word
from stopwav.speech.text import normalise

CORPUS = Path(__file__).resolve().parent.parent / "src/stopwav/speech/data/corpus"


class Wave(ctypes.Structure):
    """The C struct in which flite returns samples."""

    _fields_ = (
        ("type", ctypes.c_char_p),
        ("sample_rate", ctypes.c_int),
        ("num_samples", ctypes.c_int),
        ("num_channels", ctypes.c_int),
        ("samples", ctypes.POINTER(ctypes.c_short)),
    )


class Flite:
    """flite's shared library, with the functions that are needed to speak and to read the times."""

    def __init__(self) -> None:
        try:
            self.library = ctypes.CDLL("libflite.so.1", mode=ctypes.RTLD_GLOBAL)
            for name in ("libflite_cmulex.so.1", "libflite_usenglish.so.1"):
                ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise StopwavError(f"flite's library is missing ({error}); install it: apt install libflite1") from None
        self.library.flite_init()
        pointer, text = ctypes.c_void_p, ctypes.c_char_p
        self.synthesise = self._function("flite_synth_text", pointer, text, pointer)
        self.wave = self._function("utt_wave", ctypes.POINTER(Wave), pointer)
        self.relation = self._function("utt_relation", pointer, pointer, text)
        self.head = self._function("relation_head", pointer, pointer)
        self.next = self._function("item_next", pointer, pointer)
        self.previous = self._function("item_prev", pointer, pointer)
        self.daughter = self._function("item_daughter", pointer, pointer)
        self.item_as = self._function("item_as", pointer, pointer, text)
        self.number = self._function("item_feat_float", ctypes.c_float, pointer, text)
        self.string = self._function("item_feat_string", text, pointer, text)
        self.delete = self._function("delete_utterance", None, pointer)

    def voice(self, name: str) -> int:
        """The handle of the voice of that name."""
        register = getattr(ctypes.CDLL(f"libflite_cmu_us_{name}.so.1"), f"register_cmu_us_{name}")
        register.restype, register.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        return int(register(None))

    def siblings(self, item: int | None) -> Iterator[int]:
        """The item and those after it."""
        while item:
            yield item
            item = self.next(item)

    def _function(self, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
        function = getattr(self.library, name)
        function.restype, function.argtypes = result, list(arguments)
        return function  # type: ignore[no-any-return]


def speak(flite: Flite, voice: int, sentence: str) -> tuple[NDArray[np.int16], int, tuple[Word, ...]]:
    """The samples of a spoken sentence, their rate, and the time of every word."""
    # Noise comes from the C library's random numbers: seeded here, an utterance does not depend on those before it.
    ctypes.CDLL(None).srand(1)
    utterance = flite.synthesise(sentence.encode(), voice)
    wave = flite.wave(utterance).contents
    samples = np.ctypeslib.as_array(wave.samples, (wave.num_samples,)).astype(np.int16)
    rate_hz = int(wave.sample_rate)
    words = tuple(_words(flite, utterance))
    flite.delete(utterance)
    return samples, rate_hz, words


def _words(flite: Flite, utterance: int) -> Iterator[Word]:
    """The words, one per token: flite splits `captain's` in two, the transcript does not."""
    for token in flite.siblings(flite.head(flite.relation(utterance, b"Token"))):
        segments = [
            flite.item_as(segment, b"Segment")
            for part in flite.siblings(flite.daughter(token))
            for syllable in flite.siblings(flite.daughter(flite.item_as(part, b"SylStructure")))
            for segment in flite.siblings(flite.daughter(syllable))
        ]
        (text,) = normalise(flite.string(token, b"name").decode())  # a token of two words has no time for each
        # A segment has only an end; it starts where the one before it (at least the leading pause) ends.
        start_s = flite.number(flite.previous(segments[0]), b"end")
        yield Word(text, round(start_s, 4), round(flite.number(segments[-1], b"end"), 4))


def make(folder: Path) -> float:
    """Write the audio, `transcripts.txt` and `words.ctm` to `folder`; return the seconds of audio."""
    flite = Flite()
    voices: dict[str, int] = {}
    folder.mkdir(parents=True, exist_ok=True)
    transcripts = (CORPUS / "transcripts.txt").read_text(encoding="utf-8")
    words: dict[str, tuple[Word, ...]] = {}
    total_s = 0.0
    for line in transcripts.splitlines():
        utterance_id, sentence = line.split(" ", 1)
        name = utterance_id.rpartition("-")[2]
        voices[name] = voices.get(name) or flite.voice(name)
        samples, rate_hz, words[utterance_id] = speak(flite, voices[name], sentence)
        if [word.text for word in words[utterance_id]] != normalise(sentence):
            raise StopwavError(f"flite's words differ from the transcript of {utterance_id}; reword {sentence!r}")
        soundfile.write(folder / f"{utterance_id}.flac", samples, rate_hz, subtype="PCM_16")
        total_s += len(samples) / rate_hz
    (folder / "transcripts.txt").write_text(transcripts, encoding="utf-8")
    ctm.write(folder / "words.ctm", words)
    return total_s


def main() -> None:
    """Write the corpus to the folder of the command line."""
    parser = argparse.ArgumentParser(description="Speak the bundled corpus with flite.")
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS)
    folder = parser.parse_args().folder
    print(f"{make(folder):.1f} s of audio in {folder}")


if __name__ == "__main__":
    main()
