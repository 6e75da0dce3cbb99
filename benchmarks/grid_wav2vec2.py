"""The grid of a CTC model of wav2vec2-base's size with random weights, against the same cells timed by a plain loop.

    python benchmarks/grid_wav2vec2.py [--device cuda] [--dtypes float32,float16] [--tiny] [--rounds 1]
                                       [--durations 1,2,5,8,32] [--batch-sizes 1,4,8] [--save stopwav-runs]

Prints a Markdown table for each precision. An interrupted grid is resumed, and its time is then that of the rest. CTC
does the same work for any speech, so random weights do not matter. The plain loop is what one writes by hand: one
fresh process that loads the model once and, for each cell, warms up for a second and takes the median of seconds of
calls. In it the loop takes turns with stopwav's own sampler on the same call: `sampler / loop`, the median over the
turns of two such processes, is the error of the instrument. `grid / loop` also includes the difference between
processes, and so does `loop / loop`, the same loop in the second process.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import torch
from transformers import (
    Wav2Vec2Config,
    Wav2Vec2CTCTokenizer,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2ForCTC,
    Wav2Vec2Processor,
)

from stopwav.engines.registry import make
from stopwav.measure.clock import clock_for
from stopwav.measure.machine import describe
from stopwav.measure.plan import Plan
from stopwav.measure.process import FreshProcess
from stopwav.measure.sampler import sample
from stopwav.studies.audio_input import BUNDLED, make_audio
from stopwav.studies.grid.cell import BatchCall, GridCell
from stopwav.studies.grid.run import grid
from stopwav.studies.study import results

# Idle clocks rise within a second of work.
WARM_UP_S = 1.0
# Loop and sampler take short turns, for some seconds, so that a drift of the machine affects both.
MIN_TURNS, MAX_TURNS, TURN_CALLS, TURNS_S = 7, 40, 6, 4.0
# The sampler's stop rule needs at least 6 values for an interval, and any interval will do.
TURN_PLAN = Plan(min_values=TURN_CALLS, max_values=TURN_CALLS, warmup_s=0.0, min_values_s=0.0, precision=1.0)
# Loading from a cold disk, or a cell with seconds per call, takes minutes at most.
TIME_LIMIT_S = 600.0
# The largest difference between two timings of the same call.
TOLERANCE = 0.03
# For a cell that a peer could not time.
NONE: tuple[None, list[float]] = (None, [])
RATIOS = ("grid / loop", "sampler / loop", "loop / loop")
HEADER = (
    f"| duration × batch | RTF, wall | RTF, device | plain loop | {' | '.join(RATIOS)} "
    "| allocated, MB | device, MB | host, MB |\n|" + 10 * "---|"
)
# The letters, the word boundary and the special symbols of CTC: as many as in the published model.
SYMBOLS = ["<pad>", "<s>", "</s>", "<unk>", "|", "'", *"abcdefghijklmnopqrstuvwxyz"]


def save_model(folder: Path, tiny: bool) -> None:
    """Write a randomly initialised model and its processor as the toolkit does."""
    # Tiny convolutions too: at the published width they would take nearly all of the time.
    sizes = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "conv_dim": (32,) * 7,
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 4,
    }
    torch.manual_seed(0)
    Wav2Vec2ForCTC(Wav2Vec2Config(vocab_size=len(SYMBOLS), **(sizes if tiny else {}))).save_pretrained(folder)
    vocabulary = folder / "symbols.json"
    vocabulary.write_text(json.dumps({symbol: at for at, symbol in enumerate(SYMBOLS)}))
    tokenizer = Wav2Vec2CTCTokenizer(str(vocabulary))
    Wav2Vec2Processor(Wav2Vec2FeatureExtractor(return_attention_mask=False), tokenizer).save_pretrained(folder)


class Peer:
    """A process that loaded the model once and times any cell, by hand and by stopwav's sampler."""

    def __init__(self, engine: str, device: str) -> None:
        self._engine: Any = make(engine)
        self._device = device

    def time(self, cell: GridCell) -> tuple[float, list[float]]:
        """The median time of a batch in a plain loop, and the ratio `sampler / loop` of each turn.

        The sampler's turn is compared with the mean of the loop's turns before and after it: an even drift cancels.
        """
        rate_hz = self._engine.info.sample_rate_hz
        audio = make_audio(BUNDLED, cell.duration_s, rate_hz, 0)
        call, clock = BatchCall(self._engine, audio, cell.batch_size), clock_for(self._device)
        self._loop(call, TURN_CALLS, WARM_UP_S)
        turns_s = [self._loop(call, TURN_CALLS)]
        ratios: list[float] = []
        start_s = perf_counter()
        while len(ratios) < MIN_TURNS or (len(ratios) < MAX_TURNS and perf_counter() - start_s < TURNS_S):
            by_sampler_s = median(sample(call, clock, TURN_PLAN).values_s)
            turns_s.append(self._loop(call, TURN_CALLS))
            ratios.append(2 * by_sampler_s / (median(turns_s[-2]) + median(turns_s[-1])))
        return median(chain.from_iterable(turns_s)), ratios

    def _loop(self, call: BatchCall, min_calls: int, min_s: float = 0.0) -> list[float]:
        times_s: list[float] = []
        while len(times_s) < min_calls or sum(times_s) < min_s:
            call.prepare_calls(1)
            start_s = perf_counter()
            call()
            if self._device == "cuda":
                torch.cuda.synchronize()
            times_s.append(perf_counter() - start_s)
        return times_s


