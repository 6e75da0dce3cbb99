"""A corpus: utterances with their transcripts and, where known, the time of every word."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from stopwav.errors import Caution, StopwavError
from stopwav.speech.text import normalise

BUNDLED = "bundled"

FORMATS = (
    "`bundled`; a folder of WAV, FLAC, OGG or MP3 files with x.txt beside each x.wav, or with transcripts.txt of "
    "`id text` lines; a LibriSpeech tree; a NeMo manifest (.jsonl); a Kaldi data folder (wav.scp, text, segments)"
)


@dataclass(frozen=True)
class Word:
    """One spoken word and when it is spoken, in seconds from the start of its utterance."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Utterance:
    """One utterance: where its audio lies, what is said, and when (`words` is empty where the times are unknown)."""

    id: str
    path: Path
    text: str
    start_s: float = 0.0
    end_s: float | None = None
    words: tuple[Word, ...] = ()
    speaker: str = ""


@dataclass(frozen=True)
class Problem:
    """Something in a corpus that could not be used: which (an id, or file:line), and why and what to do."""

    where: str
    message: str


@dataclass(frozen=True)
class Corpus:
    """The usable utterances of a corpus, sorted by id, what of it could not be used, and doubts about what can be."""

    name: str
    utterances: tuple[Utterance, ...]
    problems: tuple[Problem, ...] = ()
    cautions: tuple[Caution, ...] = ()

    @property
    def digest(self) -> str:
        """16 hex digits that change with any id, text, time or audio file size, and with nothing else.

        The audio itself is not hashed, since reading a large corpus takes minutes: a file that is exchanged for another
        of the same size goes unnoticed. Where the corpus lies does not matter.
        """
        digest = hashlib.sha256()
        for utterance in self.utterances:
            words = [(word.text, word.start_s, word.end_s) for word in utterance.words]
            size_bytes = os.path.getsize(utterance.path) if os.path.isfile(utterance.path) else -1
            piece = (utterance.id, utterance.text, size_bytes, utterance.start_s, utterance.end_s, words)
            digest.update(json.dumps(piece).encode() + b"\n")
        return digest.hexdigest()[:16]


def load_corpus(source: str | Path = BUNDLED, words: Path | None = None) -> Corpus:
    """The corpus that `source` names, in whichever format, with the word times of the CTM file `words` if given."""
    # Imported here, as the readers of each format need the nouns of this module.
    from stopwav.speech import ctm, wordtimes

    corpus = bundled_corpus() if source == BUNDLED else _read(Path(source))
    if not corpus.utterances:
        reasons = "".join(f"; {problem.where}: {problem.message}" for problem in corpus.problems[:1])
        count = f"{len(corpus.problems)} problem{'' if len(corpus.problems) == 1 else 's'}"
        raise StopwavError(f"{source} holds no utterance to measure ({count}{reasons}); stopwav reads {FORMATS}")
    return wordtimes.attach(corpus, ctm.read(words), words.name) if words else corpus


def bundled_corpus() -> Corpus:
    """The corpus that comes with stopwav: 24 synthetic utterances in three voices, with exact word times."""
    from stopwav.speech import ctm, folder, wordtimes

    root = Path(__file__).parent / "data" / "corpus"
    corpus = folder.load_folder(root)
    voices = tuple(replace(utterance, speaker=utterance.id.rpartition("-")[2]) for utterance in corpus.utterances)
    corpus = replace(corpus, name=BUNDLED, utterances=voices)
    return wordtimes.attach(corpus, ctm.read(root / "words.ctm"), "words.ctm")


def assemble(name: str, found: Iterable[tuple[str, Utterance]], problems: Iterable[Problem]) -> Corpus:
    """The corpus of what was found, each with the place it was found at; what cannot be measured becomes a problem."""
    utterances: dict[str, Utterance] = {}
    refused = list(problems)
    for where, utterance in found:
        if utterance.id in utterances:
            refused.append(
                Problem(where, f"id {utterance.id} appears a second time; the first is used: rename this one")
            )
        elif not os.path.isfile(utterance.path):
            refused.append(Problem(where, f"no audio for {utterance.id}: there is no file {str(utterance.path)!r}"))
        elif not normalise(utterance.text):
            refused.append(
                Problem(where, f"no words in the transcript of {utterance.id}: {utterance.text!r}; add them")
            )
        else:
            utterances[utterance.id] = utterance
    return Corpus(name, tuple(utterances[name] for name in sorted(utterances)), tuple(refused))


def _read(path: Path) -> Corpus:
    """The corpus at `path`, by the reader of its format."""
    from stopwav.speech import folder, kaldi, manifest

    if os.path.isfile(path) and manifest.is_manifest(path):
        return manifest.load_manifest(path)
    if os.path.isfile(path / "wav.scp"):
        return kaldi.load_kaldi(path)
    if os.path.isdir(path):
        return folder.load_folder(path)
    reason = "is a file of no known kind" if os.path.isfile(path) else "does not exist"
    raise StopwavError(f"corpus {path} {reason}; stopwav reads {FORMATS}")
