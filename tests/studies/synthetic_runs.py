"""Latency runs that were never measured: their noise and what is planted in them is known."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stopwav.piece import Piece
from stopwav.record import Header, Record

# As on the machine of METHOD.md: a process is a little fast or slow as a whole (1.3 %), and what it does one time
# and the next differs less (0.4 %).
BETWEEN, WITHIN = 0.013, 0.004
CHUNK_S, WORD_S, SERVICE_S = 0.1, 0.1, 0.02
# Few, for speed: as many utterances as a P50 needs (6), and words and chunks for a P95 (72), some words being wrong.
UTTERANCES, WORDS = 6, 14
TEXT = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
SPOKEN = TEXT.split()
# Chunks differ in how hard they are, each the same way in every round.
HARDNESS = np.random.default_rng(1).lognormal(0, 0.3, (UTTERANCES, WORDS + 1))


def synthetic_run(
    seed: int,
    *,
    rounds: int = 10,
    slowdown: float = 0.0,
    drift: float = 0.0,
    growth: float = 0.0,
    wrong: Sequence[int] = (1,) * UTTERANCES,
    names: Sequence[str] = ("engine",),
    lost: Sequence[tuple[int, int]] = (),
    path: Path = Path("synthetic.jsonl"),
    between: float = BETWEEN,
    moves: Sequence[float] = (),
    **header: Any,
) -> Record:
    """A run: `slowdown` and `growth` are planted, `drift` is the sd of what moves the whole run.

    `moves` is what moves each round, as a log ratio. `wrong` counts the wrong words of each utterance; `lost` holds
    (round, utterance) of streams that crashed.
    """
    noise = np.random.default_rng(seed)
    pieces = []
    moved = noise.normal(0, drift) if drift else 0.0
    for name in names:
        for index in range(rounds):
            pace = (1 + slowdown) * np.exp(moved + noise.normal(0, between) + (moves[index] if moves else 0.0))
            for utterance in range(UTTERANCES):
                key: list[str | int] = ["stream", index, name, f"u{utterance}"]
                if (index, utterance) in lost:
                    pieces.append(Piece(key=key, status="crashed", message="signal 11"))
                    continue
                services = SERVICE_S * pace * HARDNESS[utterance] * np.exp(noise.normal(0, WITHIN, WORDS + 1))
                trace = _trace(services, wrong[utterance])
                pieces.append(Piece(key=key, status="ok", data={"trace": trace}))
            pieces += _process(noise, index, name, moved, growth)
    return Record(path, _header(names, rounds, header), pieces, complete=True)


def saved(record: Record, path: Path) -> Path:
    """The run as a file."""
    with Record.create(path, record.header) as written:
        for piece in record.pieces:
            written.append(piece)
        written.finish()
    return path


def _trace(services: Any, wrong: int) -> dict[str, Any]:
    words = ["wrong"] * wrong + SPOKEN[wrong:]
    dues = [CHUNK_S * (index + 1) for index in range(WORDS)] + [CHUNK_S * WORDS]
    chunks: list[dict[str, Any]] = []
    done = 0.0
    for index, (due, service) in enumerate(zip(dues, services, strict=True)):
        start = max(due, done)
        done = start + float(service)
        chunk: dict[str, Any] = {"due": due, "start": start, "done": done}
        if index == WORDS // 2 or index == WORDS:
            chunk["text"] = [" ".join(words[: index + 1])]
        chunks.append(chunk)
    return {"audio_s": CHUNK_S * WORDS, "chunk_s": CHUNK_S, "lookahead_s": 0.0, "chunks": chunks}


def _process(noise: np.random.Generator, index: int, name: str, moved: float, growth: float) -> list[Piece]:
    engine = {"name": name, "version": "1", "device": "cpu", "precision": "float32", "notes": []}
    load = {"engine": engine, "load_s": float(np.exp(moved + noise.normal(0, BETWEEN))), "cautions": []}
    peak = int(2e8 * (1 + growth) * np.exp(noise.normal(0, 0.002)))
    memory = {"peak_bytes": peak, "baseline_bytes": 10**8, "method": "", "note": None}
    return [
        Piece(key=["load", index, name, 0], status="ok", data=load),
        Piece(key=["memory", index, name], status="ok", data=memory),
    ]


def _header(names: Sequence[str], rounds: int, changes: dict[str, Any]) -> Header:
    timed = [[word, WORD_S * index, WORD_S * (index + 1)] for index, word in enumerate(SPOKEN)]
    utterances = [
        {"id": f"u{index}", "path": "", "start_s": 0.0, "end_s": None, "text": TEXT, "words": timed}
        for index in range(UTTERANCES)
    ]
    fields: dict[str, Any] = {
        "stopwav": "0.1.0",
        "study": "latency",
        "started": "2026-01-01T00:00:00Z",
        "spec": {"engines": list(names), "pace": "virtual", "rounds": rounds, "seed": 0},
        "machine": {"cpu": "a CPU", "fingerprint": "0123456789ab", "python": "CPython 3.11.2"},
        "corpus": {
            "name": "spoken",
            "digest": "d1",
            "digest_of": "corpus",
            "problems": [],
            "cautions": [],
            "utterances": utterances,
        },
        "normaliser": {"name": "stopwav-english", "version": 1},
    }
    for name, change in changes.items():
        fields[name] = {**fields[name], **change} if isinstance(change, dict) else change
    return Header(**fields)
