"""Many streams of the Emformer RNN-T on one device: time per step, chunk lag under load, and the floor of the device.

    python benchmarks/emformer_streams.py [--device cpu|cuda] [--streams 64,…,16384] [--beams 1,10] [--dtype bfloat16]
                                          [--limit 240s] [--max-wait 5] [--stages] [--no-check]

A step advances all streams by 160 ms, from samples on the host to texts on the host. The lag is that of streams whose
chunks are due at random moments of every 160 ms: a virtual clock runs them in batches, one after the other, each as
soon as `max_batch` chunks wait or the first one has waited for `max_wait`, and a chunk's lag ends with its batch. The
speech is the bundled corpus, every stream at another place of it. The weights are random. A beam of 1 is greedy search.
First a few streams are checked in float32 on the device: together and alone they must give the same texts.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from stopwav.engines.emformer_rnnt import EmformerRnnt
from stopwav.engines.protocol import Session
from stopwav.engines.registry import make
from stopwav.measure.clock import WallClock
from stopwav.measure.machine import describe
from stopwav.models.best_symbols import has_kernel
from stopwav.speech.audio import load
from stopwav.speech.corpus import bundled_corpus
from stopwav.stats import nearest_rank

CHUNK, CHUNK_S, RATE_HZ = 2560, 0.16, 16_000
STREAMS = "64,128,256,512,1024,2048,4096,8192,16384"
# Steps that are not counted: caches fill, and the texts of all streams begin.
WARM_UP_STEPS, FEWEST_STEPS = 4, 12
# A virtual load is given up once a chunk is this late: it does not keep up.
HOPELESS_S = 1.5
CHECKED_STREAMS, CHECKED_CHUNKS = 5, 40
Samples = NDArray[np.float32]


@dataclass(frozen=True)
class Device:
    """What a device can do at most, measured: bytes copied and operations multiplied per second."""

    bytes_per_s: float
    operations_per_s: float


@dataclass(frozen=True)
class Steps:
    """The steps of so many streams: seconds each, and the work of the search per stream and step."""

    times_s: list[float]
    scored: float
    extended: float


class Speech:
    """Chunks of the bundled corpus, the same for every engine."""

    def __init__(self) -> None:
        audio = np.concatenate([load(utterance.path, RATE_HZ).samples for utterance in bundled_corpus().utterances])
        self._chunks = np.split(audio[: len(audio) // CHUNK * CHUNK], len(audio) // CHUNK)

    def chunk(self, stream: int, step: int) -> Samples:
        """The chunk of a stream in a step; streams are at places that have nothing to do with each other."""
        return self._chunks[(stream * 7919 + step) % len(self._chunks)]


def make_engine(device: str, dtype: str, beam: int, streams: int) -> EmformerRnnt:
    """Return the engine with room for so many streams."""
    search = "search=greedy" if beam == 1 else f"beam={beam}"
    features = ",features=cuda" if device == "cuda" else ""
    engine = make(f"emformer-rnnt,{search},device={device},dtype={dtype},streams={streams}{features}")
    assert isinstance(engine, EmformerRnnt)
    return engine


def check(device: str, beam: int, speech: Speech) -> str:
    """Return a line that says whether a few streams give together, in float32, what each gives alone."""
    engine = make_engine(device, "float32", beam, CHECKED_STREAMS)
    texts: dict[str, list[str]] = {"alone": [], "together": [""] * CHECKED_STREAMS}
    for stream in range(CHECKED_STREAMS):
        session, text = engine.open(), ""
        for step in range(CHECKED_CHUNKS - 3 * stream):
            text = _last(session.push(speech.chunk(stream, step)), text)
        texts["alone"].append(_last(session.finish(), text))
    sessions = [engine.open() for _ in range(CHECKED_STREAMS)]
    for step in range(CHECKED_CHUNKS + 1):
        due = [stream for stream in range(CHECKED_STREAMS) if step <= CHECKED_CHUNKS - 3 * stream]
        ends = {stream: step == CHECKED_CHUNKS - 3 * stream for stream in due}
        calls = [(sessions[stream], None if ends[stream] else speech.chunk(stream, step)) for stream in due]
        for stream, result in zip(due, engine.advance_all(calls), strict=True):
            texts["together"][stream] = _last(result, texts["together"][stream])
    same = sum(alone == together for alone, together in zip(*texts.values(), strict=True))
    symbols = sum(len(text.split()) for text in texts["alone"])
    return (
        f"float32, beam {beam}: {same} of {CHECKED_STREAMS} streams give the same {symbols} symbols together and alone"
    )


def _last(hypotheses: Sequence[object], text: str) -> str:
    return getattr(hypotheses[-1], "text", text) if hypotheses else text


def measure_steps(engine: EmformerRnnt, streams: int, speech: Speech, limit_s: float) -> Steps:
    """Return the times of steps of all streams at once."""
    batch, sessions = engine.stream_batch(), [engine.open() for _ in range(streams)]
    times_s: list[float] = []
    begin_s = time.perf_counter()
    step = 0
    while step < WARM_UP_STEPS + 1 or len(times_s) < FEWEST_STEPS or time.perf_counter() - begin_s < limit_s:
        if step > WARM_UP_STEPS and time.perf_counter() - begin_s > 2 * limit_s:
            break
        if step == WARM_UP_STEPS:
            settle()
            scored, extended = batch.work.scored, batch.work.extended
        calls: list[tuple[Session, Samples | None]]
        calls = [(session, speech.chunk(stream, step)) for stream, session in enumerate(sessions)]
        start_s = time.perf_counter()
        engine.advance_all(calls)
        if step >= WARM_UP_STEPS:
            times_s.append(time.perf_counter() - start_s)
        step += 1
    count = len(times_s) * streams
    return Steps(times_s, (batch.work.scored - scored) / count, (batch.work.extended - extended) / count)


def settle() -> None:
    """Take what is there now out of the garbage collector's way, as `serve` does: with it, a step stalls for 0.1 s."""
    gc.collect()
    gc.freeze()


