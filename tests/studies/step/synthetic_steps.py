"""Step runs that were never measured, of models with as many modules as a test asks for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stopwav.piece import Piece
from stopwav.record import Header, Record
from stopwav.studies.step.spec import StepSpec

PHASES = ("data", "forward", "loss", "backward", "optimizer", "rest")


def flat(count: int) -> list[tuple[str, str]]:
    """Modules side by side, with the names of their rows: every one a row of its own."""
    return [(f"part{number}", f"part{number}") for number in range(count)]


def repeated(count: int) -> list[tuple[str, str]]:
    """Layers of four modules each, which are shown as five rows."""
    names = ("", ".norm", ".linear", ".dropout")
    return [(f"layers.{n // 4}{names[n % 4]}", f"layers.*{names[n % 4]}") for n in range(count)]


def deep(count: int) -> list[tuple[str, str]]:
    """Modules each inside the one before."""
    return [(path, path) for path in (".".join(["in"] * depth) for depth in range(1, count + 1))]


def made_up_step(
    folder: Path, modules: Sequence[tuple[str, str]], *, steps: int = 3, labels: int = 0, stages: int = 0
) -> Record:
    """Return a run in which each module takes 2 ms forward and 1 ms backward of its own, the model itself 1 ms."""
    spec = StepSpec(model="made-up", steps=steps, rounds=1).stored()
    header = Header(stopwav="0.1.0", study="step", started="2026-01-01T00:00:00Z", spec=spec)
    ready = ready_data(modules)
    with Record.create(folder / f"step-{len(list(folder.glob('step-*')))}.jsonl", header) as record:
        record.append(Piece(key=["ready", 0], status="ok", data=ready))
        for number in range(steps):
            record.append(Piece(key=["step", 0, number], status="ok", data=step_data(modules, number, labels, stages)))
        sizes = {path: 100 for path, _ in modules}
        peak = {"row": "", "phase": "forward", "end_bytes": 10, "peak_bytes": 10}
        memory = {"step": 0, "held": sizes, "gradients": sizes, "states": sizes, "peak": peak, "baseline_bytes": 5}
        record.append(Piece(key=["memory", 0], status="ok", data={**memory, "method": "counted", "moments": []}))
        record.finish()
    return record


def ready_data(modules: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the data of a process that is ready."""
    rows = [{"path": "", "kind": "model", "type_name": "Model", "parameters": 10 * len(modules), "folded": ""}]
    rows += [
        {"path": path, "kind": "module", "type_name": "Part", "parameters": 10, "folded": folded}
        for path, folded in modules
    ]
    for row in rows:
        row |= {"parameter_bytes": 40, "also": []}
    return {
        "load_s": 1.0,
        "first_s": 1.0,
        "warmup_s": [1.0],
        "switch_s": 1e-7,
        "modules": rows,
        "shared": {},
        "labels": {},
        "model": "Model",
        "compiled": False,
        "device": "cpu",
    }


def step_data(modules: Sequence[tuple[str, str]], number: int, labels: int = 0, stages: int = 0) -> dict[str, Any]:
    """Return the data of a step."""
    scale = 1 + 0.1 * number
    parts: list[list[Any]] = [["", "forward", 1e-3 * scale, None]]
    for path, _ in modules:
        parts += [[path, "forward", 2e-3 * scale, None], [path, "backward", 1e-3 * scale, None]]
    parts += [[f"{modules[0][0]}:stage{stage}", "forward", 1e-3 * scale, None] for stage in range(stages)]
    wall_s = sum(part[2] for part in parts)
    names = [[f"label{label}"] for label in range(labels)]
    return {
        "batch": {"utterances": 1, "real_frames": 10, "padded_frames": 10},
        "clean": {"wall_s": wall_s, "device_s": None, "phases": {phase: [wall_s / 6, None] for phase in PHASES}},
        "watched": {
            "wall_s": 1.1 * wall_s,
            "device_s": None,
            "parts": parts,
            "labels": [[name, "forward", 1e-3, None] for name in names],
            "label_calls": [[name, 1] for name in names],
            "calls": {path: 1 for path, _ in modules},
            "stages": [],
            "recomputed": [],
            "callers": {},
        },
    }
