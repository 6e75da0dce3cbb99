"""A NeMo manifest: one JSON object per line, with audio_filepath, and where it has them text, duration and offset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stopwav.speech.corpora.json_lines import Entry
from stopwav.speech.corpora.name import CorpusName
from stopwav.speech.corpora.rows import COLUMN_OPTIONS, choose_columns, row_utterance
from stopwav.speech.utterance import Corpus, Problem, Utterance, assemble


def load_manifest(name: CorpusName, entries: Sequence[Entry], problems: Sequence[Problem]) -> Corpus:
    """Load the utterances of a manifest's entries; relative audio paths start from the folder of the manifest."""
    name.check_options(*COLUMN_OPTIONS)
    columns = choose_columns(name, list(dict.fromkeys(key for entry in entries for key in entry.fields)))
    utterances: list[tuple[str, Utterance]] = []
    refused = list(problems)
    for entry in entries:
        utterance = row_utterance(name.path.parent, entry.fields, columns)
        if isinstance(utterance, str):
            refused.append(Problem(entry.where, utterance))
        else:
            utterances.append((entry.where, utterance))
    return assemble(corpus_stem(name.path), utterances, refused)


def corpus_stem(path: Path) -> str:
    """Return the name of a corpus that is a file: that of the file, without suffixes such as .jsonl.gz."""
    return Path(path.stem).stem if path.suffix == ".gz" else path.stem
