"""Runs of any size as stopwav writes them, without measuring anything: drawn by a seed.

Words of the bundled transcripts at the times of the bundled audio, chunks of 100 ms, partials that grow and are revised
now and then and are the same in every round, as those of pocketsphinx and Moonshine are.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from stopwav.engines.protocol import EngineInfo
from stopwav.measure.rounds import Round
from stopwav.measure.sampler import Samples
from stopwav.piece import Piece
from stopwav.record import Header, Record
from stopwav.speech.audio_file import duration_s
from stopwav.speech.corpus import load_corpus
from stopwav.speech.events import Chunk, Stage, Trace, trace_of
from stopwav.speech.normaliser import default_normaliser, make_normaliser
from stopwav.speech.utterance import Corpus, Utterance, Word
from stopwav.studies.compare.pieces import length_place
from stopwav.studies.compare.spec import CompareSpec, round_inputs
from stopwav.studies.corpus_header import corpus_to_json
from stopwav.studies.engine_names import engine_names
from stopwav.studies.latency.spec import LatencySpec
from stopwav.studies.spec import make_header
from stopwav.studies.step.spec import StepSpec
from stopwav.studies.stored_rounds import round_to_piece

# An engine that needs no installation, so that `run --check` can prepare it.
ENGINE = "fake"
CHUNK_S = 0.1
# The default of a study; one long stream is measured in fewer.
ROUNDS, STREAM_ROUNDS = 3, 2
# A share of the words is shown wrong at first, and a share of those is never put right.
WRONG, KEPT_WRONG = 0.15, 0.25
STEPS = 4
PARTS = ("feed_forward_macaron", "self_attn", "conv", "feed_forward", "norm", "dropout", "out")
# Lengths of input of a comparison, in frames.
FRAMES = [100, 200, 400]
# Utterances whose streams one process draws at a time.
AT_ONCE = 500


def draw_utterances(count: int, seed: int) -> list[Utterance]:
    """Return utterances with the audio and word times of bundled ones, and texts of their own."""
    random_ = random.Random(seed)
    bundled = load_corpus("bundled").utterances
    vocabulary = [word.text for utterance in bundled for word in utterance.words]
    drawn = []
    for number in range(count):
        source = random_.choice(bundled)
        words = tuple(replace(word, text=random_.choice(vocabulary)) for word in source.words)
        text = " ".join(word.text for word in words)
        drawn.append(replace(source, id=f"{number:06d}", text=text, words=words, end_s=round(duration_s(source), 4)))
    return drawn


def draw_long_utterance(seconds: float, seed: int) -> Utterance:
    """Return one utterance of this length, at LibriSpeech's 2.7 words a second; it has no audio file."""
    random_ = random.Random(seed)
    vocabulary = [word.text for utterance in load_corpus("bundled").utterances for word in utterance.words]
    words, moment_s = [], 0.3
    while moment_s < seconds - 1:
        end_s = round(moment_s + random_.uniform(0.2, 0.54), 4)
        words.append(Word(random_.choice(vocabulary), moment_s, end_s))
        moment_s = end_s
    return Utterance("long", Path("long.wav"), " ".join(word.text for word in words), 0.0, seconds, tuple(words))


