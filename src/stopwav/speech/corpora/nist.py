"""Segments of recordings in NIST's formats: STM has who said what and when, RTTM who spoke when, without words."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.speech.corpora.audio_tree import AudioTree, read_tree
from stopwav.speech.corpora.name import CorpusName
from stopwav.speech.utterance import Corpus, Line, Problem, Utterance, assemble, id_of, one_line, read_lines

SUFFIXES = (".stm", ".rttm")
# The text of a segment that NIST's scoring leaves out: nobody knows what is said in it.
IGNORED = "ignore_time_segment_in_scoring"
# `{ a / b }`: either is right; the first is expected.
_ALTERNATIVES = re.compile(r"\{([^{}/]*)[^{}]*\}")
# The labels of a segment, between its times and its text.
_LABELS = re.compile(r"<[^<>\s]*>")


@dataclass(frozen=True)
class _Segment:
    """A line of either format."""

    recording: str
    channel: str
    start_s: float
    end_s: float
    speaker: str
    text: str | None


def load_nist(name: CorpusName) -> Corpus:
    """Load the segments of a file, or of all such files in a folder; audio is in `audio_folder=` or next to them."""
    name.check_options("audio_folder")
    is_file = os.path.isfile(name.path)
    paths = [name.path] if is_file else nist_files(name.path)
    root = Path(name.options.get("audio_folder", name.path.parent if is_file else name.path))
    if not os.path.isdir(root):
        raise StopwavError(f"corpus {name}: audio_folder={root} is no folder; give the folder of its recordings")
    audio = read_tree(root)
    problems = audio.problems
    entries: list[tuple[str, Utterance]] = []
    for path in paths:
        entries += _read(path, audio, problems)
    return assemble(name.path.resolve().stem if is_file else name.path.resolve().name, entries, problems)


def nist_files(folder: Path) -> list[Path]:
    """Return the STM files of a folder; where it has none, and no other texts, its RTTM files."""
    paths = sorted(path for path in folder.glob("*.stm") if os.path.isfile(path))
    return paths if paths or any(folder.glob("*.txt")) else sorted(folder.glob("*.rttm"))


def _read(path: Path, audio: AudioTree, problems: list[Problem]) -> Iterator[tuple[str, Utterance]]:
    lines, unreadable = read_lines(path)
    problems += unreadable
    parse = _stm_segment if path.suffix.lower() == ".stm" else _rttm_segment
    ignored: list[str] = []
    for line in lines:
        if line.text.startswith(";;"):
            continue
        segment = parse(line)
        if segment is None:
            continue
        if isinstance(segment, _Segment) and (segment.text or "").lower() == IGNORED:
            ignored.append(line.where)
            continue
        utterance = segment if isinstance(segment, str) else _utterance(segment, audio)
        if isinstance(utterance, str):
            problems.append(Problem(line.where, utterance))
        else:
            yield line.where, utterance
    if ignored:
        count = f"{len(ignored)} segment{'' if len(ignored) == 1 else 's'} of unknown words"
        problems.append(Problem(ignored[0], f"{count} ({IGNORED}) left out"))


def _stm_segment(line: Line) -> _Segment | str:
    """Return the segment of `recording channel speaker start end [<labels>] text`, or what is wrong with the line."""
    fields = line.text.split(maxsplit=5)
    if len(fields) < 5:
        return "a line is `recording channel speaker start end [<labels>] text`; correct it"
    recording, channel, speaker, start, end, *rest = fields
    text = rest[0] if rest else ""
    labels = _LABELS.match(text)
    if labels is not None:
        text = text[labels.end() :].strip()
    text = _ALTERNATIVES.sub(lambda match: match.group(1).replace("@", " "), text)
    return _Segment(recording, channel, _seconds(start), _seconds(end), speaker, one_line(text))


def _rttm_segment(line: Line) -> _Segment | str | None:
    """Return the segment of `SPEAKER recording channel start duration … speaker …`; other kinds of lines have none."""
    fields = line.text.split()
    if fields[0] != "SPEAKER":
        return None
    if len(fields) < 8:
        return "a line is `SPEAKER recording channel start duration <NA> <NA> speaker <NA>`; correct it"
    _, recording, channel, start, duration, _, _, speaker = fields[:8]
    start_s = _seconds(start)
    return _Segment(recording, channel, start_s, start_s + _seconds(duration), speaker, None)


def _seconds(text: str) -> float:
    """Return a time in seconds, NaN where the text is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _utterance(segment: _Segment, audio: AudioTree) -> Utterance | str:
    """Return the utterance of a segment, or what is wrong with it."""
    start_s, end_s = segment.start_s, segment.end_s
    if not (0.0 <= start_s < end_s and math.isfinite(end_s)):  # in this form it fails for NaN as well
        return f"a segment cannot last from {start_s:g} s to {end_s:g} s; correct its times"
    channel = _channel(segment.channel)
    if channel is None:
        return f"channel {one_line(segment.channel)} is neither a number from 1 nor a letter from A; correct it"
    recordings = audio.find(audio.root, segment.recording)
    if not recordings:
        shown = one_line(segment.recording)
        return f"no audio for {shown}: looked for it in and below {audio.root}; name its folder with audio_folder="
    suffix = f"-{segment.channel}" if channel else ""
    return Utterance(
        id=id_of(f"{segment.recording}{suffix}@{start_s:.3f}-{end_s:.3f}"),
        path=recordings[0],
        text=segment.text,
        start_s=start_s,
        end_s=end_s,
        speaker="" if segment.speaker == "<NA>" else one_line(segment.speaker),
        channel=channel,
    )


def _channel(text: str) -> int | None:
    """Return the channel, counted from 0, that a number from 1 or a letter names; None where it names none."""
    if text.isascii() and text.isdigit() and 1 <= len(text) <= 3 and int(text) >= 1:
        return int(text) - 1
    return ord(text.upper()) - ord("A") if len(text) == 1 and text.isascii() and text.isalpha() else None
