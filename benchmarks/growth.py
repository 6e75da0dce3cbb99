"""How `report`, `--html`, `diff` and `run --check` grow with the size of a run. Prints Markdown tables.

    python benchmarks/growth.py [--utterances 100,1000,10000] [--streams 518,3600] [--modules 1600,6400]
                                [--only utterances,streams,modules,check] [--folder FOLDER]

Runs are drawn by a seed and written as `stopwav latency` and `stopwav step` write them: words of the bundled
transcripts at the times of the bundled audio, chunks of 100 ms, partials that grow and are revised now and then and
are the same in every round, as those of pocketsphinx and Moonshine are.
Nothing is measured to make them. `check` is `run --check` next to the largest run of utterances. Each command runs in
a process of its own; user time and peak resident memory are the kernel's. --folder keeps runs, and uses them again.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from stopwav.engines.protocol import EngineInfo
from stopwav.measure.machine import describe
from stopwav.piece import Piece
from stopwav.record import Header, Record
from stopwav.speech.audio_file import duration_s
from stopwav.speech.corpus import load_corpus
from stopwav.speech.events import Chunk, Stage, Trace, trace_of
from stopwav.speech.text import NORMALISER, NORMALISER_VERSION
from stopwav.speech.utterance import Corpus, Utterance, Word
from stopwav.studies.corpus_header import corpus_to_json
from stopwav.studies.latency.spec import LatencySpec
from stopwav.studies.spec import make_header
from stopwav.studies.step.spec import StepSpec

# An engine that needs no installation, so that `run --check` can prepare it.
ENGINE = "fake"
CHUNK_S = 0.1
# The default of a study; one long stream is measured in fewer.
ROUNDS, STREAM_ROUNDS = 3, 2
# A share of the words is shown wrong at first, and a share of those is never put right.
WRONG, KEPT_WRONG = 0.15, 0.25
STEPS = 4
PARTS = ("feed_forward_macaron", "self_attn", "conv", "feed_forward", "norm", "dropout", "out")


@dataclass(frozen=True)
class Cost:
    """What one command took; a command that failed has the reason."""

    user_s: float
    wall_s: float
    peak_bytes: int
    failure: str = ""

    def __str__(self) -> str:
        if self.failure:
            return f"failed: {self.failure}"
        return f"{self.user_s:.1f} s ({self.wall_s:.1f} s wall), {self.peak_bytes / 1e6:.0f} MB"


def run_stopwav(*arguments: object) -> Cost:
    """Return the cost of one command; exit code 1 says that a part of a run failed, and is a result."""
    command = [sys.executable, "-m", "stopwav", *map(str, arguments)]
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        last = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
    failure = "" if process.returncode in (0, 1) else f"exit code {process.returncode} {last}"
    return Cost(usage.ru_utime, wall_s, usage.ru_maxrss * 1024, failure)


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
    random_ = random.Random(str(slower))
    _write_latency_run(path, draw_utterances(count, seed=0), ROUNDS, partial(draw_trace, random_, slower))


def write_stream_run(path: Path, seconds: int) -> None:
    """Write a latency run of one long stream, whose engine shows the whole text after each chunk."""
    draw = partial(draw_trace, random.Random(0), 1.0, always=True)
    _write_latency_run(path, [draw_long_utterance(seconds, seed=0)], STREAM_ROUNDS, draw)


def _write_latency_run(
    path: Path, utterances: Sequence[Utterance], rounds: int, draw: Callable[[Utterance], Trace]
) -> None:
    spec = LatencySpec(engines=[ENGINE], rounds=rounds)
    normaliser = {"name": NORMALISER, "version": NORMALISER_VERSION}
    corpus = corpus_to_json(Corpus("drawn", ()), utterances)
    header = make_header("latency", spec, corpus=corpus, normaliser=normaliser)
    _write_run(path, header, _latency_pieces(utterances, rounds, draw))


def _latency_pieces(
    utterances: Sequence[Utterance], rounds: int, draw: Callable[[Utterance], Trace]
) -> Iterator[Piece]:
    info = EngineInfo(name=ENGINE, version="1", chunk_s=CHUNK_S).to_json()
    for index in range(rounds):
        load = {"engine": info, "load_s": 0.5, "warmup_s": [0.3, 0.2, 0.2, 0.2], "cautions": []}
        first = draw(utterances[0]).to_json()
        yield Piece(key=["load", index, ENGINE, 0], status="ok", data={**load, "first": first})
        for utterance in utterances:
            trace = draw(utterance).to_json()
            yield Piece(key=["stream", index, ENGINE, utterance.id], status="ok", data={"trace": trace})
        memory = {"peak_bytes": 160_000_000, "baseline_bytes": 150_000_000, "method": "high-water mark", "note": None}
        yield Piece(key=["memory", index, ENGINE], status="ok", data=memory)


def _write_run(path: Path, header: Header, pieces: Iterator[Piece]) -> None:
    with Record.create(path, header) as record:
        for piece in pieces:
            record.append(piece)
        record.finish()


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
    _write_run(path, header, iter(pieces))


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


def measure_utterances(folder: Path, counts: Iterable[int]) -> None:
    """Print the table of runs of many utterances."""
    print("\n| utterances | file | `report` user, peak | `--html` user, peak, page | `diff` user, peak |")
    print("|---|---|---|---|---|")
    for count in counts:
        base, other = utterance_run(folder, count), utterance_run(folder, count, slower=1.03)
        print(f"| {count:,} | {_reports(base)} | {run_stopwav('diff', base, other)} |", flush=True)


def measure_reports(title: str, prefix: str, sizes: Iterable[int], write: Callable[[Path, int], None]) -> None:
    """Print the table of runs of one kind; the prefix is the path of their files without size and ending."""
    print(f"\n| {title} | file | `report` user, peak | `--html` user, peak, page |\n|---|---|---|---|")
    for size in sizes:
        write_once(path := Path(f"{prefix}-{size}.jsonl"), write, size)
        print(f"| {size:,} | {_reports(path)} |", flush=True)


def _reports(run: Path) -> str:
    """The size of a run file, and what its report and its page cost."""
    page = run.with_suffix(".html")
    cells = f"{_megabytes(run)} | {run_stopwav('report', run)} | {run_stopwav('report', run, '--html', page)}"
    return f"{cells}, {_megabytes(page)}" if page.exists() else cells


def measure_check(folder: Path, count: int) -> None:
    """Print the table of `run --check` next to one large run."""
    run = utterance_run(folder, count)
    plan = folder / "plan.yaml"
    with tempfile.TemporaryDirectory(dir=folder) as save:
        (Path(save) / "latency-large.jsonl").hardlink_to(run)
        plan.write_text(f"save: {save}\nstudies:\n  - latency:\n      engine: {ENGINE}\n")
        cost = run_stopwav("run", "--check", plan)
    print(f"\n| next to | `run --check` user, peak |\n|---|---|\n| {_megabytes(run)} | {cost} |", flush=True)


def utterance_run(folder: Path, count: int, slower: float = 1.0) -> Path:
    """Return a run of this many utterances."""
    path = folder / f"latency-{count}{'' if slower == 1 else '-slower'}.jsonl"
    write_once(path, write_utterance_run, count, slower)
    return path


def write_once(path: Path, write: Callable[..., None], *arguments: object) -> None:
    """Write a run in another process: a child's peak memory is at least that of the process that started it."""
    if not path.exists():
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            pool.submit(write, path, *arguments).result()


def _megabytes(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f} MB"


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--utterances", type=_numbers, default="100,1000,10000")
    parser.add_argument("--streams", type=_numbers, default="518,3600")
    parser.add_argument("--modules", type=_numbers, default="1600,6400")
    parser.add_argument("--only", default="utterances,streams,modules,check")
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    machine = describe()
    print(f"{machine.cpu}, {machine.logical_cores} cores")
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        sections: dict[str, Callable[[], None]] = {
            "utterances": lambda: measure_utterances(folder, chosen.utterances),
            "streams": lambda: measure_reports("seconds", f"{folder}/stream", chosen.streams, write_stream_run),
            "modules": lambda: measure_reports("modules", f"{folder}/step", chosen.modules, write_step_run),
            "check": lambda: measure_check(folder, max(chosen.utterances)),
        }
        for name in chosen.only.split(","):
            sections[name]()


if __name__ == "__main__":
    main()
