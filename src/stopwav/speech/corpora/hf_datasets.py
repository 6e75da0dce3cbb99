"""Hugging Face datasets, by the package `datasets`: from the Hub, or a local folder or file.

Their audio lies in tables, or far away. It is written to the user's cache folder once, row by row; what was interrupted
continues, and later runs read it from there, without the network.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.speech.cache_folder import VARIABLE, cache_folder
from stopwav.speech.corpora.audio_tree import AUDIO_SUFFIXES
from stopwav.speech.corpora.json_lines import read_entries
from stopwav.speech.corpora.name import CorpusName
from stopwav.speech.corpora.rows import Columns, choose_columns, label, row_utterance
from stopwav.speech.utterance import Corpus, Problem, Progress, Utterance, assemble, one_line

# Files of Dataset.save_to_disk and DatasetDict.save_to_disk.
SAVED, SAVED_SPLITS = "state.json", "dataset_dict.json"
COLUMN_OPTIONS = ("audio", "text", "id", "speaker", "language")
# The split that is read of a dataset with several.
DEFAULT_SPLIT = "test"
ALL_ROWS = "all"
# A test set of a hundred hours; what is larger is not fetched or copied by mistake.
LARGEST_BYTES = 12 * 10**9
# One request before anything is loaded: the client's own attempts take 24 s where there is no network.
HUB_TIMEOUT_S = 5.0

_ROWS, _COMPLETE = "rows.jsonl", "complete.json"
# The columns of _ROWS, in which "" stands for none.
_COLUMNS = Columns("audio_filepath", "text", "id", "speaker", "language")


def is_saved_dataset(folder: Path) -> bool:
    """Whether a folder was written by save_to_disk, or holds Parquet files as datasets of the Hub do."""
    saved = os.path.isfile(folder / SAVED) or os.path.isfile(folder / SAVED_SPLITS)
    return saved or any(folder.glob("*.parquet")) or any(folder.glob("data/*.parquet"))


def load_dataset_corpus(name: CorpusName, progress: Progress | None = None) -> Corpus:
    """Load the rows of a dataset as utterances."""
    name.check_options("config", "split", "rows", "revision", *COLUMN_OPTIONS)
    folder = _imported(name, progress)
    entries, problems = read_entries(folder / _ROWS)
    utterances: list[tuple[str, Utterance]] = []
    for entry in entries:
        where = f"row {entry.fields['row']}"
        problem = entry.fields.get("problem")
        utterance = problem or row_utterance(folder, entry.fields, _COLUMNS)
        if isinstance(utterance, Utterance):
            utterances.append((where, utterance))
        else:
            problems.append(Problem(where, str(utterance)))
    parts = [name.path.stem, *(name.options[key] for key in ("config", "split") if key in name.options)]
    return assemble("-".join(parts), utterances, problems)


def _imported(name: CorpusName, progress: Progress | None) -> Path:
    """Return the folder in the cache that holds the rows of a dataset, after reading those that are not there yet."""
    root = cache_folder()
    if root is None:
        raise StopwavError(f"corpus {name}: its audio needs a folder on this disk: set {VARIABLE} to one")
    local = os.path.exists(name.path)
    outline = _outline(name.path) if local else []
    identity = [os.path.abspath(name.path) if local else name.source, sorted(name.options.items()), outline]
    folder = root / "datasets" / hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]
    if os.path.isfile(folder / _COMPLETE):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(name, folder):
            if not os.path.isfile(folder / _COMPLETE):
                _read_rows(name, folder, sum(size for _, size, _ in outline), progress)
    except OSError as error:
        raise StopwavError(f"cannot write {folder} ({error.strerror}); set {VARIABLE} to another folder") from error
    return folder


def _outline(path: Path) -> list[tuple[str, int, int]]:
    """The files of a local dataset, their sizes and times of change."""
    paths = sorted(path.rglob("*")) if os.path.isdir(path) else [path]
    files = ((each, each.stat()) for each in paths if os.path.isfile(each))
    return [(str(each.relative_to(path)), status.st_size, status.st_mtime_ns) for each, status in files]


@contextmanager
def _lock(name: CorpusName, folder: Path) -> Iterator[None]:
    """Keep other processes from reading the same rows meanwhile."""
    import fcntl

    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StopwavError(f"corpus {name}: another process is reading it; wait until it is done") from None
        yield


def _read_rows(name: CorpusName, folder: Path, local_bytes: int, progress: Progress | None) -> None:
    """Write the rows of a dataset and their audio to the folder, after those that an earlier process wrote."""
    path = folder / _ROWS
    lines = path.read_bytes().splitlines(keepends=True) if os.path.isfile(path) else []
    done = sum(line.endswith(b"\n") for line in lines)
    limit = _row_limit(name)
    dataset, total = _opened(name, local_bytes)
    total = total if limit is None else min(limit, total or limit)
    rows, named, columns = iter(dataset.skip(done)), _class_names(dataset.features or {}), None
    with path.open("wb") as file:
        file.writelines(lines[:done])
        for number in itertools.count(done):
            row = None if number == limit else _next_row(name, rows, number)
            if row is None:
                break
            columns = columns or _audio_columns(name, row)
            line = {"row": number, **_stored(name, folder, number, named(row), columns)}
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            if progress is not None:
                progress("reading the dataset", number + 1, total or number + 2)
    (folder / _COMPLETE).write_text(json.dumps({"corpus": str(name)}))


def _row_limit(name: CorpusName) -> int | None:
    text = name.options.get("rows", ALL_ROWS)
    if text == ALL_ROWS:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise StopwavError(f"corpus {name}: rows={text}: give a number of rows, or rows={ALL_ROWS}")
    return int(text)


def _next_row(name: CorpusName, rows: Iterator[Mapping[str, Any]], number: int) -> Mapping[str, Any] | None:
    """Return the next row, None after the last."""
    try:
        return next(rows, None)
    except Exception as error:  # of the network, of the files, of the package's decoders
        raise StopwavError(
            f"corpus {name}: row {number} was not read ({_first_line(error)}); run it again to continue there"
        ) from error


def _opened(name: CorpusName, local_bytes: int) -> tuple[Any, int | None]:
    """Return the split that is named, a stream of rows with undecoded audio, and their number where it is known."""
    try:
        import datasets
    except ImportError as error:
        raise StopwavError(f"corpus {name} needs the package datasets: pip install 'stopwav[datasets]'") from error
    if not os.path.exists(name.path):
        _check_hub(name)
    datasets.disable_progress_bars()
    try:
        splits = _load(datasets, name)
    except Exception as error:  # whatever is wrong with a dataset, the package's first line says it
        raise StopwavError(f"corpus {name}: {_first_line(error)}; check the name, config= and revision=") from error
    dataset = _split(name, splits)
    info = (dataset.info.splits or {}).get(str(dataset.split))
    size_bytes = local_bytes or (info.num_bytes if info else 0)
    if size_bytes > LARGEST_BYTES and "rows" not in name.options:
        raise StopwavError(
            f"corpus {name} has {size_bytes / 1e9:.0f} GB, which would be copied to {cache_folder()}; give the number "
            f"of its first rows to read, rows=1000, or rows={ALL_ROWS}"
        )
    count = dataset.num_rows if hasattr(dataset, "num_rows") else info.num_examples if info else None
    stream = dataset.to_iterable_dataset() if hasattr(dataset, "to_iterable_dataset") else dataset
    return stream.decode(False), count


def _check_hub(name: CorpusName) -> None:
    """Raise in seconds where the Hub is not reached or has no such dataset."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import OfflineModeIsEnabled

    try:
        HfApi().dataset_info(
            name.source.partition(":")[2], revision=name.options.get("revision"), timeout=HUB_TIMEOUT_S
        )
    except OfflineModeIsEnabled:
        return  # what datasets has in its own cache can be read all the same
    except Exception as error:  # no network, no such dataset, or one that needs a login: each has a first line
        raise StopwavError(
            f"corpus {name}: there is no such folder or file, and the Hub was not reached for a dataset of that name "
            f"({_first_line(error)}); a dataset in the cache of `datasets` is read with HF_HUB_OFFLINE=1"
        ) from error


