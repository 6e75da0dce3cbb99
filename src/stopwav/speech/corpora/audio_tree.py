"""The audio files of a folder and its subfolders, by path and by name."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stopwav.speech.utterance import Problem, one_line

# Of two files that differ in their suffix alone, the one with a usual suffix is used.
_USUAL_SUFFIXES = (".flac", ".mp3", ".ogg", ".wav")
AUDIO_SUFFIXES = (
    *_USUAL_SUFFIXES,
    *(".aif", ".aifc", ".aiff", ".au", ".caf", ".oga", ".opus", ".rf64", ".snd", ".sph", ".w64"),
)
# Recordings that libsndfile does not read.
UNREADABLE_SUFFIXES = (
    *(".3gp", ".aac", ".ac3", ".amr", ".ape", ".m4a", ".m4b", ".mka"),
    *(".mkv", ".mov", ".mp4", ".webm", ".wma", ".wv"),
)


@dataclass
class AudioTree:
    """The audio files of a tree by path and by name, those that have a transcript so far, and the texts there."""

    root: Path
    by_base: dict[Path, list[Path]] = field(default_factory=lambda: defaultdict(list))  # the path without its suffix
    by_stem: dict[str, list[Path]] = field(default_factory=lambda: defaultdict(list))
    used: set[Path] = field(default_factory=set)
    texts: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def find(self, folder: Path, name: str) -> list[Path]:
        """Return the audio files that a list in `folder` can mean by `name`: right there, else anywhere below."""
        stem, suffix = os.path.splitext(name)
        names = (name, stem) if suffix.lower() in AUDIO_SUFFIXES else (name,)
        for candidate in names:
            if here := self.by_base.get(folder / candidate):
                return here
        for candidate in names:
            if below := [path for path in self.by_stem.get(candidate, ()) if path.is_relative_to(folder)]:
                return below
        return []

    def shown(self, path: Path) -> str:
        """Return the path as problems name it."""
        return one_line(path.relative_to(self.root).as_posix())


def read_tree(root: Path) -> AudioTree:
    """Return the files of a folder and its subfolders; links are not followed, since they may form cycles."""
    tree, unreadable = AudioTree(root), []
    for folder, folders, names in os.walk(
        root, onerror=lambda error: tree.problems.append(_closed_folder(root, error))
    ):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(folder, name) for name in names if not name.startswith(".")):
            if path.suffix.lower() in AUDIO_SUFFIXES:
                tree.by_base[path.with_suffix("")].append(path)
                tree.by_stem[path.stem].append(path)
            elif path.suffix.lower() == ".txt":
                tree.texts.append(path)
            elif path.suffix.lower() in UNREADABLE_SUFFIXES:
                unreadable.append(path)
    for paths in (*tree.by_base.values(), *tree.by_stem.values()):
        # os.walk gives them in the order of the disk.
        paths.sort(key=lambda path: (path.suffix.lower() not in _USUAL_SUFFIXES, path))
    tree.problems += _unreadable_problems(tree, unreadable)
    return tree


def conversion(path: Path) -> str:
    """Return what to do with a recording that libsndfile does not read."""
    name = one_line(path.name)
    return f"stopwav does not read {path.suffix.lower()} files; convert it: ffmpeg -i {name} {one_line(path.stem)}.wav"


def _unreadable_problems(tree: AudioTree, paths: list[Path]) -> Iterator[Problem]:
    """A problem per kind of recording that cannot be read, but for those that also lie there as audio that can."""
    by_suffix: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(path for path in paths if path.with_suffix("") not in tree.by_base):
        by_suffix[path.suffix.lower()].append(path)
    for first, *others in by_suffix.values():
        more = f" (and {len(others)} more)" if others else ""
        yield Problem(f"{tree.shown(first)}{more}", conversion(first))


def _closed_folder(root: Path, error: OSError) -> Problem:
    where = one_line(os.path.relpath(error.filename, root))
    return Problem(where, f"the folder cannot be read ({error.strerror}); check its permissions")
