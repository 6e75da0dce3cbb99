"""A table of utterances, CSV or TSV: any with a column of audio files, audiofolder's metadata, and Common Voice's."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.speech.corpora.name import CorpusName
from stopwav.speech.corpora.rows import COLUMN_OPTIONS, NAMES, choose_columns, row_utterance
from stopwav.speech.utterance import Corpus, Problem, Utterance, assemble, one_line, read_file

SUFFIXES = (".csv", ".tsv")
METADATA = ("metadata.csv", "metadata.jsonl")
# Common Voice's folder of audio, next to its tables.
CLIPS = "clips"
# The table that is read of a folder with several.
DEFAULT_SPLIT = "test"

_DELIMITERS = (",", ";", "\t", "|")


def load_table(name: CorpusName) -> Corpus:
    """Load the utterances of a table; relative audio paths start from the folder of the table."""
    name.check_options(*COLUMN_OPTIONS)
    return _load(name, name.path, name.path.parent, name.path.stem)


def is_common_voice(folder: Path) -> bool:
    """Whether a folder has the layout of Common Voice."""
    return os.path.isdir(folder / CLIPS) and any(folder.glob("*.tsv"))


def load_common_voice(name: CorpusName) -> Corpus:
    """Load one split of a folder of Common Voice: `split=test` unless another is named."""
    name.check_options("split", *COLUMN_OPTIONS)
    split = name.options.get("split", DEFAULT_SPLIT)
    path = name.path / f"{split}.tsv"
    if not os.path.isfile(path):
        splits = ", ".join(sorted(one_line(path.stem) for path in name.path.glob("*.tsv")))
        raise StopwavError(f"corpus {name}: there is no {split}.tsv; choose with split=, there are {splits}")
    return _load(name, path, name.path / CLIPS, f"{name.path.resolve().name}-{split}")


def _load(name: CorpusName, path: Path, folder: Path, corpus: str) -> Corpus:
    problems: list[Problem] = []
    rows = _rows(path, problems)
    header = next(rows, ("", []))[1]
    columns = choose_columns(name, header)
    if not columns.audio:
        usual, present = ", ".join(NAMES["audio"]), ", ".join(map(one_line, header))
        raise StopwavError(
            f"corpus {name}: {path.name} has no column of audio files ({usual}); name one of its columns with audio=: "
            f"{present or 'it is empty'}"
        )
    entries: list[tuple[str, Utterance]] = []
    for where, fields in rows:
        if len(fields) != len(header):
            message = f"{len(fields)} fields where the header has {len(header)}; correct the quotes or the delimiter"
            problems.append(Problem(where, message))
            continue
        utterance = row_utterance(folder, dict(zip(header, fields, strict=True)), columns)
        if isinstance(utterance, str):
            problems.append(Problem(where, utterance))
        else:
            entries.append((where, utterance))
    return assemble(corpus, entries, problems)


def _rows(path: Path, problems: list[Problem]) -> Iterator[tuple[str, list[str]]]:
    """Yield the place and the fields of each row that is not blank, the header first."""
    try:
        text = read_file(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise StopwavError(f"{path} is not UTF-8; convert it, for example with iconv -f latin1 -t utf-8") from None
    content = io.StringIO(text, newline="")
    # Quotes are ordinary characters in a TSV: Common Voice's sentences have them.
    reader = (
        csv.reader(content, delimiter="\t", quoting=csv.QUOTE_NONE)
        if path.suffix.lower() == ".tsv"
        else csv.reader(content, delimiter=max(_DELIMITERS, key=text.partition("\n")[0].count))
    )
    while True:
        where = f"{path.name}:{reader.line_num + 1}"
        try:
            fields = next(reader, None)
        except csv.Error as error:
            problems.append(Problem(where, f"not a row of a table ({error}); correct it"))
            continue
        if fields is None:
            return
        if any(field.strip() for field in fields):
            yield where, [field.strip() for field in fields]
