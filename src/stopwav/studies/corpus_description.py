"""`stopwav corpus`: what is in a corpus, before anything is measured."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from stopwav.errors import StopwavError
from stopwav.speech.align import dictionary_words, unalignable_reason
from stopwav.speech.audio import load_utterance
from stopwav.speech.audio_file import AudioHeader, audio_file, read_header
from stopwav.speech.corpus import BUNDLED, load_corpus
from stopwav.speech.loudness import SILENT_DB, frame_levels_db, is_clipped, silence_share
from stopwav.speech.text import normalise
from stopwav.speech.utterance import Corpus, Problem, Progress, Utterance

# The headers and samples of 10,000 FLAC files of 5 s take 12 s of a core where they are in memory; disks are slower.
TIME_LIMIT_S = 30.0
# Headers come first, since lengths and rates rest on them; the rest of the time is for samples.
HEADER_SHARE = 0.6
# Of a longer utterance the beginning is read: some minutes of one would tell less than as many of several.
LONGEST_READ_S = 60.0
QUANTILES = {"min": 0.0, "p5": 0.05, "median": 0.5, "p95": 0.95, "max": 1.0}


@dataclass(frozen=True)
class CorpusDescription:
    """What is in a corpus. What rests on headers or on samples is of the utterances that there was time to read."""

    name: str
    digest: str
    utterances: int
    # Of all utterances; from their mean where not all lengths are known.
    audio_s: float
    lengths_known: int
    # Seconds, by quantile.
    length_s: dict[str, float]
    transcripts: int
    words: int
    # Utterances by speaker, language, sample rate and number of channels; "" where it is not known.
    speakers: dict[str, int]
    languages: dict[str, int]
    sample_rates_hz: dict[int, int]
    channels: dict[int, int]
    # Utterances whose samples were read, and how much of them; those that are clipped, and those without any sound.
    samples_read: int
    samples_read_s: float
    clipped: tuple[str, ...]
    silent: tuple[str, ...]
    # Of what was read; None where nothing was.
    silence_share: float | None
    # Transcripts that cannot be aligned, and words whose pronunciation would be guessed, with their numbers.
    unalignable: tuple[Problem, ...]
    guessed_words: dict[str, int]
    problems: tuple[Problem, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


def corpus(
    source: str | Path = BUNDLED,
    *,
    words: str | Path | None = None,
    time_limit_s: float = TIME_LIMIT_S,
    seed: int = 0,
    progress: Progress | None = None,
) -> CorpusDescription:
    """Describe a corpus: lengths, speakers, languages, sampling rates, clipping, silence, transcripts.

    Headers and samples are read in an order drawn by `seed`, until the time limit.
    """
    if not time_limit_s > 0:
        raise StopwavError(f"a time limit of {time_limit_s:g} s is not possible; give seconds above 0")
    begin_s = monotonic()
    loaded = load_corpus(source, None if words is None else Path(words), progress)
    drawn = list(loaded.utterances)
    random.Random(seed).shuffle(drawn)
    headers = _read_headers(drawn, begin_s + HEADER_SHARE * time_limit_s, progress)
    sound = _read_samples(drawn, headers, begin_s + time_limit_s, progress)
    lengths_s = _lengths_s(loaded, headers)
    values = list(lengths_s.values())
    return CorpusDescription(
        name=loaded.name,
        digest=loaded.digest,
        utterances=len(drawn),
        audio_s=sum(values) / len(values) * len(drawn) if values else 0.0,
        lengths_known=len(values),
        length_s={key: float(np.quantile(values, q)) for key, q in QUANTILES.items()} if values else {},
        transcripts=sum(utterance.text is not None for utterance in drawn),
        words=sum(len(normalise(utterance.text or "")) for utterance in drawn),
        speakers=_counts(utterance.speaker for utterance in drawn),
        languages=_counts(utterance.language for utterance in drawn),
        sample_rates_hz=_counts(header.sample_rate_hz for header in headers.found.values()),
        channels=_counts(header.channels for header in headers.found.values()),
        samples_read=sound.read,
        samples_read_s=sound.read_s,
        clipped=tuple(sorted(sound.clipped)),
        silent=tuple(sorted(sound.silent)),
        silence_share=sound.silence_s / sound.read_s if sound.read_s else None,
        unalignable=tuple(_unalignable(loaded, lengths_s)),
        guessed_words=_guessed_words(drawn),
        problems=(*loaded.problems, *headers.problems, *sound.problems),
    )


@dataclass
class _Headers:
    """The headers that were read, by the id of the utterance, and why others could not be."""

    found: dict[str, AudioHeader] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def _read_headers(utterances: Sequence[Utterance], end_s: float, progress: Progress | None) -> _Headers:
    headers = _Headers()
    of_file: dict[Any, AudioHeader] = {}  # segments share one
    for done, utterance in enumerate(utterances, start=1):
        key = audio_file(utterance)
        try:
            header = of_file.get(key) or read_header(utterance)
        except StopwavError as error:
            headers.problems.append(Problem(utterance.id, str(error)))
        else:
            of_file[key] = headers.found[utterance.id] = header
        if progress is not None:
            progress("reading headers", done, len(utterances))
        if monotonic() > end_s:
            break
    return headers


@dataclass
class _Sound:
    """What the samples of some utterances say."""

    read: int = 0
    read_s: float = 0.0
    silence_s: float = 0.0
    clipped: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def _read_samples(
    utterances: Sequence[Utterance], headers: _Headers, end_s: float, progress: Progress | None
) -> _Sound:
    sound = _Sound()
    readable = [utterance for utterance in utterances if utterance.id in headers.found]
    for done, utterance in enumerate(readable, start=1):
        header = headers.found[utterance.id]
        last_s = min(header.duration_s if utterance.end_s is None else utterance.end_s, header.duration_s)
        # A damaged file may end before its header says: its end is looked at where it is not too far.
        whole = last_s - utterance.start_s <= LONGEST_READ_S
        part = utterance if whole else replace(utterance, end_s=utterance.start_s + LONGEST_READ_S)
        try:
            audio = load_utterance(part, header.sample_rate_hz)
        except StopwavError as error:
            sound.problems.append(Problem(utterance.id, str(error)))
            continue
        levels_db = frame_levels_db(audio)
        sound.read += 1
        sound.read_s += audio.duration_s
        sound.silence_s += silence_share(levels_db) * audio.duration_s
        if is_clipped(audio):
            sound.clipped.append(utterance.id)
        if len(levels_db) and levels_db.max() < SILENT_DB:
            sound.silent.append(utterance.id)
        if progress is not None:
            progress("reading samples", done, len(readable))
        if monotonic() > end_s:
            break
    return sound


def _lengths_s(loaded: Corpus, headers: _Headers) -> dict[str, float]:
    """The length of each utterance for which it is known, by id."""
    lengths_s: dict[str, float] = {}
    for utterance in loaded.utterances:
        header = headers.found.get(utterance.id)
        if utterance.end_s is not None:
            lengths_s[utterance.id] = utterance.end_s - utterance.start_s
        elif header is not None:
            lengths_s[utterance.id] = header.duration_s - utterance.start_s
    return lengths_s


def _unalignable(loaded: Corpus, lengths_s: dict[str, float]) -> Iterable[Problem]:
    for utterance in loaded.utterances:
        if utterance.text is not None and not utterance.words and utterance.id in lengths_s:
            reason = unalignable_reason(utterance.text, lengths_s[utterance.id])
            if reason:
                yield Problem(utterance.id, reason)


def _guessed_words(utterances: Iterable[Utterance]) -> dict[str, int]:
    """Words that the aligner's dictionary lacks, the most frequent first, of utterances without word times."""
    texts = (utterance.text for utterance in utterances if utterance.text and not utterance.words)
    counts = Counter(word for text in texts for word in normalise(text))
    known = dictionary_words() if counts else frozenset()
    return {word: count for word, count in _counts(counts.elements()).items() if word not in known}


def _counts(values: Iterable[Any]) -> dict[Any, int]:
    """How often each value occurs, the most frequent first."""
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))