def loop(engine: str, cells: Sequence[GridCell], device: str) -> dict[GridCell, tuple[float, list[float]]]:
    """The result of a peer for each cell that it could time."""
    with FreshProcess(Peer, engine, device) as peer:
        started = peer.start(TIME_LIMIT_S)
        outcomes = {cell: peer.call("time", cell, time_limit_s=TIME_LIMIT_S) for cell in cells}
    failed = [outcome for outcome in (started, *outcomes.values()) if not outcome.ok]
    if failed:
        print(f"plain loop: {failed[0].status}: {failed[0].message}", file=sys.stderr)
    return {cell: outcome.value for cell, outcome in outcomes.items() if outcome.ok}


def text(value: float | None, form: str, scale: float = 1.0) -> str:
    """The number as a table shows it."""
    return "–" if value is None else format(value / scale, form)


def over(value: float | None, other: float | None) -> float | None:
    """The ratio, or `None` if either is missing."""
    return None if value is None or other is None else value / other


def table(engine: str, chosen: argparse.Namespace) -> list[str]:
    """The rows of one precision, and how long they took."""
    start, rounds = perf_counter(), chosen.rounds
    durations = [float(part) for part in chosen.durations.split(",")]
    batch_sizes = [int(part) for part in chosen.batch_sizes.split(",")]
    record = grid(engine, durations=durations, batch_sizes=batch_sizes, rounds=rounds, save=chosen.save, resume=True)
    cell_results = [result for result in results(record) if result.params["kind"] == "cell"]
    grid_s = perf_counter() - start
    cells = [
        GridCell(float(str(result.params["duration_s"])), int(str(result.params["batch_size"])))
        for result in cell_results
    ]
    measured = [cell for cell, result in zip(cells, cell_results, strict=True) if result.status == "ok"]
    peers, others = (loop(engine, measured, chosen.device) for _ in range(2))
    loops_s = perf_counter() - start - grid_s
    rows, near = [HEADER], dict.fromkeys(RATIOS, 0)
    for cell, result in zip(cells, cell_results, strict=True):
        value = {name: estimate.value for name, estimate in result.metrics.items()}
        rtf, (loop_s, turns), (second_loop_s, second_turns) = (
            value.get("rtf"),
            peers.get(cell, NONE),
            others.get(cell, NONE),
        )
        ratios = [
            None if rtf is None else over(rtf * cell.audio_s, loop_s),
            median(turns + second_turns) if turns + second_turns else None,
            over(second_loop_s, loop_s),
        ]
        rtfs = [
            result.status if rtf is None else f"{rtf:.2E}",
            text(value.get("device_rtf"), ".2E"),
            text(loop_s, ".2E", cell.audio_s),
        ]
        memory = [text(value.get(f"peak_{part}_bytes"), ",.0f", 1e6) for part in ("allocated", "device", "host")]
        parts = [str(cell), *rtfs, *(text(ratio, ".3f") for ratio in ratios), *memory]
        rows.append(f"| {' | '.join(parts)} |")
        for name, ratio in zip(RATIOS, ratios, strict=True):
            near[name] += ratio is not None and abs(ratio - 1) <= TOLERANCE
    took = f"{len(cells)} cells, {rounds} round{'' if rounds == 1 else 's'}: grid {grid_s:.0f} s, loops {loops_s:.0f} s"
    within = ", ".join(f"{name} in {count}" for name, count in near.items())
    return [*rows, "", f"{took}. Within {TOLERANCE:.0%}: {within}."]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--dtypes", default="float32,float16")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--durations", default="1,2,5,8,32")
    parser.add_argument("--batch-sizes", default="1,4,8")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--save", type=Path, default=Path("stopwav-runs"))
    chosen = parser.parse_args()
    machine = describe()
    gpu = f", {torch.cuda.get_device_name()}" if chosen.device == "cuda" else ""
    print(f"{machine.cpu}, {machine.logical_cores} cores{gpu}; torch {torch.__version__}")
    folder = chosen.save / ("wav2vec2-tiny" if chosen.tiny else "wav2vec2-base")
    save_model(folder, chosen.tiny)
    for dtype in chosen.dtypes.split(","):
        engine = f"transformers:{folder},dtype={dtype},device={chosen.device}"
        print(f"\n{dtype}\n\n" + "\n".join(table(engine, chosen)), flush=True)


if __name__ == "__main__":
    main()
