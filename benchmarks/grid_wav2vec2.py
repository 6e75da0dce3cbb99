"""The grid of a CTC model of wav2vec2-base's size with random weights, beside the same cells timed by a plain loop.

    python benchmarks/grid_wav2vec2.py [--device cuda] [--dtypes float32,float16] [--tiny] [--rounds 1]
                                       [--durations 1,2,5,8,32] [--batch-sizes 1,4,8]

Prints a Markdown table for each precision. CTC does the same work for whatever is said, so random weights do not
matter. The plain loop is what one writes by hand: one process, 5 calls to warm up, the median of 20.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import (
    Wav2Vec2Config,
    Wav2Vec2CTCTokenizer,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2ForCTC,
    Wav2Vec2Processor,
)

from stopwav.measure.machine import describe
from stopwav.studies import results
from stopwav.studies.grid import grid
from stopwav.studies.grid_cell import Cell, CellWorkload

WARM_UP, CALLS = 5, 20
# The letters, the word boundary and what CTC needs beside them: as many symbols as the published model has.
SYMBOLS = ["<pad>", "<s>", "</s>", "<unk>", "|", "'", *"abcdefghijklmnopqrstuvwxyz"]


def save_model(folder: Path, tiny: bool) -> None:
    """Write a randomly initialised model and its processor as the toolkit does."""
    # Tiny in front too: convolutions of the published width over raw samples would be nearly all of its time.
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


def loop_s(engine: str, cell: Cell, device: str) -> float:
    """The median time of a batch in a plain loop."""
    call = CellWorkload(engine, cell, "bundled", 0).setup()
    times = []
    for at in range(WARM_UP + CALLS):
        start = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        if at >= WARM_UP:
            times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def table(engine: str, durations: Sequence[float], batch_sizes: Sequence[int], rounds: int, device: str) -> list[str]:
    """The rows of one precision."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        record = grid(engine, durations=durations, batch_sizes=batch_sizes, rounds=rounds, save=folder)
        found = [result for result in results(record) if result.params["kind"] == "cell"]
    took_s = time.perf_counter() - start
    rows = [
        "| duration × batch | RTF, wall | RTF, device | plain loop | wall / loop "
        "| allocated, MB | device, MB | host, MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for result in found:
        cell = Cell(float(str(result.params["duration_s"])), int(str(result.params["batch_size"])))
        value = {name: estimate.value for name, estimate in result.metrics.items()}
        rtf = value.get("rtf")
        if rtf is None:
            rows.append(f"| {cell} | {result.status} | | | | | | |")
            continue
        loop_rtf = loop_s(engine, cell, device) / cell.audio_s
        memory = [value.get(f"peak_{part}_bytes") for part in ("allocated", "device", "host")]
        megabytes = " | ".join("–" if part is None else f"{part / 1e6:,.0f}" for part in memory)
        device_rtf = value.get("device_rtf")
        rows.append(
            f"| {cell} | {rtf:.2E} | {'–' if device_rtf is None else f'{device_rtf:.2E}'} | {loop_rtf:.2E} "
            f"| {rtf / loop_rtf:.3f} | {megabytes} |"
        )
    return [*rows, "", f"{len(found)} cells, {rounds} round{'' if rounds == 1 else 's'} each, in {took_s:.0f} s"]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--dtypes", default="float32,float16")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--durations", default="1,2,5,8,32")
    parser.add_argument("--batch-sizes", default="1,4,8")
    parser.add_argument("--tiny", action="store_true")
    chosen = parser.parse_args()
    durations = [float(text) for text in chosen.durations.split(",")]
    batch_sizes = [int(text) for text in chosen.batch_sizes.split(",")]
    machine = describe()
    gpu = f", {torch.cuda.get_device_name()}" if chosen.device == "cuda" else ""
    print(f"{machine.cpu}, {machine.logical_cores} cores{gpu}; torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder), chosen.tiny)
        for dtype in chosen.dtypes.split(","):
            engine = f"transformers:{folder},dtype={dtype},device={chosen.device}"
            print(f"\n{dtype}\n\n" + "\n".join(table(engine, durations, batch_sizes, chosen.rounds, chosen.device)))


if __name__ == "__main__":
    main()
