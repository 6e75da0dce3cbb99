"""The utterances that the page of a latency run replays: all of a small corpus, a sample of a large one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stopwav.errors import StopwavError
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.speech.audio import load_utterance
from stopwav.speech.audio_file import duration_s
from stopwav.speech.events import Trace
from stopwav.speech.normaliser import stored_normaliser
from stopwav.speech.utterance import Utterance
from stopwav.studies.corpus_header import utterance_from_json
from stopwav.studies.latency.stream_table import read_trace
from stopwav.studies.stream_table import StreamTable

# Utterances to replay: more than anybody opens, and few enough for a page of some megabytes.
MOST_TIMELINES = 150
# Of a sample, the share that failed and the share that was slowest; the others are spread evenly.
SHARE_FAILED = SHARE_SLOWEST = 1 / 4
# Chunks of a stream that are drawn: five minutes of 100 ms, more than can be told apart on a screen.
MOST_CHUNKS = 3000
# Columns of a waveform: as many as a wide screen shows; fewer for a large corpus, where they would fill the page.
ENVELOPE_COLUMNS, ENVELOPE_COLUMNS_MANY, MANY_UTTERANCES = 400, 160, 60
# Rate at which audio is read for its outline: that of most corpora, so that nothing is resampled.
ENVELOPE_RATE_HZ = 16_000
# Decoding an hour of audio takes some seconds; a report should not take minutes for waveforms that nobody opens.
ENVELOPE_LIMIT_S = 3600.0
ENVELOPE_LEVELS = 64
_TOO_MUCH = "no waveform: only the first hour of a corpus is read for waveforms"


def timelines(
    record: Record, tables: Mapping[str, StreamTable], pieces: Mapping[str, Sequence[Piece]]
) -> dict[str, Any]:
    """Return one timeline per utterance, and the utterances that have one in words where not all do.

    A timeline shows of each engine the first round that completed, or else how it failed.
    """
    utterances, normaliser = record.header.corpus["utterances"], stored_normaliser(record.header.normaliser)
    positions = {fields["id"]: position for position, fields in enumerate(utterances)}
    first: dict[str, dict[str, Piece]] = {name: {} for name in tables}
    failed: dict[str, dict[str, Piece]] = {name: {} for name in tables}
    for name in tables:
        for piece in pieces[name]:
            if piece.key[0] == "stream":
                (first if piece.status == "ok" else failed)[name].setdefault(str(piece.key[3]), piece)
    chosen = _chosen(sorted(positions), tables, {name for own in failed.values() for name in own})
    columns = ENVELOPE_COLUMNS if len(chosen) <= MANY_UTTERANCES else ENVELOPE_COLUMNS_MANY
    drawn: list[dict[str, Any]] = []
    read_s = 0.0
    for key in chosen:
        lanes = [_lane(name, first[name].get(key), failed[name].get(key)) for name in tables]
        utterance = utterance_from_json(utterances[positions[key]], normaliser)
        timeline = _timeline(utterance, lanes)
        read_s += timeline["audio_s"]
        envelope, note = (None, _TOO_MUCH)
        if read_s <= ENVELOPE_LIMIT_S:
            envelope, note = _envelope(utterance, timeline["audio_s"], columns)
        drawn.append({**timeline, "envelope": envelope, "envelope_note": note})
    return {"timelines": drawn, "timelines_of": _sampled(len(chosen), len(utterances))}


def _sampled(chosen: int, total: int) -> str:
    if chosen == total:
        return ""
    return f"{chosen} of {total:,} utterances: some that failed, those with the slowest words, and an even sample."


def _chosen(names: list[str], tables: Mapping[str, StreamTable], failed: set[str]) -> list[str]:
    """The utterances to replay, by id: all, or those that failed, those with the slowest words, and an even spread."""
    if len(names) <= MOST_TIMELINES:
        return names
    chosen = dict.fromkeys(sorted(failed)[: int(SHARE_FAILED * MOST_TIMELINES)])
    slowest = [name for name in _slowest_first(tables) if name not in chosen]
    chosen.update(dict.fromkeys(slowest[: int(SHARE_SLOWEST * MOST_TIMELINES)]))
    rest = [name for name in names if name not in chosen]
    count = MOST_TIMELINES - len(chosen)
    chosen.update(dict.fromkeys(rest[len(rest) * index // count] for index in range(count)))
    return sorted(chosen)


def _slowest_first(tables: Mapping[str, StreamTable]) -> list[str]:
    """The utterances in order of the slowest word of any engine."""
    slowest: dict[str, float] = {}
    for table in tables.values():
        words = table.words
        of_streams = np.full(len(table), -np.inf)
        np.maximum.at(of_streams, words.stream[words.shown], words.latency_s[words.shown])
        for position, latency_s in zip(table.utterance.tolist(), of_streams.tolist(), strict=True):
            name = table.utterances.ids[position]
            slowest[name] = max(latency_s, slowest.get(name, latency_s))
    shown = (name for name, latency_s in slowest.items() if latency_s > -math.inf)
    return sorted(shown, key=lambda name: (-slowest[name], name))


def _timeline(utterance: Utterance, lanes: list[dict[str, Any]]) -> dict[str, Any]:
    audio_s = max((lane["audio_s"] for lane in lanes), default=0.0)
    words = [[word.text, short(word.start_s), short(word.end_s)] for word in utterance.words if word.start_s <= audio_s]
    return {"id": utterance.id, "text": utterance.text or "", "audio_s": audio_s, "words": words, "lanes": lanes}


def _lane(name: str, streamed: Piece | None, failed: Piece | None) -> dict[str, Any]:
    """One engine on a timeline; times in whole tenths of a millisecond, finer than a pixel at any zoom."""
    if streamed is None:
        message = "" if failed is None else f"{failed.status}: {failed.message}"
        return {"engine": name, "audio_s": 0.0, "failure": message or "not measured", "chunks": [], "texts": []}
    trace = read_trace(streamed)
    count = min(len(trace.due_s), MOST_CHUNKS)
    columns = (trace.due_s, trace.queue_s, trace.service_s)
    return {
        "engine": name,
        "round": int(streamed.key[1]),
        "audio_s": round(trace.audio_s if count == len(trace.due_s) else float(trace.due_s[count - 1]), 4),
        "failure": "",
        "chunks": np.round(np.stack([column[:count] for column in columns], axis=1), 4).tolist(),
        "texts": _texts(trace, count),
    }


def _texts(trace: Trace, count: int) -> list[list[Any]]:
    """The texts of the first chunks, each change with its time."""
    texts: list[list[Any]] = []
    text = ""
    for change, shown_s in zip(trace.texts, trace.text_s.tolist(), strict=True):
        if change.chunk >= count:
            break
        before, text = text, text[: change.kept] + change.added
        if text != before:
            texts.append([round(shown_s, 4), text])
    return texts


def _envelope(utterance: Utterance, audio_s: float, columns: int) -> tuple[list[int] | None, str]:
    """The waveform of the audio that is drawn: the peak of each column in 64 levels, or why there is none."""
    try:
        whole_s = duration_s(utterance)
        end_s = utterance.end_s if audio_s >= whole_s else utterance.start_s + audio_s
        audio = load_utterance(replace(utterance, end_s=end_s), ENVELOPE_RATE_HZ)
    except (StopwavError, OSError, ValueError) as error:
        return None, f"no waveform: {error}"
    size = max(1, math.ceil(len(audio.samples) / columns))
    padded = np.pad(np.abs(audio.samples), (0, -len(audio.samples) % size))
    peaks = padded.reshape(-1, size).max(axis=1)
    loudest = float(peaks.max()) or 1.0
    return [int(level) for level in np.rint(peaks / loudest * (ENVELOPE_LEVELS - 1))], ""


def short(value: float) -> float:
    """Return the value with four digits: more than a pixel shows."""
    return float(f"{value:.4g}")
