"""Digests of the files that a run measures: sources of engines and losses, models, audio.

They are in the header of a run, which is resumed only while the files are as they were: rounds of two versions are not
one measurement.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stopwav.errors import StopwavError

if TYPE_CHECKING:
    from stopwav.engines.inspection import Inspection
    from stopwav.speech.utterance import Utterance
    from stopwav.studies.spec import Progress

# Files of a model up to this size are read: settings, tokenizers and lists. Of larger ones, such as weights of
# gigabytes, size and time of change are taken.
SMALL_BYTES = 2**20
# A folder with more files than this is no model's; the rest of them is left out.
MAX_FILES = 10_000
# Run files, pages and traces are named by study and time; they may lie in a folder that a run measures.
_RUN_NAME = re.compile(r"-\d{8}-\d{6}")
# How a digest was made, which is how it is made again.
CONTENT, OUTLINE, CORPUS = "sha256", "outline", "corpus"
# In place of a digest, of a file that cannot be read.
UNREADABLE = "unreadable"


def content_digests(paths: Iterable[str | Path], progress: Progress | None = None) -> dict[str, str]:
    """Return a digest of the content of each file, by its path; each is read once, in blocks."""
    unique = list(dict.fromkeys(map(str, paths)))
    digests = {}
    for done, path in enumerate(unique, start=1):
        digests[path] = _digest(CONTENT, path)
        if progress is not None:
            progress("reading audio", done, len(unique))
    return digests


def outline_digests(names: Iterable[object]) -> dict[str, str]:
    """Return a digest of each of these settings that is the path of a file or folder, such as a model's.

    It is of the names of all files in it, the content of small ones, and the size and time of change of others.
    """
    paths = (os.path.expanduser(name) for name in names if isinstance(name, str) and name)
    return {path: _digest(OUTLINE, path) for path in paths if _exists(path, OUTLINE)}


def corpus_digest(source: str) -> dict[str, str]:
    """Return the digest of a corpus that audio is drawn from: of its ids, texts, and sizes of files."""
    return {source: _digest(CORPUS, source)}


def engine_digests(engines: Sequence[str], inspections: Sequence[Inspection]) -> dict[str, str]:
    """Return the digests of the files that engines were imported from, and of what their names and options point to."""
    from stopwav.engines.named_models import fetch_model
    from stopwav.engines.registry import parse_spec
    from stopwav.servers.registry import is_server

    sources = [source for inspection in inspections for source in inspection.sources]
    specs = [parse_spec(engine) for engine in engines]
    named = [spec.source for spec in specs if not spec.name.endswith(".py")]
    fetched = [str(path) for spec in specs if not is_server(spec.text) for path in fetch_model(spec)]
    options = [value for spec in specs for value in spec.options.values()]
    return {**content_digests(sources), **outline_digests([*named, *fetched, *options])}


def audio_digests(utterances: Iterable[Utterance], progress: Progress | None = None) -> dict[str, str]:
    """Return a digest of the content of each audio file of a run."""
    return content_digests((utterance.path for utterance in utterances), progress)


def changed_file(digests: Mapping[str, str]) -> str | None:
    """Return the first file or folder that is there and is not as its digest says; None where there is none."""
    for path, digest in digests.items():
        kind = digest.partition(":")[0]
        if _exists(path, digest) and _digest(kind if kind in (OUTLINE, CORPUS) else CONTENT, path) != digest:
            return path
    return None


def missing_file(digests: Mapping[str, str]) -> str | None:
    """Return the first file or folder that is no longer there; None where there is none."""
    return next((path for path, digest in digests.items() if not _exists(path, digest)), None)


def _digest(kind: str, path: str) -> str:
    from stopwav.speech.corpus import load_corpus

    try:
        if kind == CORPUS:
            return f"{CORPUS}:{load_corpus(path).digest}"
        if kind == CONTENT:
            with open(path, "rb") as file:
                return f"{CONTENT}:{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"
        lines = "\n".join(_outline(Path(path)))
    except (OSError, StopwavError):
        return UNREADABLE
    return f"{OUTLINE}:{hashlib.sha256(lines.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"


def _outline(root: Path) -> Iterator[str]:
    """A line per file: its place, its size, and its content where it is small, else when it was changed."""
    paths = [root] if root.is_file() else sorted(_files_in(root))
    for path in paths[:MAX_FILES]:
        status = path.stat()
        small = status.st_size <= SMALL_BYTES
        rest = hashlib.sha256(path.read_bytes()).hexdigest() if small else str(status.st_mtime_ns)
        yield f"{path.relative_to(root)} {status.st_size} {rest}"


def _files_in(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not _is_unrelated(name)]
        paths = (Path(folder, name) for name in names if not _is_unrelated(name))
        yield from (path for path in paths if path.is_file())


def _is_unrelated(name: str) -> bool:
    """Whether a file or folder is no part of a model: hidden, compiled from its sources, or a run."""
    return name.startswith(".") or name == "__pycache__" or _RUN_NAME.search(name) is not None


def _exists(path: str, digest: str) -> bool:
    """Whether a file, a folder or a corpus is there; one of the Hub is in the cache, or is fetched again."""
    from stopwav.speech.corpora.name import parse_name

    try:
        if not digest.startswith(f"{CORPUS}:"):
            return os.path.exists(path)
        name = parse_name(path)
        return name.is_dataset or os.path.exists(name.path)
    except ValueError:  # no text that a path can have
        return False
