"""A run of a transducer that was never measured: every chunk's stages are known, so all its lines are on paper."""

from pathlib import Path
from typing import Any

from stopwav.piece import Piece
from stopwav.record import Header, Record

CHUNK_S, LOOKAHEAD_S, CHUNKS = 0.16, 0.04, 100
FEATURES_S, COPY_S, INFERENCE_S = 0.001, 0.0001, 0.020
# Six chunks with slow features, six others with slow inference: each P95 is a slow one, and no chunk has both.
SLOW_FEATURES_S, SLOW_INFERENCE_S, SLOW = 0.048, 0.110, 6


def staged_run(name: str = "taken-apart", *, copies: bool = True, untrained: bool = False) -> Record:
    """One round of one utterance of 16 s, in which nobody says a word that is known."""
    engine = {"name": name, "version": "1", "device": "cpu", "precision": "float32", "notes": []}
    if untrained:
        engine |= {"untrained": True, "notes": ["random weights: times are real, texts are not"]}
    memory = {"peak_bytes": 2 * 10**8, "baseline_bytes": 10**8, "method": "", "note": None}
    pieces = [
        Piece(key=["load", 0, name, 0], status="ok", data={"engine": engine, "load_s": 1.0, "cautions": []}),
        Piece(key=["stream", 0, name, "u0"], status="ok", data={"trace": _trace(copies)}),
        Piece(key=["memory", 0, name], status="ok", data=memory),
    ]
    return Record(Path("staged.jsonl"), _header(name), pieces, complete=True)


def _trace(copies: bool) -> dict[str, Any]:
    chunks: list[dict[str, Any]] = []
    for index in range(CHUNKS):
        parts = {
            "features": SLOW_FEATURES_S if index < SLOW else FEATURES_S,
            "copy": COPY_S if copies else 0.0,
            "inference": SLOW_INFERENCE_S if index >= CHUNKS - SLOW else INFERENCE_S,
        }
        stages, at = [], 0.0
        for path, length in parts.items():
            if length:
                stages.append([path, at, length])
                at += length
        due = CHUNK_S * (index + 1)
        chunks.append({"due": due, "start": due, "done": due + at, "stages": stages, "text": [f"word {index}"]})
    end = CHUNK_S * CHUNKS
    last = chunks[-1]["done"]
    chunks.append({"due": end, "start": last, "done": last, "text": ["spoken"]})
    return {"audio_s": end, "chunk_s": CHUNK_S, "lookahead_s": LOOKAHEAD_S, "chunks": chunks}


def _header(name: str) -> Header:
    words = [["spoken", 1.0, 1.5]]
    utterance = {"id": "u0", "path": "", "start_s": 0.0, "end_s": None, "text": "spoken", "words": words}
    return Header(
        stopwav="0.1.0",
        study="latency",
        started="2026-01-01T00:00:00Z",
        spec={"engines": [name], "pace": "virtual", "rounds": 1, "seed": 0},
        machine={"cpu": "a CPU", "fingerprint": "0123456789ab"},
        corpus={"name": "staged", "digest": "d1", "problems": [], "cautions": [], "utterances": [utterance]},
        normaliser={"name": "stopwav-english", "version": 1},
    )
