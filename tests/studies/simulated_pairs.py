"""Runs of every study that were never measured: their noise, and a slow-down that is planted in them, are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import compare_runs
import grid_runs
import loss_runs
import numpy as np
from load_runs import MadeLevel, level_data, load_run
from synthetic_runs import BETWEEN, WITHIN, synthetic_run
from synthetic_steps import ready_data, step_data

from stopwav.piece import Piece
from stopwav.record import Header, Record
from stopwav.studies.diff.diff import Diff
from stopwav.studies.step.spec import StepSpec

MODULES = [(path, path) for path in ("encoder", "encoder.attention", "encoder.conv", "predictor", "joiner")]


@dataclass(frozen=True)
class Noise:
    """What moves the times of a run: each round as a whole, then each thing in it, then what is planted."""

    draws: np.random.Generator
    slowdown: float
    rounds: dict[Any, float]

    def of(self, *process: object) -> float:
        """Return the factor of one time; those of one process share that of their round."""
        shared = self.rounds.setdefault(process, self.draws.normal(0, BETWEEN))
        return (1 + self.slowdown) * math.exp(shared + self.draws.normal(0, WITHIN))


def _noise(seed: int, slowdown: float) -> Noise:
    return Noise(np.random.default_rng(seed), slowdown, {})


def _latency(folder: Path, seed: int, slowdown: float, rounds: int) -> Record:
    return synthetic_run(seed, rounds=rounds, slowdown=slowdown)


def _grid(folder: Path, seed: int, slowdown: float, rounds: int) -> Record:
    noise = _noise(seed, slowdown)
    return grid_runs.made_up(
        folder,
        lambda cell, index: 0.01 * cell.audio_s * noise.of(index, cell),
        rounds=rounds,
        durations=[1, 2],
        batch_sizes=[1, 4],
    )


def _compare(folder: Path, seed: int, slowdown: float, rounds: int) -> Record:
    """Two engines at two lengths, whose errors differ from run to run by chance."""
    noise = _noise(seed, slowdown)
    engines, frames = ("a", "b"), [100, 200]
    joules = [
        compare_runs.energy_piece(name, length, index, 0.1 * length * noise.of("energy", index, name))
        for name in engines
        for length in frames
        for index in range(3)
    ]
    meters = Piece(key=["meters"], status="ok", data={"source": "bench", "missing": []})
    wrong = noise.draws.binomial(10, 0.1, (len(engines), 40))
    return compare_runs.made_up(
        folder,
        lambda name, length, index: 0.001 * length * noise.of(index, name),
        errors=lambda name, place: int(wrong[engines.index(name), place]),
        engines=engines,
        rounds=rounds,
        frames=frames,
        samples=40,
        utterances=40,
        energy=True,
        more=[meters, *joules],
        counted={name: compare_runs.modules(encoder=1000) for name in engines},
    )


def _loss(folder: Path, seed: int, slowdown: float, rounds: int) -> Record:
    noise = _noise(seed, slowdown)
    checks = {name: loss_runs.checked() for name in ("torch", "fused")}
    return loss_runs.made_up(
        folder,
        lambda name, number, index: 0.1 * (number + 1) * noise.of(index, name),
        checks=checks,
        rounds=rounds,
    )


def _step(folder: Path, seed: int, slowdown: float, rounds: int) -> Record:
    noise, steps = _noise(seed, slowdown), 4
    spec = StepSpec(model="made-up", steps=steps, rounds=rounds).stored()
    header = Header(stopwav="0.1.0", study="step", started="2026-01-01T00:00:00Z", spec=spec)
    pieces = [Piece(key=["ready", index], status="ok", data=ready_data(MODULES)) for index in range(rounds)]
    for index in range(rounds):
        for number in range(steps):
            data = step_data(MODULES, number)
            # What each module takes differs by chance, and the process as a whole; its phases follow from the whole.
            for part in data["watched"]["parts"]:
                part[2] *= noise.of(index)
            data["watched"]["wall_s"] *= noise.of(index)
            data["clean"]["wall_s"] *= noise.of(index)
            data["clean"]["phases"] = {
                name: [seconds * noise.of(index), None] for name, (seconds, _) in data["clean"]["phases"].items()
            }
            pieces.append(Piece(key=["step", index, number], status="ok", data=data))
    sizes = {path: 100 for path, _ in MODULES}
    peak = {"row": "", "phase": "forward", "end_bytes": 10, "peak_bytes": 10}
    memory = {"step": 0, "held": sizes, "gradients": sizes, "states": sizes, "peak": peak, "baseline_bytes": 5}
    pieces.append(Piece(key=["memory", 0], status="ok", data={**memory, "method": "counted", "moments": []}))
    return Record(folder / "step.jsonl", header, pieces, complete=True)


def _load(folder: Path, seed: int, slowdown: float, rounds: int) -> Record:
    """Two levels that are given; each session waits as long as its round says."""
    noise = _noise(seed, slowdown)
    levels = [MadeLevel(2, sessions=40), MadeLevel(4, sessions=40)]
    record = load_run(levels, folder / "load.jsonl", rounds=rounds, streams=[2, 4])
    record.header.spec["rounds"] = rounds
    pieces = []
    for piece in record.pieces:
        level = levels[0] if piece.key[3] == 2 else levels[1]
        pace = noise.of(*piece.key[1:4])
        varied = replace(
            level,
            word_s=level.word_s * pace,
            final_s=level.final_s * pace * math.exp(noise.draws.normal(0, WITHIN)),
            bytes_=round(level.bytes_ * math.exp(noise.draws.normal(0, 0.002))),
        )
        pieces.append(Piece(key=list(piece.key), status="ok", data=level_data(varied)))
    return Record(record.path, record.header, pieces, complete=True)


# How a run of each study is made, from a folder, a seed, what is planted, and its rounds.
SIMULATED: dict[str, Callable[[Path, int, float, int], Record]] = {
    "latency": _latency,
    "grid": _grid,
    "compare": _compare,
    "loss": _loss,
    "step": _step,
    "load": _load,
}
# The items and metrics in which a slow-down of everything has to be found; None is every item that has the metric.
FOUND_IN: dict[str, tuple[str | None, tuple[str, ...]]] = {
    "latency": (None, ("rtf", "chunk_lag_p50")),
    "grid": (None, ("rtf",)),
    "compare": (None, ("rtf", "latency")),
    "loss": (None, ("step_time", "forward_time", "backward_time")),
    "step": ("step", ("step_time", "forward_time", "backward_time")),
    "load": (None, ("final_latency_p50",)),
}


def is_found(study: str, compared: Diff) -> bool:
    """Whether everything that a slow-down of all times should show in is called slower."""
    name, metrics = FOUND_IN[study]
    changes = [
        change
        for item in compared.items
        for change in item.changes
        if name in (None, item.name) and change.metric in metrics
    ]
    return bool(changes) and all(change.verdict == "slower" for change in changes)