def measure_lags(
    engine: EmformerRnnt, streams: int, speech: Speech, max_batch: int, max_wait_s: float, limit_s: float
) -> list[float]:
    """Return the lags of chunks that are due at random moments; the clock is virtual, the batches are real."""
    sessions = [engine.open() for _ in range(streams)]
    steps = [0] * streams
    due = [(offset, stream) for stream, offset in enumerate(np.random.default_rng(0).uniform(0, CHUNK_S, streams))]
    heapq.heapify(due)
    now_s, lags_s, begin_s = 0.0, [], time.perf_counter()
    settle()
    while time.perf_counter() - begin_s < limit_s:
        ready: list[tuple[float, int]] = []
        # Wait until the batch is full, or the first chunk of it has waited long enough.
        start_s = max(now_s, due[0][0] + max_wait_s)
        while len(ready) < max_batch and due[0][0] <= start_s:
            due_s, stream = due[0]
            ready.append((due_s, stream))
            heapq.heapreplace(due, (due_s + CHUNK_S, stream))
        if len(ready) == max_batch:
            start_s = max(now_s, ready[-1][0])
        calls: list[tuple[Session, Samples | None]]
        calls = [(sessions[stream], speech.chunk(stream, steps[stream])) for _, stream in ready]
        call_s = time.perf_counter()
        engine.advance_all(calls)
        now_s = start_s + time.perf_counter() - call_s
        for due_s, stream in ready:
            steps[stream] += 1
            # The first chunk of every stream is the warm-up.
            if steps[stream] > 1:
                lags_s.append(now_s - due_s)
        if now_s - ready[0][0] > HOPELESS_S:
            break
    return lags_s