def _load(datasets: Any, name: CorpusName) -> Mapping[str, Any]:
    """Return the splits of a dataset."""
    path = name.path
    if os.path.isfile(path / SAVED) or os.path.isfile(path / SAVED_SPLITS):
        saved = datasets.load_from_disk(str(path))
        return saved if isinstance(saved, Mapping) else {str(saved.split or DEFAULT_SPLIT): saved}
    options = {"name": name.options.get("config"), "streaming": True}
    if os.path.isfile(path):
        return datasets.load_dataset("parquet", data_files=str(path), **options)  # type: ignore[no-any-return]
    return datasets.load_dataset(str(path), revision=name.options.get("revision"), **options)  # type: ignore[no-any-return]


def _split(name: CorpusName, splits: Mapping[str, Any]) -> Any:
    """Return the split that is named, or else the only one, or else the test split."""
    wanted = name.options.get("split")
    if wanted is None:
        wanted = next(iter(splits)) if len(splits) == 1 else DEFAULT_SPLIT
    if wanted not in splits:
        raise StopwavError(
            f"corpus {name}: there is no split {wanted!r}; choose with split=, there are {', '.join(splits)}"
        )
    return splits[wanted]


def _class_names(features: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Return a function that puts names, such as of languages, in place of a row's numbers for them."""
    names = {column: feature.int2str for column, feature in features.items() if hasattr(feature, "int2str")}

    def named(row: Mapping[str, Any]) -> Mapping[str, Any]:
        numbers = {column: row[column] for column in names if isinstance(row[column], int)}
        return {**row, **{column: names[column](number) for column, number in numbers.items()}}

    return named


def _audio_columns(name: CorpusName, row: Mapping[str, Any]) -> Columns:
    columns = choose_columns(name, list(row))
    if not columns.audio:
        raise StopwavError(
            f"corpus {name} has no column of audio; name one of its columns with audio=: {', '.join(row)}"
        )
    return columns


def _stored(name: CorpusName, folder: Path, number: int, row: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Return a row as it is kept, after writing its audio; or the problem with it."""
    audio = row[columns.audio]
    fields = audio if isinstance(audio, Mapping) else {"path": audio}
    source = str(fields.get("path") or "")
    stem, suffix = os.path.splitext(os.path.basename(source))
    text, given = row.get(columns.text), row.get(columns.id)
    if text is not None and not isinstance(text, str):
        return {"problem": f"column {columns.text!r} is {one_line(repr(text))[:40]}, not a text; choose with text="}
    if isinstance(fields.get("bytes"), bytes):
        path = folder / f"{number:06d}{suffix.lower() if suffix.lower() in AUDIO_SUFFIXES else ''}"
        path.write_bytes(fields["bytes"])
    else:
        base = name.path if os.path.isdir(name.path) else name.path.parent
        path = next((place for place in (base / source, Path(source)) if source and os.path.isfile(place)), Path())
        if path == Path():
            return {"problem": f"no audio: {one_line(source)[:200] or 'the row has none'} is not a file here"}
    return {
        "audio_filepath": path.name if path.parent == folder else str(path.absolute()),
        "text": text,
        "id": label(given) or (f"{stem}-{number:06d}" if stem else f"row-{number:06d}"),
        "speaker": label(row.get(columns.speaker)),
        "language": label(row.get(columns.language)),
    }


def _first_line(error: BaseException) -> str:
    """The first line of an error that is not empty, or its type."""
    first: Iterable[str] = (line.strip() for line in str(error).splitlines() if line.strip())
    return one_line(next(iter(first), type(error).__name__))[:300].rstrip(".:")
