"""WebDataset: tar archives of `key.flac` (or other audio) next to `key.txt` or `key.json`, read where they lie."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from stopwav.speech.corpora.audio_tree import AUDIO_SUFFIXES
from stopwav.speech.corpora.name import CorpusName
from stopwav.speech.corpora.rows import choose_columns, label
from stopwav.speech.utterance import ByteRange, Corpus, Problem, Utterance, assemble, id_of, one_line

SUFFIX = ".tar"
# A transcript, or a description, is a few kilobytes.
LARGEST_TEXT_BYTES = 2**20


@dataclass
class _Sample:
    """The members of an archive that share a key."""

    audio: list[ByteRange] = field(default_factory=list)
    text: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)


def load_webdataset(name: CorpusName) -> Corpus:
    """Load the samples of an archive, or of all archives in a folder; audio stays in them, and is read from there."""
    name.check_options("text", "speaker", "language")
    is_file = os.path.isfile(name.path)
    paths = [name.path] if is_file else sorted(name.path.glob(f"*{SUFFIX}"))
    problems: list[Problem] = []
    entries: list[tuple[str, Utterance]] = []
    for path in paths:
        for key, sample in _samples(path, problems).items():
            where = f"{path.name}:{one_line(key)}"
            if not sample.audio:
                problems.append(Problem(where, "no audio for it in the archive; add it, or remove its text"))
                continue
            entries.append((where, _utterance(name, path, key, sample)))
            problems += [Problem(where, "more audio of this key; the first is used") for _ in sample.audio[1:]]
    return assemble(name.path.resolve().stem if is_file else name.path.resolve().name, entries, problems)


def _utterance(name: CorpusName, path: Path, key: str, sample: _Sample) -> Utterance:
    fields = sample.fields
    # Samples need not have the same fields.
    present = [*fields, *(column for column in name.options.values() if column not in fields)]
    columns = choose_columns(name, present)
    described = fields.get(columns.text)
    text = sample.text if sample.text is not None and "text" not in name.options else described
    return Utterance(
        id=id_of(key),
        path=path,
        text=one_line(text) if isinstance(text, str) else None,
        speaker=label(fields.get(columns.speaker)),
        language=label(fields.get(columns.language)),
        byte_range=sample.audio[0],
    )


def _samples(path: Path, problems: list[Problem]) -> dict[str, _Sample]:
    """Return the samples of an archive by key; the headers of members are read, and of the content texts alone."""
    samples: dict[str, _Sample] = {}
    size_bytes = path.stat().st_size
    try:
        # With ":" no archive passes that is compressed as a whole: its members are at no place in the file.
        with tarfile.open(path, "r:") as archive:
            for member, key, suffix in _members(archive):
                where = f"{path.name}:{one_line(member.name)}"
                if member.offset_data + member.size > size_bytes:
                    problems.append(Problem(where, "the archive ends within it; download or write the archive again"))
                elif suffix in AUDIO_SUFFIXES:
                    sample = samples.setdefault(key, _Sample())
                    sample.audio.append(ByteRange(member.offset_data, member.size))
                elif suffix in (".txt", ".json"):
                    _read_text(archive, member, suffix, samples.setdefault(key, _Sample()), where, problems)
    except (tarfile.TarError, OSError, EOFError) as error:
        advice = "decompress it, for example with gunzip" if _is_compressed(path) else "download or write it again"
        problems.append(Problem(path.name, f"not readable as a tar archive ({error}); {advice}"))
    return samples


def _members(archive: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, str, str]]:
    """Yield the files of an archive, each with its key, the path up to the first dot of the name, and its suffix."""
    for member in archive:
        path = PurePosixPath(member.name)
        stem, dot, extension = path.name.partition(".")
        if member.isfile() and not member.issparse() and stem:
            yield member, str(path.with_name(stem)), f"{dot}{extension.rpartition('.')[2]}".lower()


def _read_text(
    archive: tarfile.TarFile,
    member: tarfile.TarInfo,
    suffix: str,
    sample: _Sample,
    where: str,
    problems: list[Problem],
) -> None:
    """Add a transcript or a description to its sample."""
    content = archive.extractfile(member)
    if content is None or member.size > LARGEST_TEXT_BYTES:
        problems.append(Problem(where, f"{member.size:,} bytes are no transcript; remove it"))
        return
    try:
        text = content.read().decode("utf-8-sig")
        if suffix == ".txt":
            sample.text = one_line(text)
            return
        fields = json.loads(text)
        if not isinstance(fields, dict):
            raise ValueError(f"a {type(fields).__name__}, not an object")
        sample.fields = fields
    except (ValueError, RecursionError) as error:  # also of text that is not UTF-8
        problems.append(Problem(where, f"not readable ({one_line(str(error))[:80]}); correct it"))


def _is_compressed(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(6)
    return head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"))
