"""Word times by pocketsphinx's forced alignment, which knows English."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stopwav.errors import StopwavError
from stopwav.speech.alignment_cache import AlignedWords
from stopwav.speech.audio import Audio
from stopwav.speech.language import is_english
from stopwav.speech.text import normalise
from stopwav.speech.utterance import Word

# To be raised whenever other times would be found: what is stored under another version is not used.
ALIGNER_VERSION = 1

SAMPLE_RATE_HZ = 16_000  # that of pocketsphinx's English model

FRAME_S = 0.010  # pocketsphinx's frame shift

# Frame k is computed from a window of 25.625 ms that starts at k · 10 ms, so it represents the 10 ms around the middle
# of that window: the border between frames k − 1 and k is at k · 10 ms + (25.625 − 10) / 2 ms.
BORDER_S = 0.0078

# pocketsphinx's default (0.005) makes silence unlikely and stretches words over short pauses. A transcript does not say
# where the speaker paused: no penalty.
SILENCE_PROBABILITY = 1.0

# Silence appended before aligning, so that the last word ends with its sound and not with the file.
TAIL = np.zeros(round(0.2 * SAMPLE_RATE_HZ), np.int16)

# The time that pocketsphinx takes grows with the square of the length; a stream of an hour is still aligned.
LONGEST_S = 4000.0

# A phone has three states of a frame each, and no word is without a phone: more words than this cannot be aligned.
SHORTEST_WORD_S = 3 * FRAME_S

# Letters, the longest match first, as phones of the CMU set. Silent letters map to nothing.
_SOUNDS = {
    "tion": "SH AH N", "sion": "ZH AH N", "ough": "AO", "augh": "AO", "eigh": "EY", "igh": "AY", "tch": "CH",
    "sch": "SH", "dge": "JH", "ear": "IH R", "air": "EH R", "our": "AW R", "oor": "AO R", "qu": "K W", "ch": "CH",
    "sh": "SH", "th": "TH", "ph": "F", "gh": "G", "ck": "K", "ng": "NG", "wh": "W", "kn": "N", "wr": "R", "ce": "S",
    "ci": "S IH", "cy": "S IY", "ge": "JH", "ee": "IY", "ea": "IY", "ai": "EY", "ay": "EY", "oa": "OW", "oe": "OW",
    "ow": "OW", "oo": "UW", "ou": "AW", "oi": "OY", "oy": "OY", "au": "AO", "aw": "AO", "ew": "Y UW", "ue": "UW",
    "ie": "IY", "ei": "EY", "er": "ER", "ir": "ER", "ur": "ER", "ar": "AA R", "or": "AO R", "a": "AE", "b": "B",
    "c": "K", "d": "D", "e": "EH", "f": "F", "g": "G", "h": "HH", "i": "IH", "j": "JH", "k": "K", "l": "L", "m": "M",
    "n": "N", "o": "AA", "p": "P", "q": "K", "r": "R", "s": "S", "t": "T", "u": "AH", "v": "V", "w": "W", "x": "K S",
    "y": "IY", "z": "Z", "æ": "AE", "ø": "ER", "ß": "S", "þ": "TH", "ð": "DH", "ł": "L", "đ": "D", "ı": "IH",
}  # fmt: skip
_LONG_VOWELS = {"a": "EY", "e": "IY", "i": "AY", "o": "OW", "u": "UW"}
_VOWELS = "aeiouy"
_UNKNOWN = "AH"  # a letter of another script: some vowel, so that the word has a duration


@dataclass
class _Aligner:
    """pocketsphinx's decoder and the words that were added to its dictionary."""

    decoder: Any
    guessed: set[str] = field(default_factory=set)


class PocketsphinxAligner:
    """The aligner of English, which comes with stopwav."""

    guess = "the pronunciation of {words} was guessed from its letters"

    @property
    def name(self) -> str:
        """The name and version."""
        return f"pocketsphinx {pocketsphinx_version()}"

    @property
    def identity(self) -> Sequence[str | int]:
        """Another model or another version of these rules finds other times."""
        return ALIGNER_VERSION, pocketsphinx_version()

    def aligns(self, language: str) -> bool:
        """Whether the language is its own, or not known."""
        return is_english(language)

    def align(self, audio: Audio, words: Sequence[str]) -> AlignedWords:
        """Return the time of every word in the audio, to 10 ms; independent of earlier alignments."""
        return align_words(audio, list(words))


def align(audio: Audio, text: str) -> AlignedWords:
    """Return the time of every word of an English text in the audio."""
    words = normalise(text)
    return align_words(audio, words) if words else AlignedWords(())


def align_words(audio: Audio, words: list[str]) -> AlignedWords:
    """Return the time of every word in the audio, to 10 ms; independent of earlier alignments."""
    if reason := unalignable_reason(words, audio.duration_s):
        raise StopwavError(reason)
    samples = audio.resampled(SAMPLE_RATE_HZ).pcm16()
    alignment = _aligned(samples, words, audio.duration_s) if len(samples) else AlignedWords(())  # without, it raises
    aligned = alignment.words
    # A word that starts after the audio was aligned to the appended silence.
    if [word.text for word in aligned] != words or aligned[-1].start_s >= audio.duration_s:
        raise StopwavError(no_alignment(words, audio.duration_s))
    return alignment