def draw_trace(random_: random.Random, slower: float, utterance: Utterance, *, always: bool = False) -> Trace:
    """Return a stream of the utterance; the text is shown where it changed, or with `always` after each chunk."""
    audio_s = float(utterance.end_s or 0)
    # The texts of an utterance are the same in every round, as those of engines are; only times differ.
    shown = list(_shown_words(utterance.words, random.Random(utterance.id)))
    chunks: list[Chunk] = []
    text, done_s, position = "", 0.0, 0
    for number in range(1, math.ceil(round(audio_s / CHUNK_S, 6)) + 1):
        due_s = min(round(number * CHUNK_S, 4), audio_s)
        start_s = max(due_s, done_s)
        inference_s = slower * random_.lognormvariate(-4, 0.6)
        stages = (
            Stage("features", 3e-6, 2e-4 + 1e-4 * random_.random()),
            Stage("inference", 3.2e-4, inference_s),
            Stage("post", inference_s + 3.4e-4, 2e-5 + 1e-5 * random_.random()),
        )
        done_s = start_s + inference_s + 4e-4
        before = text
        while position < len(shown) and shown[position][0] <= due_s:
            _, kept, word = shown[position]
            # A revision replaces the last word, where no other one was shown after it.
            text = f"{text if kept else text.rpartition(' ')[0]} {word}".strip()
            position += 1
        texts = (text,) if text and (always or text != before) else ()
        chunks.append(Chunk(due_s, start_s, done_s, stages, texts))
    finish_s = max(audio_s, done_s)
    final = Stage("inference", 2e-6, slower * 0.02)
    chunks.append(Chunk(audio_s, finish_s, finish_s + slower * 0.02 + 4e-6, (final,), (text,)))
    return trace_of(audio_s, CHUNK_S, 0.0, tuple(chunks))


def _shown_words(words: Iterable[Word], random_: random.Random) -> Iterator[tuple[float, bool, str]]:
    """Yield when each word is shown, whether the word before it is kept, and its text."""
    moment_s = 0.0
    for word in words:
        moment_s = max(moment_s, word.end_s + random_.uniform(0.05, 0.3))
        wrong = random_.random() < WRONG
        yield moment_s, True, word.text[:-1] + "ed" if wrong else word.text
        if wrong and random_.random() > KEPT_WRONG:
            moment_s += 0.1
            yield moment_s, False, word.text


def write_utterance_run(path: Path, count: int, slower: float) -> None:
    """Write a latency run of many utterances; two runs differ in the times of their streams only."""
    _write_latency_run(path, draw_utterances(count, seed=0), ROUNDS, slower, always=False)


def write_stream_run(path: Path, seconds: int) -> None:
    """Write a latency run of one long stream, whose engine shows the whole text after each chunk."""
    _write_latency_run(path, [draw_long_utterance(seconds, seed=0)], STREAM_ROUNDS, 1.0, always=True)


def write_compare_run(path: Path, count: int, slower: float) -> None:
    """Write a comparison of two engines over many utterances; two runs differ in the times of one of them."""
    utterances = [replace(utterance, words=()) for utterance in draw_utterances(count, seed=0)]
    engines = [ENGINE, f"{ENGINE},second_ms=20"]
    spec = CompareSpec(engines=engines, frames=FRAMES, samples=count, rounds=ROUNDS)
    normaliser = make_normaliser(default_normaliser(()))
    corpus = {**corpus_to_json(Corpus("drawn", ()), utterances, normaliser), "inputs": [u.id for u in utterances]}
    header = make_header("compare", spec, corpus=corpus, normaliser=normaliser.to_json())
    _write_run(path, header, map(_line, _compare_pieces(spec, utterances, slower)))


