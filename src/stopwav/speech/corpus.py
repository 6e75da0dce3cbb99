"""Corpora by name: the bundled one, and files, folders and datasets in many formats."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.speech import ctm
from stopwav.speech.corpora import (
    folder,
    hf_datasets,
    json_lines,
    kaldi,
    lhotse_cuts,
    manifest,
    nist,
    table,
    webdataset,
)
from stopwav.speech.corpora.audio_tree import AUDIO_SUFFIXES, UNREADABLE_SUFFIXES, conversion
from stopwav.speech.corpora.name import BUNDLED, CorpusName, located, parse_name
from stopwav.speech.utterance import Corpus, Problem, Progress, Utterance, Word, no_file_reason, one_line

__all__ = [
    "BUNDLED", "FORMATS", "Corpus", "Problem", "Utterance", "Word", "bundled_corpus", "is_audio_file", "load_corpus",
    "located",
]  # fmt: skip

FORMATS = (
    "`bundled`; an audio file, or a folder of them with x.txt next to x.wav or a transcripts.txt of `id text` lines; a "
    "LibriSpeech tree; a NeMo manifest; a Kaldi data folder; Lhotse cuts; a table (.csv, .tsv); Common Voice; "
    "WebDataset (.tar); segments (.stm, .rttm); a Hugging Face dataset (hf:NAME)"
)

_Reader = Callable[[], Corpus]


def load_corpus(source: str | Path = BUNDLED, words: Path | None = None, progress: Progress | None = None) -> Corpus:
    """Load the corpus that `source` names, in any format, with the word times of the CTM file `words` if given.

    `progress` is called while a dataset is copied, which may take minutes.
    """
    corpus = bundled_corpus() if source == BUNDLED else _read(parse_name(source), progress)
    if not corpus.utterances:
        reasons = "".join(f"; {problem.where}: {problem.message}" for problem in corpus.problems[:1])
        count = f"{len(corpus.problems)} problem{'' if len(corpus.problems) == 1 else 's'}"
        raise StopwavError(f"{source} has no usable utterance ({count}{reasons}); stopwav reads {FORMATS}")
    return ctm.attach(corpus, ctm.read(words), words.name) if words else corpus


def bundled_corpus() -> Corpus:
    """Load the corpus that comes with stopwav: 24 synthetic utterances in three voices, with exact word times."""
    root = Path(__file__).parent / "data" / "corpus"
    corpus = folder.load_folder(root)
    voices = tuple(replace(utterance, speaker=utterance.id.rpartition("-")[2]) for utterance in corpus.utterances)
    corpus = replace(corpus, name=BUNDLED, utterances=voices)
    return ctm.attach(corpus, ctm.read(root / "words.ctm"), "words.ctm")


def is_audio_file(source: str) -> bool:
    """Whether a name is that of one audio file, or of nothing that is there, and not of a corpus."""
    name = parse_name(source)
    if source == BUNDLED or name.options or name.is_dataset or os.path.isdir(name.path):
        return False
    return not os.path.isfile(name.path) or _file_reader(name, None) is None


def _read(name: CorpusName, progress: Progress | None) -> Corpus:
    """Read the corpus with the reader of its format."""
    path = name.path
    if name.is_dataset:
        return _dataset_corpus(name, progress)
    if os.path.isdir(path):
        return _folder_reader(name, progress)()
    if os.path.isfile(path):
        if (reader := _file_reader(name, progress)) is not None:
            return reader()
        if path.suffix.lower() in AUDIO_SUFFIXES:
            name.check_options()
            return folder.load_file(path)
        if path.suffix.lower() in UNREADABLE_SUFFIXES:
            raise StopwavError(f"corpus {path}: {conversion(path)}")
    reason = "is a file of an unknown format" if os.path.isfile(path) else no_file_reason(path)
    raise StopwavError(f"corpus {path} {reason}; stopwav reads {FORMATS}")


def _dataset_corpus(name: CorpusName, progress: Progress | None) -> Corpus:
    """Read a dataset; audiofolder's is a table, which needs no package."""
    described = _metadata(name.path)
    if described is not None:
        return _read(CorpusName(str(described), name.options), progress)
    return hf_datasets.load_dataset_corpus(name, progress)


def _file_reader(name: CorpusName, progress: Progress | None) -> _Reader | None:
    """Return the reader of a file that describes several utterances; None for any other."""
    path = name.path
    suffix = path.suffix.lower()
    if suffix in table.SUFFIXES:
        return partial(table.load_table, name)
    if suffix == webdataset.SUFFIX:
        return partial(webdataset.load_webdataset, name)
    if suffix in nist.SUFFIXES:
        return partial(nist.load_nist, name)
    if suffix == ".parquet":
        return partial(hf_datasets.load_dataset_corpus, name, progress)
    if suffix not in AUDIO_SUFFIXES and (json_lines.is_json(path) or _begins_object(path)):
        return partial(_json_corpus, name)
    return None


def _folder_reader(name: CorpusName, progress: Progress | None) -> _Reader:
    path = name.path
    if os.path.isfile(path / "wav.scp"):
        name.check_options()
        return partial(kaldi.load_kaldi, path)
    if table.is_common_voice(path):
        return partial(table.load_common_voice, name)
    if (described := _metadata(path)) is not None:
        return partial(_read, CorpusName(str(described), name.options), progress)
    suffixes = {each.suffix.lower() for each in path.glob("*")}
    # Next to audio files, an archive or a table of results is not the corpus.
    if suffixes.isdisjoint(AUDIO_SUFFIXES):
        if hf_datasets.is_saved_dataset(path):
            return partial(hf_datasets.load_dataset_corpus, name, progress)
        if webdataset.SUFFIX in suffixes:
            return partial(webdataset.load_webdataset, name)
    if not suffixes.isdisjoint(nist.SUFFIXES) and nist.nist_files(path):
        return partial(nist.load_nist, name)
    name.check_options()
    return partial(folder.load_folder, path)


def _metadata(path: Path) -> Path | None:
    """Return the table of a folder that audiofolder describes; others have files of that name too, such as LJSpeech."""
    files = (path / file for file in table.METADATA if os.path.isfile(path / file))
    return next((file for file in files if b"file_name" in _beginning(file)), None)


def _json_corpus(name: CorpusName) -> Corpus:
    entries, problems = json_lines.read_entries(name.path)
    if entries and lhotse_cuts.is_cut(entries[0].fields):
        name.check_options()
        return lhotse_cuts.load_cuts(name, entries, problems)
    return manifest.load_manifest(name, entries, problems)


def _begins_object(path: Path) -> bool:
    return _beginning(path).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(256)
    except OSError as error:
        raise StopwavError(f"cannot read {one_line(str(path))} ({error.strerror}); check its permissions") from None