def measure_device(device: str, dtype: torch.dtype) -> Device:
    """Return the rates of a large copy and of a large product."""
    size, width = (2**30, 8192) if device == "cuda" else (2**27, 1024)
    source = torch.ones(size // 4, device=device)
    target = torch.empty_like(source)
    matrix = torch.ones(width, width, device=device, dtype=dtype)
    copy_s = best_time(lambda: target.copy_(source), device)
    product_s = best_time(lambda: matrix @ matrix, device)
    return Device(2 * source.nbytes / copy_s, 2 * width**3 / product_s)


def best_time(call: Callable[[], object], device: str) -> float:
    """Return the least seconds of a few calls."""
    times_s = []
    for _ in range(8):
        if device == "cuda":
            torch.cuda.synchronize()
        start_s = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        times_s.append(time.perf_counter() - start_s)
    return min(times_s)


def floor_s(engine: EmformerRnnt, streams: int, steps: Steps, device: Device) -> tuple[float, float]:
    """Return the least seconds of a step by its bytes and by its operations.

    Bytes: weights once per batch, the past of every stream read, and its new keys and values written. Operations: the
    products of weights, and of attention.
    """
    network, batch = engine.network, engine.stream_batch()
    shape = network.transcriber.shape
    weights = {name: _count(part) for name, part in network.named_children()}
    size = network.joiner.linear.weight.element_size()
    rows = shape.segment_frames + shape.ahead_frames
    seen = shape.left_context + rows
    attention = 4 * rows * seen * shape.width * shape.layers
    per_stream = 2.0 * rows * weights["transcriber"] + attention
    per_stream += 2 * steps.scored * weights["joiner"] + 2 * steps.extended * weights["predictor"]
    batches = -(-streams // batch.most)
    moved = float(batches * sum(weights.values()) * size)
    moved += streams * batch.slot_bytes * (1 + rows / seen)
    return moved / device.bytes_per_s, streams * per_stream / device.operations_per_s


def _count(part: torch.nn.Module) -> int:
    """The weights that are multiplied by: those of matrices, without the embedding."""
    return sum(
        parameter.numel() for name, parameter in part.named_parameters() if parameter.dim() > 1 and "embed" not in name
    )


def stage_line(engine: EmformerRnnt, streams: int, speech: Speech) -> str:
    """Return where the time of a step goes; every stage waits for the device, so the sum is more than a step."""
    batch, sessions = engine.stream_batch(), [engine.open() for _ in range(streams)]
    batch.separate_stages = True
    totals: dict[str, list[float]] = {}
    for step in range(6):
        calls: list[tuple[Session, Samples | None]]
        calls = [(session, speech.chunk(stream, step)) for stream, session in enumerate(sessions)]
        timing = WallClock().time(lambda calls=calls: engine.advance_all(calls))  # type: ignore[misc]
        for name, seconds in {**timing.stages, "whole": timing.wall_s}.items():
            totals.setdefault(name, []).append(seconds)
    batch.separate_stages = False
    return ", ".join(f"{name} {1e3 * nearest_rank(times[2:], 0.5):.2f}" for name, times in totals.items())


def curve(
    engine: EmformerRnnt, beam: int, counts: Sequence[int], speech: Speech, device: Device, chosen: argparse.Namespace
) -> None:
    """Print the rows of one search, and the most streams that keep up."""
    batch = engine.stream_batch()
    start_s = time.perf_counter()
    batch.prepare(max(counts))
    kernels = {"attention": batch.has_kernel, "symbols": chosen.device == "cuda" and has_kernel()}
    print(f"\nTriton kernels: {', '.join(name for name, used in kernels.items() if used) or 'none'}")
    print(f"\nBeam {beam}; graphs recorded in {time.perf_counter() - start_s:.1f} s. Per step of 160 ms, ms:\n")
    print("| streams | P50 | P95 | floor: bytes | floor: operations | P50 / floor | scored ", end="")
    print("| lag P50 | lag P95 | keeps up |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    end_s = time.perf_counter() + chosen.limit_s
    kept, failed = 0, 0
    for number, streams in enumerate(counts):
        left_s = (end_s - time.perf_counter()) / (len(counts) - number + 1)
        if left_s <= 0.2 or failed:
            break
        lag_s = row(engine, streams, speech, device, chosen, left_s)
        kept, failed = (streams, failed) if lag_s <= CHUNK_S else (kept, streams)
    kept = bisect(engine, kept, failed, speech, chosen, end_s)
    print(f"\nMost streams with a P95 chunk lag of at most 160 ms, beam {beam}: {kept}")
    if torch.cuda.is_available():
        print(f"Peak memory of the device: {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


def row(
    engine: EmformerRnnt, streams: int, speech: Speech, device: Device, chosen: argparse.Namespace, left_s: float
) -> float:
    """Print the row of a number of streams, and return its P95 lag."""
    steps = measure_steps(engine, streams, speech, left_s / 3)
    lag50_s, lag95_s = lags(engine, streams, speech, chosen, left_s / 2)
    floors_s = floor_s(engine, streams, steps, device)
    p50_s, p95_s = nearest_rank(steps.times_s, 0.5), nearest_rank(steps.times_s, 0.95)
    cells = [p50_s, p95_s, *floors_s]
    shown = " | ".join(f"{1e3 * value:.2f}" for value in cells)
    print(f"| {streams} | {shown} | {p50_s / max(floors_s):.1f}× | {steps.scored:.1f} | ", end="")
    print(f"{1e3 * lag50_s:.1f} | {1e3 * lag95_s:.1f} | {'yes' if lag95_s <= CHUNK_S else 'no'} |", flush=True)
    if chosen.stages:
        print(f"\n{streams} streams, stages, ms: {stage_line(engine, streams, speech)}\n", flush=True)
    return lag95_s


def lags(
    engine: EmformerRnnt, streams: int, speech: Speech, chosen: argparse.Namespace, limit_s: float
) -> tuple[float, float]:
    """Return the P50 and P95 lag of a virtual load."""
    max_batch = min(chosen.max_batch or engine.stream_batch().most, streams)
    lags_s = measure_lags(engine, streams, speech, max_batch, chosen.max_wait / 1e3, limit_s)
    if not lags_s:
        return float("inf"), float("inf")
    return nearest_rank(lags_s, 0.5), nearest_rank(lags_s, 0.95)


def bisect(
    engine: EmformerRnnt, kept: int, failed: int, speech: Speech, chosen: argparse.Namespace, end_s: float
) -> int:
    """Return the most streams between two counts that keep up, as far as the time allows."""
    for _ in range(4):
        left_s = end_s - time.perf_counter()
        if not failed or failed - kept <= max(1, kept // 16) or left_s < 2:
            break
        middle = (kept + failed) // 2
        lag_s = lags(engine, middle, speech, chosen, min(left_s / 2, 8.0))[1]
        print(f"| {middle} | | | | | | | | {1e3 * lag_s:.1f} | {'yes' if lag_s <= CHUNK_S else 'no'} |", flush=True)
        kept, failed = (middle, failed) if lag_s <= CHUNK_S else (kept, middle)
    return kept


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--streams", default=STREAMS, help="numbers of streams")
    parser.add_argument("--beams", default="1,10", help="beams; 1 is greedy search")
    parser.add_argument("--dtype", choices=("float32", "float16", "bfloat16"), default="bfloat16")
    parser.add_argument("--limit", default="240s", help="the time for each beam, about, after the engine is loaded")
    parser.add_argument("--max-batch", type=int, help="chunks in a batch at most")
    parser.add_argument("--max-wait", type=float, default=5.0, help="how long a chunk waits for others, in ms")
    parser.add_argument("--stages", action="store_true", help="print where the time goes too")
    parser.add_argument("--no-check", action="store_true", help="leave out the check in float32")
    chosen = parser.parse_args()
    chosen.limit_s = float(chosen.limit.removesuffix("s"))
    return chosen


def main() -> None:
    """Print the tables."""
    chosen = options()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    machine, speech = describe(), Speech()
    gpu = f", {torch.cuda.get_device_name()}" if chosen.device == "cuda" else ""
    counts, beams = ([int(number) for number in text.split(",")] for text in (chosen.streams, chosen.beams))
    print(f"{machine.cpu}, {machine.logical_cores} cores, {torch.get_num_threads()} threads{gpu}; torch ", end="")
    print(f"{torch.__version__}; {chosen.dtype}, max_wait {chosen.max_wait:g} ms")
    device = measure_device(chosen.device, getattr(torch, chosen.dtype))
    print(f"Copies {device.bytes_per_s / 1e9:.0f} GB/s, products {device.operations_per_s / 1e12:.2f} TFLOP/s\n")
    for beam in beams:
        if not chosen.no_check:
            print(check(chosen.device, beam, speech), flush=True)
    for beam in beams:
        # Streams of one count are dropped before the next is measured, but the garbage collector may be late.
        engine = make_engine(chosen.device, chosen.dtype, beam, max(counts) + 64)
        curve(engine, beam, counts, speech, device, chosen)
        del engine


if __name__ == "__main__":
    main()