def _compare_pieces(spec: CompareSpec, utterances: Sequence[Utterance], slower: float) -> Iterator[Piece]:
    names, random_ = engine_names(spec.engines), random.Random(f"{slower}")
    info = EngineInfo(name=ENGINE, version="1", chunk_s=CHUNK_S).to_json()
    for name in names:
        yield Piece(key=["model", name], status="ok", data={"engine": info, "parameters": None})
        for frames in FRAMES:
            data = {"multiply_adds": None, "reason": "not a torch model"}
            yield Piece(key=["operations", name, frames], status="ok", data=data)
    for index in range(ROUNDS):
        for name in names:
            speed = 0.01 * (slower if name == names[0] else 2.0)
            for frames in FRAMES:
                values_s = tuple(speed * frames / 100 * random_.lognormvariate(0, 0.05) for _ in range(10))
                samples = Samples(values_s[0], values_s[:3], 1, values_s, (), (), ())
                round_ = Round(index, "ok", samples=samples, load_s=0.1, facts={"engine": info, "emitted_tokens": None})
                yield round_to_piece(length_place(name, frames).key(index, 0), round_)
            load = {"engine": info, "load_s": 0.1, "warmup_s": [0.1] * 3, "cautions": []}
            yield Piece(key=["load", index, name, 0], status="ok", data=load)
        for place in round_inputs(spec, index):
            utterance = utterances[place]
            audio_s = float(utterance.end_s or 0.0)
            for name in names:
                speed = 0.01 * (slower if name == names[0] else 2.0)
                seconds = round(speed * audio_s * random_.lognormvariate(0, 0.1), 9)
                text = " ".join(_misheard(str(utterance.text).split(), random_))
                sample = {"id": utterance.id, "seconds": seconds, "device_s": None, "audio_s": audio_s, "text": text}
                key: list[str | int] = ["sample", index, name, place]
                yield Piece(key=key, status="ok", data={**sample, "emitted_tokens": None})


def _misheard(words: Iterable[str], random_: random.Random) -> Iterator[str]:
    """The words, a few of them wrong or left out."""
    for word in words:
        luck = random_.random()
        if luck > WRONG * KEPT_WRONG / 2:
            yield word[:-1] + "ed" if luck > 1 - WRONG * KEPT_WRONG / 2 else word


def _write_latency_run(
    path: Path, utterances: Sequence[Utterance], rounds: int, slower: float, *, always: bool
) -> None:
    spec = LatencySpec(engines=[ENGINE], rounds=rounds)
    normaliser = make_normaliser(default_normaliser(()))
    corpus = corpus_to_json(Corpus("drawn", ()), utterances, normaliser)
    header = make_header("latency", spec, corpus=corpus, normaliser=normaliser.to_json())
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        _write_run(path, header, _latency_lines(pool, utterances, rounds, slower, always))


def _latency_lines(
    pool: ProcessPoolExecutor, utterances: Sequence[Utterance], rounds: int, slower: float, always: bool
) -> Iterator[bytes]:
    info = EngineInfo(name=ENGINE, version="1", chunk_s=CHUNK_S).to_json()
    parts = [utterances[start : start + AT_ONCE] for start in range(0, len(utterances), AT_ONCE)]
    for index in range(rounds):
        first = draw_trace(random.Random(0), slower, utterances[0], always=always).to_json()
        load = {"engine": info, "load_s": 0.5, "warmup_s": [0.3, 0.2, 0.2, 0.2], "cautions": []}
        yield _line(Piece(key=["load", index, ENGINE, 0], status="ok", data={**load, "first": first}))
        yield from pool.map(partial(_stream_lines, index, slower, always), parts)
        memory = {"peak_bytes": 160_000_000, "baseline_bytes": 150_000_000, "method": "high-water mark", "note": None}
        yield _line(Piece(key=["memory", index, ENGINE], status="ok", data=memory))


def _stream_lines(index: int, slower: float, always: bool, utterances: Sequence[Utterance]) -> bytes:
    lines = []
    for utterance in utterances:
        random_ = random.Random(f"{slower} {index} {utterance.id}")
        trace = draw_trace(random_, slower, utterance, always=always).to_json()
        lines.append(_line(Piece(key=["stream", index, ENGINE, utterance.id], status="ok", data={"trace": trace})))
    return b"".join(lines)


def _line(piece: Piece) -> bytes:
    return (json.dumps(piece.to_json(), separators=(",", ":")) + "\n").encode("ascii")


def _write_run(path: Path, header: Header, lines: Iterable[bytes]) -> None:
    """Write a complete run, as `Record` does but for the wait for the disk after each piece."""
    with Record.create(path, header), path.open("ab") as file:
        file.writelines(lines)
        file.write(b'{"kind":"end","finished":"2026-01-01T00:00:00Z"}\n')


