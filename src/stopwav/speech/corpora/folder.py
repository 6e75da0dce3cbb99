"""Audio files, alone or in a folder, with transcripts next to them or in lists; a LibriSpeech tree is one of these."""

from __future__ import annotations

import os
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.speech.corpora.audio_tree import AUDIO_SUFFIXES, AudioTree, read_tree
from stopwav.speech.language import ENGLISH
from stopwav.speech.utterance import Corpus, Line, Problem, Utterance, assemble, id_of, one_line, read_lines

# Names of text files next to audio that are not transcripts.
_NOT_TRANSCRIPTS = ("changelog", "copying", "licence", "license", "notice", "readme", "speakers")


def load_folder(root: Path) -> Corpus:
    """Load the utterances of a folder and its subfolders."""
    audio = read_tree(root)
    texts, problems = audio.texts, audio.problems
    entries: list[tuple[str, Utterance]] = []
    lists = sorted(path for path in texts if _is_list(path))
    for path in lists:
        _read_list(path, audio, entries, problems)
    _read_single_texts(audio, sorted(set(texts) - set(lists)), entries, problems)
    return assemble(root.resolve().name, entries, problems)


def load_file(path: Path) -> Corpus:
    """Load one audio file as a corpus, with the text file of the same name next to it where there is one."""
    audio = AudioTree(path.parent)
    audio.by_base[path.with_suffix("")].append(path)
    text = path.with_suffix(".txt")
    entries: list[tuple[str, Utterance]] = []
    problems: list[Problem] = []
    _read_single_texts(audio, [text] if os.path.isfile(text) else [], entries, problems)
    return assemble(path.stem, entries, problems)


def _lines(path: Path, audio: AudioTree, problems: list[Problem]) -> list[Line] | None:
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


def _read_list(path: Path, audio: AudioTree, entries: list[tuple[str, Utterance]], problems: list[Problem]) -> None:
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
    audio: AudioTree, texts: list[Path], entries: list[tuple[str, Utterance]], problems: list[Problem]
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