def unalignable_reason(words: Sequence[str], duration_s: float) -> str:
    """Return why words cannot be aligned with audio of that length, "" where nothing speaks against it."""
    if duration_s > LONGEST_S:
        return (
            f"{duration_s:.0f} s are too long to be aligned, {LONGEST_S:g} s at most; cut the recording into "
            "segments, or give the word times in a CTM file (--words)"
        )
    shortest_s = len(words) * SHORTEST_WORD_S - len(TAIL) / SAMPLE_RATE_HZ
    return no_alignment(words, duration_s) if shortest_s > duration_s else ""


def dictionary_words() -> frozenset[str]:
    """Return the words whose pronunciation the aligner knows."""
    from pocketsphinx import get_model_path

    lines = Path(get_model_path("en-us/cmudict-en-us.dict")).read_text(encoding="utf-8").splitlines()
    return frozenset(line.split(maxsplit=1)[0] for line in lines if line)


def _aligned(samples: NDArray[np.int16], words: list[str], duration_s: float) -> AlignedWords:
    """Return the words that pocketsphinx finds in the samples, which may be others than those it was asked for."""
    aligner = _aligner()
    guessed = _add_missing_words(aligner, words)
    decoder = aligner.decoder
    decoder.reinit_feat()  # forgets the mean spectrum of earlier utterances
    decoder.set_align_text(" ".join(words))
    decoder.start_utt()
    decoder.process_raw(np.concatenate([samples, TAIL]).tobytes(), full_utt=True)
    decoder.end_utt()
    found = [_word(segment, duration_s) for segment in decoder.seg() or () if segment.word[0] not in "<["]
    return AlignedWords(tuple(found), guessed)


@cache
def _aligner() -> _Aligner:
    """Return the only aligner of this process: loading its model takes longer than aligning a sentence."""
    from pocketsphinx import Decoder  # costs 0.1 s, and most uses of the package align nothing

    rate_hz = float(SAMPLE_RATE_HZ)
    return _Aligner(Decoder(lm=None, samprate=rate_hz, silprob=SILENCE_PROBABILITY, loglevel="FATAL"))


def _add_missing_words(aligner: _Aligner, words: list[str]) -> tuple[str, ...]:
    """Add words that pocketsphinx's dictionary lacks, with a guess; return those of `words` that were guessed."""
    for word in words:
        if aligner.decoder.lookup_word(word) is None:
            aligner.decoder.add_word(word, guess_pronunciation(word), True)
            aligner.guessed.add(word)
    return tuple(dict.fromkeys(word for word in words if word in aligner.guessed))


def _word(segment: Any, duration_s: float) -> Word:
    """Return a segment as a word within the audio; pocketsphinx calls other pronunciations `word(2)`."""
    start_s = min(segment.start_frame * FRAME_S + BORDER_S, duration_s)
    end_s = min((segment.end_frame + 1) * FRAME_S + BORDER_S, duration_s)
    return Word(segment.word.partition("(")[0], round(start_s, 4), round(end_s, 4))


def no_alignment(words: Sequence[str], duration_s: float) -> str:
    """Return what to do where the words cannot be those of the audio."""
    text = " ".join(words)
    shown = text if len(text) <= 60 else text[:59] + "…"
    return (
        f"no alignment of {shown!r} with its {duration_s:.2f} s of audio; check the transcript, or give the word "
        "times in a CTM file (--words)"
    )


@cache
def pocketsphinx_version() -> str:
    """Return the version of pocketsphinx that is installed."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version("pocketsphinx")
    except PackageNotFoundError:  # a copy that was not installed
        return ""


def guess_pronunciation(word: str) -> str:
    """Return phones of the CMU set for a word no dictionary has: crude, but good enough to find its time."""
    plain = unicodedata.normalize("NFKD", word.lower())  # é as e and an accent, which is not a letter
    letters = "".join(letter for letter in plain if letter.isalpha())
    phones: list[str] = []
    place = 0
    while place < len(letters):
        if _is_silent_e(letters, place):
            break
        size = next(
            (size for size in (4, 3, 2) if letters[place : place + size] in _SOUNDS and place + size <= len(letters)), 1
        )
        piece = letters[place : place + size]
        if size == 1 and _is_long(letters, place):
            phones.append(_LONG_VOWELS[piece])
        elif size > 1 or letters[place - 1 : place] != piece or piece in _VOWELS:  # a double consonant sounds once
            phones.append(_SOUNDS.get(piece, _UNKNOWN))
        place += size
    return " ".join(phones) or _UNKNOWN


def _is_silent_e(letters: str, place: int) -> bool:
    """Whether this is the last letter of `cake`, though not of `the`."""
    return letters[place:] == "e" and any(letter in _VOWELS for letter in letters[:place])


def _is_long(letters: str, place: int) -> bool:
    """Whether this is the `a` of `cake`: a vowel, a consonant, and a silent e."""
    rest = letters[place + 1 :]
    return letters[place] in _LONG_VOWELS and len(rest) == 2 and rest[0] not in _VOWELS and rest[1] == "e"
