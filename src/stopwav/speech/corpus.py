"""Corpora by name: the bundled one, and files and folders in many formats."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.speech import ctm, folder, kaldi, manifest
from stopwav.speech.language import ENGLISH, checked_language
from stopwav.speech.utterance import Corpus, Problem, Utterance, Word, no_file_reason

__all__ = ["BUNDLED", "FORMATS", "Corpus", "Problem", "Utterance", "Word", "bundled_corpus", "load_corpus"]

BUNDLED = "bundled"

FORMATS = (
    "`bundled`; an audio file (WAV, FLAC, OGG, Opus, MP3, AIFF, …) or a folder of them, where there are transcripts "
    "with x.txt next to x.wav, or with transcripts.txt of `id text` lines; a LibriSpeech tree; a NeMo manifest "
    "(.jsonl); a Kaldi data folder (wav.scp, text, segments)"
)


def load_corpus(source: str | Path = BUNDLED, words: Path | None = None, language: str | None = None) -> Corpus:
    """Load the corpus that `source` names, in any format, with the word times of the CTM file `words` if given.

    `language` is that of all its utterances where it is given, whatever the corpus says.
    """
    corpus = bundled_corpus() if source == BUNDLED else _read(Path(source))
    if language:
        code = checked_language(language)
        corpus = replace(corpus, utterances=tuple(replace(each, language=code) for each in corpus.utterances))
    if not corpus.utterances:
        reasons = "".join(f"; {problem.where}: {problem.message}" for problem in corpus.problems[:1])
        count = f"{len(corpus.problems)} problem{'' if len(corpus.problems) == 1 else 's'}"
        raise StopwavError(f"{source} has no usable utterance ({count}{reasons}); stopwav reads {FORMATS}")
    return ctm.attach(corpus, ctm.read(words), words.name) if words else corpus


def bundled_corpus() -> Corpus:
    """Load the corpus that comes with stopwav: 24 synthetic utterances in three voices, with exact word times."""
    root = Path(__file__).parent / "data" / "corpus"
    corpus = folder.load_folder(root)
    voices = tuple(
        replace(utterance, speaker=utterance.id.rpartition("-")[2], language=ENGLISH) for utterance in corpus.utterances
    )
    corpus = replace(corpus, name=BUNDLED, utterances=voices)
    return ctm.attach(corpus, ctm.read(root / "words.ctm"), "words.ctm")


def _read(path: Path) -> Corpus:
    """Read the corpus at `path` with the reader of its format."""
    if os.path.isfile(path) and manifest.is_manifest(path):
        return manifest.load_manifest(path)
    if os.path.isfile(path / "wav.scp"):
        return kaldi.load_kaldi(path)
    if os.path.isdir(path):
        return folder.load_folder(path)
    if os.path.isfile(path) and path.suffix.lower() in folder.AUDIO_SUFFIXES:
        return folder.load_file(path)
    if os.path.isfile(path) and path.suffix.lower() in folder.UNREADABLE_SUFFIXES:
        raise StopwavError(f"corpus {path}: {folder.conversion(path)}")
    reason = "is a file of an unknown format" if os.path.isfile(path) else no_file_reason(path)
    raise StopwavError(f"corpus {path} {reason}; stopwav reads {FORMATS}")