def write_step_run(path: Path, modules: int) -> None:
    """Write a step run of a model of repeated layers with about this many modules."""
    layers = [f"encoder.layers.{number}" for number in range(modules // (len(PARTS) + 1))]
    leaves = [f"{layer}.{part}" for layer in layers for part in PARTS]
    rows = [_module("", "model"), *(_module(name) for name in ("encoder", "encoder.layers"))]
    for layer in layers:
        rows += [_module(layer), *(_module(f"{layer}.{part}") for part in PARTS)]
    ready = {"load_s": 1.0, "first_s": 0.9, "warmup_s": [0.8] * 3, "switch_s": 2.5e-7, "modules": rows, "shared": {}}
    ready |= {"labels": {}, "model": "Conformer", "compiled": False, "device": "cpu"}
    header = make_header("step", StepSpec(model="conformer-transducer", steps=STEPS, rounds=1))
    pieces = [Piece(key=["ready", 0], status="ok", data=ready)]
    pieces += [Piece(key=["step", 0, n], status="ok", data=_step(leaves, random.Random(n))) for n in range(STEPS)]
    pieces.append(Piece(key=["memory", 0], status="ok", data=_memory(leaves)))
    _write_run(path, header, map(_line, pieces))


def _module(path: str, kind: str = "module") -> dict[str, Any]:
    folded = ".".join("*" if part.isdigit() else part for part in path.split("."))
    fields = {"path": path, "kind": kind, "type_name": "Layer", "parameters": 1000, "parameter_bytes": 4000}
    return {**fields, "also": [], "folded": folded}


def _step(leaves: Sequence[str], random_: random.Random) -> dict[str, Any]:
    """One step: the time of each leaf, forward and backward, and of each phase."""
    parts: list[list[Any]] = [["(rest)", "rest", 4e-4, None], ["(data)", "data", 3e-4, None]]
    parts += [[leaf, "forward", random_.lognormvariate(-8, 0.3), None] for leaf in leaves]
    parts.append(["(loss)", "loss", 4e-3, None])
    parts += [[leaf, "backward", random_.lognormvariate(-7.3, 0.3), None] for leaf in reversed(leaves)]
    parts.append(["(optimizer)", "optimizer", 5e-2, None])
    sums = dict.fromkeys(("data", "forward", "loss", "backward", "optimizer", "rest"), 0.0)
    for _, phase, seconds, _ in parts:
        sums[phase] += seconds
    phases = {phase: [seconds, None] for phase, seconds in sums.items()}
    total_s = sum(sums.values())
    watched = {"wall_s": 1.05 * total_s, "device_s": None, "parts": parts, "calls": dict.fromkeys(leaves, 1)}
    return {
        "batch": {"utterances": 2, "real_frames": 114, "padded_frames": 126},
        "clean": {"wall_s": total_s, "device_s": None, "phases": phases},
        "watched": {**watched, "stages": [], "recomputed": [], "callers": {}},
    }


def _memory(leaves: Sequence[str]) -> dict[str, Any]:
    """Memory by leaf, and its course through a step."""
    moments: list[list[Any]] = [["(rest)", "rest", 1_000_000, 1_000_000]]
    moments += [[leaf, "forward", 1_000_000 + 5_000 * n, 1_004_000 + 5_000 * n] for n, leaf in enumerate(leaves)]
    moments += [[leaf, "backward", end, peak] for leaf, _, end, peak in reversed(moments[1:])]
    peak = {"row": leaves[-1], "phase": "backward", "end_bytes": moments[len(leaves)][2]}
    return {
        "step": 1,
        **{name: dict.fromkeys(leaves, 4_000) for name in ("held", "gradients", "states")},
        "peak": {**peak, "peak_bytes": moments[len(leaves)][3]},
        "baseline_bytes": 1_000_000,
        "method": "tensors counted",
        "moments": moments,
    }
