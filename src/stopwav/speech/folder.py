"""A folder of audio files with transcripts beside them or in lists; a LibriSpeech tree is one of these."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from stopwav.speech.corpus import Corpus, Problem, Utterance, assemble
from stopwav.speech.lines import id_of, one_line, read_lines

AUDIO_SUFFIXES = (".flac", ".mp3", ".ogg", ".wav")

# Texts that lie beside audio without being anyone's transcript.
_ABOUT = ("changelog", "copying", "licence", "license", "notice", "readme", "speakers")


@dataclass
class _Audio:
    """The audio files of a tree, to be found by path or by name, and those that got a transcript so far."""

    root: Path
    by_base: dict[Path, list[Path]] = field(default_factory=lambda: defaultdict(list))  # the path without its suffix
    by_stem: dict[str, list[Path]] = field(default_factory=lambda: defaultdict(list))
    used: set[Path] = field(default_factory=set)

    def find(self, folder: Path, name: str) -> list[Path]:
        """The audio files that a list in `folder` can mean by `name`: right there, else anywhere below."""
        stem, suffix = os.path.splitext(name)
        names = (name, stem) if suffix.lower() in AUDIO_SUFFIXES else (name,)
        for candidate in names:
            if base := self.by_base.get(folder / candidate):
                return base
        for candidate in names:
            if below := [path for path in self.by_stem.get(candidate, ()) if path.is_relative_to(folder)]:
                return below
        return []

    def shown(self, path: Path) -> str:
        """The path as it is named in a problem."""
        return one_line(path.relative_to(self.root).as_posix())


def load_folder(root: Path) -> Corpus:
    """The utterances of a folder and those below it; links to folders are not followed, as they may form rings."""
    audio, texts = _Audio(root), []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(folder, name) for name in names if not name.startswith(".")):
            if path.suffix.lower() in AUDIO_SUFFIXES:
                audio.by_base[path.with_suffix("")].append(path)
                audio.by_stem[path.stem].append(path)
            elif path.suffix.lower() == ".txt":
                texts.append(path)
    for paths in (*audio.by_base.values(), *audio.by_stem.values()):
        paths.sort()  # the order of os.walk is that of the disk
    found: list[tuple[str, Utterance]] = []
    problems: list[Problem] = []
    lists = sorted(path for path in texts if _is_list(path))
    for path in lists:
        _read_list(path, audio, found, problems)
    _read_beside(audio, sorted(set(texts) - set(lists)), found, problems)
    return assemble(root.resolve().name, found, problems)


def _is_list(path: Path) -> bool:
    return path.name in ("transcripts.txt", "trans.txt") or path.name.endswith(".trans.txt")


def _read_list(path: Path, audio: _Audio, found: list[tuple[str, Utterance]], problems: list[Problem]) -> None:
    """Nothing; `found` and `problems` grow by the `id text` lines of a list."""
    lines, not_text = read_lines(path, audio.shown(path))
    problems += not_text
    speaker = _librispeech_speaker(path)
    for line in lines:
        name, text = line.split_first()
        candidates = audio.find(path.parent, name)
        if not candidates:
            looked = f"{one_line(name)}{{{','.join(AUDIO_SUFFIXES)}}} in or below {audio.shown(path.parent)}"
            problems.append(Problem(line.where, f"no audio for {one_line(name)}: looked for {looked}"))
            continue
        first, *others = candidates
        for other in sorted(set(others) - audio.used):
            problems.append(
                Problem(audio.shown(other), f"id {one_line(name)} is {audio.shown(first)} already; rename one")
            )
        audio.used.update(candidates)
        found.append((line.where, Utterance(id_of(name), first, one_line(text), speaker=speaker)))


def _librispeech_speaker(path: Path) -> str:
    """The speaker of `61/70968/61-70968.trans.txt`; empty for a list that is not named so."""
    chapter = path.absolute().parent
    speaker = chapter.parent.name
    return speaker if path.name == f"{speaker}-{chapter.name}.trans.txt" else ""


def _read_beside(audio: _Audio, texts: list[Path], found: list[tuple[str, Utterance]], problems: list[Problem]) -> None:
    """Nothing; `found` and `problems` grow by the audio files that no list named, each with the text beside it."""
    beside = {path.with_suffix(""): path for path in texts}
    told: set[Path] = set()
    for base in sorted(audio.by_base):
        for path in (path for path in audio.by_base[base] if path not in audio.used):
            if base not in beside:
                hint = f"add {base.name}.txt beside it, or a line to transcripts.txt"
                problems.append(Problem(audio.shown(path), f"no transcript; {one_line(hint)}"))
                continue
            told.add(base.parent)
            lines, not_text = read_lines(beside[base], audio.shown(beside[base]))
            problems += not_text
            if not not_text:
                text = one_line(" ".join(line.text for line in lines))
                name = id_of(base.relative_to(audio.root).as_posix())
                found.append((audio.shown(path), Utterance(name, path, text)))
    for base, path in sorted(beside.items()):
        # Only where transcripts lie beside their audio is a text without audio one that lost it.
        if base.parent in told and base not in audio.by_base and base.name.lower() not in _ABOUT:
            problems.append(Problem(audio.shown(path), f"no audio for this transcript; add {one_line(base.name)}.wav"))
