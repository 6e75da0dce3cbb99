"""Load runs that were never measured: every session is written by hand, so that what a level says is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stopwav.piece import Piece
from stopwav.record import Header, Record
from stopwav.speech.events import RemoteFacts, remote_trace

CHUNK_S, AUDIO_S = 0.1, 1.0
# One word in each half of the utterance.
WORDS = (("red", 0.0, 0.5), ("fox", 0.5, 1.0))
TEXT = "red fox"
STEADY_S, RAMP_S = 20.0, 2.0
MEGABYTE = 10**6


@dataclass(frozen=True)
class MadeLevel:
    """A round of a level: how many sessions it has, how long each word and the final text take, and what fails."""

    streams: int
    sessions: int = 40
    word_s: float = 0.2
    final_s: float = 0.3
    # Seconds by which the waits grow from one session to the next.
    rise_s: float = 0.0
    # How late our client sends each chunk.
    late_s: float = 0.0
    # The reasons of the first sessions, which fail in the middle.
    failures: Sequence[str] = ()
    # Of those, how many were never accepted.
    refused: int = 0
    faults: Sequence[tuple[str, str]] = ()
    # Of the server: bytes at the first look, and by how many they grow per second.
    bytes_: int = 100 * MEGABYTE
    grows: float = 0.0
    server_end: str = ""
    text: str = TEXT
    # In place of a level that was measured: its status and message.
    failed: tuple[Any, str] | None = None


def load_run(
    levels: Sequence[MadeLevel],
    path: Path = Path("load.jsonl"),
    *,
    target: str = "fake",
    rounds: Sequence[int] | int = 1,
    complete: bool = True,
    transcribed: bool = True,
    **spec: Any,
) -> Record:
    """Return a run of these levels, each in as many rounds; one with faults is a level of its own."""
    settings = {"targets": [target], "streams": sorted({level.streams for level in levels}), **spec}
    pieces = [
        _piece(target, level, index)
        for level in levels
        for index in range(rounds if isinstance(rounds, int) else rounds[levels.index(level)])
    ]
    return Record(path, _header(settings, transcribed), pieces, complete=complete)


def level_data(level: MadeLevel) -> dict[str, Any]:
    """Return the data of a round of a level."""
    sessions = [_session(level, number) for number in range(level.sessions)]
    seconds = range(int(RAMP_S), int(RAMP_S + STEADY_S) + 1)
    looks = [[float(at_s), 0.5 * at_s, round(level.bytes_ + level.grows * at_s), None, None] for at_s in seconds]
    return {
        "target": {"engine": _engine(), "chunk_s": CHUNK_S, "event_loop": "asyncio"},
        "ramp_s": RAMP_S,
        "steady_s": STEADY_S,
        "ended_s": RAMP_S + STEADY_S + 2.0,
        "prime_s": 0.1,
        "server_end": level.server_end,
        "processors": [0.05],
        "sessions": sessions,
        "faults": [{"kind": kind, "begin_s": 1.0, "ended": ended} for kind, ended in level.faults],
        "looks": looks,
    }


def saved(record: Record, path: Path) -> Path:
    """Write a run to a file and return its path."""
    with Record.create(path, record.header) as written:
        for piece in record.pieces:
            written.append(piece)
        if record.complete:
            written.finish()
    return path


def _piece(target: str, level: MadeLevel, index: int) -> Piece:
    key: list[str | int] = ["level", index, target, level.streams, int(bool(level.faults))]
    if level.failed is not None:
        status, message = level.failed
        return Piece(key=key, status=status, message=message)
    return Piece(key=key, status="ok", data=level_data(level))


def _session(level: MadeLevel, number: int) -> dict[str, Any]:
    begin_s = RAMP_S + STEADY_S * number / level.sessions
    session: dict[str, Any] = {"utterance": f"u{number % 3}", "begin_s": begin_s, "part": "steady", "held_s": 0.0}
    failed = number < len(level.failures)
    failure = [level.failures[number], f"the server says {level.failures[number]}"] if failed else None
    if number < level.refused:
        return {**session, "ready_s": None, "over": True, "failure": failure, "trace": {}}
    due_s = [CHUNK_S * (index + 1) for index in range(round(AUDIO_S / CHUNK_S))]
    due_s.append(AUDIO_S)
    sent_s = [at_s + level.late_s for at_s in due_s]
    later_s = level.rise_s * number
    said = level.text.split()
    texts = [(WORDS[0][2] + level.word_s + later_s, said[0])] if said else []
    if not failed:
        texts.append((AUDIO_S + level.final_s + later_s, level.text))
    trace = remote_trace((AUDIO_S, CHUNK_S, 0.0), due_s, sent_s, texts, (), RemoteFacts(0.0005, ()))
    return {**session, "ready_s": 0.01, "over": True, "failure": failure, "trace": trace.to_json()}


def _engine() -> dict[str, Any]:
    return {"name": "fake", "version": "1", "device": "cpu", "precision": "float32", "notes": []}


def _header(settings: Mapping[str, Any], transcribed: bool) -> Header:
    words = [list(word) for word in WORDS] if transcribed else []
    utterances = [
        {
            "id": f"u{index}",
            "path": "",
            "start_s": 0.0,
            "end_s": AUDIO_S,
            "text": TEXT if transcribed else None,
            "words": words,
        }
        for index in range(3)
    ]
    return Header(
        stopwav="0.1.0",
        study="load",
        started="2026-01-01T00:00:00Z",
        spec={"rounds": 1, "seed": 0, "slo": "voice-agent", "pace": "real", **settings},
        machine={"cpu": "a CPU", "fingerprint": "0123456789ab", "python": "CPython 3.11.2"},
        corpus={"name": "spoken", "digest": "d1", "problems": [], "cautions": [], "utterances": utterances},
        normaliser={"name": "stopwav-english", "version": 1},
    )
