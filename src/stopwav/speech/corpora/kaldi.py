"""A Kaldi data folder: wav.scp, with text, segments, utt2spk and utt2lang where it has them."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.speech.utterance import Corpus, Line, Problem, Utterance, assemble, id_of, one_line, read_lines


@dataclass(frozen=True)
class _Part:
    """The part of a recording that an utterance is."""

    where: str
    recording: str
    start_s: float = 0.0
    end_s: float | None = None


def load_kaldi(folder: Path) -> Corpus:
    """Load the utterances of a data folder.

    Commands in wav.scp are never run. Relative paths start from the data folder or, as in Kaldi, from the current one.
    """
    problems: list[Problem] = []
    recordings = _table(folder / "wav.scp", problems)
    texts = _table(folder / "text", problems)
    speakers = _table(folder / "utt2spk", problems)
    languages = _table(folder / "utt2lang", problems)
    if os.path.lexists(folder / "segments"):  # one that cannot be read must not make whole recordings of its segments
        parts = _segments(_table(folder / "segments", problems), problems)
    else:
        parts = {name: _Part(line.where, name) for name, line in recordings.items()}
    entries: list[tuple[str, Utterance]] = []
    for name in [*texts, *sorted(parts.keys() - texts.keys())]:
        where = texts[name].where if name in texts else parts[name].where
        path = _audio_path(folder, name, parts, recordings)
        if isinstance(path, str):
            problems.append(Problem(where, f"no audio for {one_line(name)}: {path}"))
            continue
        part = parts[name]
        text = one_line(texts[name].text) if name in texts else None
        speaker, language = (one_line(of[name].text) if name in of else "" for of in (speakers, languages))
        utterance = Utterance(id_of(name), path, text, part.start_s, part.end_s, speaker=speaker, language=language)
        entries.append((where, utterance))
    return assemble(folder.resolve().name, entries, problems)


def _table(path: Path, problems: list[Problem]) -> dict[str, Line]:
    """Return the rest of each line by its first word; nothing where the file does not exist."""
    table: dict[str, Line] = {}
    try:
        lines, unreadable = read_lines(path) if os.path.lexists(path) else ([], [])
    except StopwavError as error:
        problems.append(Problem(path.name, str(error)))
        return {}
    problems += unreadable
    for line in lines:
        name, rest = line.split_first()
        if name in table:
            first = table[name].where
            problems.append(Problem(line.where, f"id {one_line(name)} is in {first} already, which is used"))
        else:
            table[name] = Line(line.where, rest)
    return table


def _segments(table: dict[str, Line], problems: list[Problem]) -> dict[str, _Part]:
    """Return the part of a recording that each utterance is."""
    parts: dict[str, _Part] = {}
    for name, line in table.items():
        recording, *times = line.text.split() or [""]
        try:
            start_s, end_s = (float(time) for time in times)
        except ValueError:
            problems.append(Problem(line.where, "a segment is `id recording start end`, times in seconds; correct it"))
            continue
        to_end = end_s == -1.0  # Kaldi's notation for the end of the recording
        if not (0.0 <= start_s < (math.inf if to_end else end_s) and math.isfinite(end_s)):
            problems.append(Problem(line.where, f"a segment cannot last from {start_s:g} s to {end_s:g} s; correct it"))
            continue
        parts[name] = _Part(line.where, recording, start_s, None if to_end else end_s)
    return parts


def _audio_path(folder: Path, name: str, parts: dict[str, _Part], recordings: dict[str, Line]) -> Path | str:
    """Return the audio file of an utterance, or why there is none."""
    if name not in parts:
        return "neither wav.scp nor segments has a usable line for it"
    recording = parts[name].recording
    if recording not in recordings:
        return f"recording {one_line(recording)} is not in wav.scp"
    source = recordings[recording].text
    if source.endswith("|") or source.startswith("|"):
        return f"{recordings[recording].where} is a command, which stopwav never runs; write its output to a file"
    in_folder = folder / source
    return in_folder if os.path.isfile(in_folder) or not os.path.isfile(source) else Path(source)
