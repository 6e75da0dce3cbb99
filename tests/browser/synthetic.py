"""Run files written directly, without measuring: of any size, and with any text in them."""

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dogs", "while", "seven", "small", "boats", "drift")
CHUNK_S = 0.1


def write_run(
    path: Path,
    engines: Sequence[str] = ("swift", "steady"),
    utterances: int = 6,
    chunks: int = 30,
    *,
    texts: Sequence[str] = (),
    ids: Sequence[str] = (),
    stage: str = "inference",
    message: str = "",
    corpus: str = "made",
) -> Path:
    """A complete latency run of made-up streams; `texts` and `ids` replace the words and names of the first ones."""
    dice = random.Random(1)
    made = [_utterance(index, chunks, dice, texts, ids) for index in range(utterances)]
    lines = [_header(engines, made, message, corpus)]
    for engine in engines:
        lines.append(_piece(["load", 0, engine, 0], _load(engine)))
        for utterance in made:
            trace = _trace(utterance, chunks, dice, stage)
            lines.append(_piece(["stream", 0, engine, utterance["id"]], {"trace": trace}))
        lines.append(_piece(["memory", 0, engine], {"peak_bytes": 150_000_000, "baseline_bytes": 90_000_000}))
    lines.append({"kind": "end", "finished": "2026-01-02T03:05:06Z"})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def _utterance(
    index: int, chunks: int, dice: random.Random, texts: Sequence[str], ids: Sequence[str]
) -> dict[str, Any]:
    spoken_s = (chunks - 1) * CHUNK_S
    words = texts[index].split() if index < len(texts) else [dice.choice(WORDS) for _ in range(max(2, chunks // 4))]
    step_s = spoken_s / len(words)
    return {
        "id": ids[index] if index < len(ids) else f"u{index:04d}",
        "path": f"nowhere/u{index:04d}.wav",
        "start_s": 0.0,
        "end_s": None,
        "text": " ".join(words),
        "words": [[w, round(i * step_s, 3), round((i + 0.9) * step_s, 3)] for i, w in enumerate(words)],
    }


def _trace(utterance: dict[str, Any], chunks: int, dice: random.Random, stage: str) -> dict[str, Any]:
    steps = list(_chunks(utterance, chunks, dice, stage))
    return {"audio_s": chunks * CHUNK_S, "chunk_s": CHUNK_S, "lookahead_s": 0.0, "chunks": steps}


def _chunks(utterance: dict[str, Any], chunks: int, dice: random.Random, stage: str) -> Iterator[dict[str, Any]]:
    """Chunks of a stream that now and then guesses its last word wrong, the call that ends it included."""
    done_s, text = 0.0, ""
    for index in range(chunks + 1):
        due_s = min(index + 1, chunks) * CHUNK_S
        start_s = max(due_s, done_s)
        work_s = dice.lognormvariate(-3.5, 0.8)
        done_s = start_s + work_s
        fields: dict[str, Any] = {"due": round(due_s, 9), "start": round(start_s, 9), "done": round(done_s, 9)}
        features_s = round(work_s * 0.1 * dice.random(), 9)
        fields["stages"] = [["features", 2e-6, features_s], [stage, features_s, round(0.85 * work_s, 9)]]
        heard = [word for word, _, end_s in utterance["words"] if end_s <= due_s - CHUNK_S]
        if heard and dice.random() < 0.3:
            heard[-1] = dice.choice(WORDS)
        if index == chunks:
            heard = utterance["text"].split()
        if " ".join(heard) != text:
            text = " ".join(heard)
            fields["text"] = [text]
        yield fields


def _header(engines: Sequence[str], made: Sequence[dict[str, Any]], message: str, corpus: str) -> dict[str, Any]:
    spec = {"engines": list(engines), "corpus": corpus, "words": None, "chunk_ms": None, "pace": "virtual"}
    return {
        "kind": "header",
        "format": 1,
        "stopwav": "0.1.0",
        "study": "latency",
        "started": "2026-01-02T03:04:05Z",
        "spec": {**spec, "limit": None, "rounds": 1, "time_limit_s": 60.0, "seed": 0},
        "machine": {"cpu": "Made-up Processor", "usable_cores": 2.0, "gpus": [], "packages": {"numpy": "2.0"}},
        "corpus": {"name": corpus, "digest": "0" * 16, "problems": [], "cautions": [], "utterances": list(made)},
        "normaliser": {"name": "stopwav-english", "version": "1"},
        "warnings": [{"code": "busy-machine", "message": message}] if message else [],
    }


def _load(engine: str) -> dict[str, Any]:
    info = {"name": engine, "version": "1", "sample_rate_hz": 16000, "chunk_s": CHUNK_S, "lookahead_s": 0.0}
    rest = {"parameters": None, "device": "cpu", "precision": "", "model": engine, "notes": []}
    return {"engine": {**info, **rest}, "load_s": 0.5, "warmup_s": [0.1], "cautions": []}


def _piece(key: list[Any], data: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "piece", "key": key, "status": "ok", "message": "", "last_words": "", "data": data}
