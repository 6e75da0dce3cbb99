"""Audio files, alone or in a folder, with transcripts next to them or in lists; a LibriSpeech tree is one of these."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.speech.language import ENGLISH
from stopwav.speech.utterance import Corpus, Line, Problem, Utterance, assemble, id_of, one_line, read_lines

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

# Names of text files next to audio that are not transcripts.
_NOT_TRANSCRIPTS = ("changelog", "copying", "licence", "license", "notice", "readme", "speakers")


@dataclass
class _AudioFiles:
    """The audio files of a tree by path and by name, and those that have a transcript so far."""

    root: Path
    by_base: dict[Path, list[Path]] = field(default_factory=lambda: defaultdict(list))  # the path without its suffix
    by_stem: dict[str, list[Path]] = field(default_factory=lambda: defaultdict(list))
    used: set[Path] = field(default_factory=set)

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


def load_folder(root: Path) -> Corpus:
    """Load the utterances of a folder and its subfolders; links are not followed, since they may form cycles."""
    audio, texts, unreadable = _AudioFiles(root), [], []
    problems: list[Problem] = []
    for folder, folders, names in os.walk(root, onerror=lambda error: problems.append(_closed_folder(root, error))):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(folder, name) for name in names if not name.startswith(".")):
            if path.suffix.lower() in AUDIO_SUFFIXES:
                audio.by_base[path.with_suffix("")].append(path)
                audio.by_stem[path.stem].append(path)
            elif path.suffix.lower() == ".txt":
                texts.append(path)
            elif path.suffix.lower() in UNREADABLE_SUFFIXES:
                unreadable.append(path)
    for paths in (*audio.by_base.values(), *audio.by_stem.values()):
        # os.walk gives them in the order of the disk.
        paths.sort(key=lambda path: (path.suffix.lower() not in _USUAL_SUFFIXES, path))
    entries: list[tuple[str, Utterance]] = []
    problems += _unreadable_problems(audio, unreadable)
    lists = sorted(path for path in texts if _is_list(path))
    for path in lists:
        _read_list(path, audio, entries, problems)
    _read_single_texts(audio, sorted(set(texts) - set(lists)), entries, problems)
    return assemble(root.resolve().name, entries, problems)


def load_file(path: Path) -> Corpus:
    """Load one audio file as a corpus, with the text file of the same name next to it where there is one."""
    audio = _AudioFiles(path.parent)
    audio.by_base[path.with_suffix("")].append(path)
    text = path.with_suffix(".txt")
    entries: list[tuple[str, Utterance]] = []
    problems: list[Problem] = []
    _read_single_texts(audio, [text] if os.path.isfile(text) else [], entries, problems)
    return assemble(path.stem, entries, problems)


def conversion(path: Path) -> str:
    """Return what to do with a recording that libsndfile does not read."""
    name = one_line(path.name)
    return f"stopwav does not read {path.suffix.lower()} files; convert it: ffmpeg -i {name} {one_line(path.stem)}.wav"


def _unreadable_problems(audio: _AudioFiles, paths: list[Path]) -> Iterator[Problem]:
    """A problem per kind of recording that cannot be read, but for those that also lie there as audio that can."""
    by_suffix: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(path for path in paths if path.with_suffix("") not in audio.by_base):
        by_suffix[path.suffix.lower()].append(path)
    for first, *others in by_suffix.values():
        more = f" (and {len(others)} more)" if others else ""
        yield Problem(f"{audio.shown(first)}{more}", conversion(first))


def _closed_folder(root: Path, error: OSError) -> Problem:
    where = one_line(os.path.relpath(error.filename, root))
    return Problem(where, f"the folder cannot be read ({error.strerror}); check its permissions")


def _lines(path: Path, audio: _AudioFiles, problems: list[Problem]) -> list[Line] | None:
    """The lines of a text; None, and a problem for the file or each wrong line, where it is not readable as a whole."""
    try:
        lines, unreadable = read_lines(path, audio.shown(path))
    except StopwavError as error:
        problems.append(Problem(audio.shown(path), str(error)))
        return None
    problems += unreadable
    return None if unreadable and not _is_list(path) else lines


def _is_list(path: Path) -> bool:
    return path.name in ("transcripts.txt", "trans.txt") or path.name.endswith(".trans.txt")


def _read_list(path: Path, audio: _AudioFiles, entries: list[tuple[str, Utterance]], problems: list[Problem]) -> None:
    """Add the `id text` lines of a list to `entries` and `problems`."""
    speaker = _librispeech_speaker(path)
    for line in _lines(path, audio, problems) or ():
        name, text = line.split_first()
        candidates = audio.find(path.parent, name)
        if not candidates:
            pattern = f"{one_line(name)}{{{','.join(AUDIO_SUFFIXES)}}} in or below {audio.shown(path.parent)}"
            problems.append(Problem(line.where, f"no audio for {one_line(name)}: looked for {pattern}"))
            continue
        first, *others = candidates
        for other in sorted(set(others) - audio.used):
            problems.append(
                Problem(audio.shown(other), f"id {one_line(name)} is {audio.shown(first)} already; rename one")
            )
        audio.used.update(candidates)
        # A LibriSpeech tree is of English.
        language = ENGLISH if speaker else ""
        utterance = Utterance(id_of(name), first, one_line(text), speaker=speaker, language=language)
        entries.append((line.where, utterance))


def _librispeech_speaker(path: Path) -> str:
    """Return the speaker of `61/70968/61-70968.trans.txt`; "" for a list with another name."""
    chapter = path.absolute().parent
    speaker = chapter.parent.name
    return speaker if path.name == f"{speaker}-{chapter.name}.trans.txt" else ""


def _read_single_texts(
    audio: _AudioFiles, texts: list[Path], entries: list[tuple[str, Utterance]], problems: list[Problem]
) -> None:
    """Add the audio files that no list named to `entries` and `problems`, each with the text next to it, if any."""
    transcripts = {path.with_suffix(""): path for path in texts}
    used_folders: set[Path] = set()
    for base in sorted(audio.by_base):
        for path in (path for path in audio.by_base[base] if path not in audio.used):
            text = None
            if base in transcripts:
                used_folders.add(base.parent)
                lines = _lines(transcripts[base], audio, problems)
                if lines is None:
                    continue
                text = one_line(" ".join(line.text for line in lines))
            name = id_of(base.relative_to(audio.root).as_posix())
            entries.append((audio.shown(path), Utterance(name, path, text)))
    for base, path in sorted(transcripts.items()):
        # Only where other transcripts are next to their audio is a text without audio a transcript that lost it.
        if base.parent in used_folders and base not in audio.by_base and base.name.lower() not in _NOT_TRANSCRIPTS:
            problems.append(Problem(audio.shown(path), f"no audio for this transcript; add {one_line(base.name)}.wav"))
