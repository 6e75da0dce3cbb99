"""Short loss runs on shapes of a few cells, and losses of all kinds written for a test."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import stopwav
from stopwav import Plan, Round
from stopwav.measure.machine import describe
from stopwav.measure.memory import EXACT, HostPeak
from stopwav.measure.sampler import Samples
from stopwav.piece import Piece
from stopwav.record import Header, Record, Result
from stopwav.studies.loss.batch_sets import batch_sets, corpus_of
from stopwav.studies.loss.rounds import step_key
from stopwav.studies.loss.spec import LossSpec
from stopwav.studies.stored_rounds import round_to_piece

# The rules of a full plan, small enough for a test.
FAST = Plan(min_values=3, max_values=3, warmup_s=0, min_values_s=0.001, max_values_s=0.1)

OWN = """
import itertools, os, sys, time
import torch
from stopwav.losses.oracle import plain_loss

def right(*inputs):
    return plain_loss(*inputs)

def wrong(*inputs):
    return 1.1 * plain_loss(*inputs)

def wrong_gradient(logits, *rest):
    return plain_loss(logits + 0 * logits.sum(), *rest) - 0.5 * (logits.sum() - logits.sum().detach())

def aborting(logits, *rest):
    sys.stderr.write("about to die\\n")
    sys.stderr.flush()
    os.abort()

def hungry(logits, *rest):
    if logits.shape[1] > 30:
        torch.ones(10**10)
    return plain_loss(logits, *rest)

def raising(logits, *rest):
    raise ValueError("expected int32, got int64")

calls = itertools.count()

def unsteady(*inputs):  # by far more than a rounding, and by far less than what is wrong
    return plain_loss(*inputs) * (1 + 2e-5 * (next(calls) % 2))
"""


def shapes_file(folder: Path) -> Path:
    """Write a file of eight utterances, short and long."""
    path = folder / "shapes.csv"
    path.write_text("T,U\n10,3\n12,4\n8,2\n20,5\n18,4\n40,9\n6,1\n15,3\n")
    return path


def own(folder: Path, name: str) -> str:
    """Return the name of a loss of the file above."""
    (folder / "own.py").write_text(OWN)
    return f"{folder / 'own.py'}:{name}"


def run(losses: list[str], folder: Path, **options: Any) -> Record:
    """Return a quick run of one round."""
    small: dict[str, Any] = {"batch_size": [2], "batches": 2, "vocab": [12], "dim": 8, "rounds": 1, "plan": FAST}
    return stopwav.loss(losses, shapes=shapes_file(folder), **{"save": folder, **small, **options})


def by_loss(record: Record) -> dict[str, Result]:
    """Return the results by the last part of the loss's name."""
    return {str(result.params["loss"]).rpartition(":")[2]: result for result in stopwav.results(record)}


def made_up(
    folder: Path,
    time_s: Callable[[str, int, int], float | str | None],
    *,
    checks: dict[str, dict[str, Any]],
    complete: bool = True,
    taken: int = 3,
    **spec: Any,
) -> Record:
    """Return a run in which round `i` of batch `n` took `time_s(loss, n, i)` seconds, or ended with that status.

    Where that is None, there is no such round. With a budget, `rounds=None`, it has the rounds that are `taken`.

    `checks` has the data of each loss's check; a loss without one is missing.
    """
    small: dict[str, Any] = {"batch_size": [2], "batches": 3, "vocab": [12], "dim": 8, "rounds": 3}
    full = LossSpec(losses=list(checks), shapes=str(shapes_file(folder)), **{**small, **spec})
    header = Header(
        stopwav="0.1.0",
        study="loss",
        started="2026-01-01T00:00:00Z",
        spec=full.stored(),
        corpus=corpus_of(full),
        machine=describe().as_dict(),
    )
    with Record.create(folder / "loss-0.jsonl", header) as record:
        for name, check in checks.items():
            key: list[str | int] = ["check" if check else "absent", name]
            absent = {"code": "loss-missing"}
            status = "ok" if check else "skipped"
            record.append(Piece(key=key, status=status, message="needs it: get it", data=check or absent))  # type: ignore[arg-type]
        for index in range(full.rounds or taken):
            for name in (name for name, check in checks.items() if check):
                for batch_set in batch_sets(header):
                    for number in range(len(batch_set.batches)):
                        took = time_s(name, number, index)
                        if took is None:
                            continue
                        failed = Round(index, took, f"message of {number}") if isinstance(took, str) else None  # type: ignore[arg-type]
                        step = step_key(index, (name, batch_set.setting.label, number), 0)
                        record.append(round_to_piece(step, failed or good_round(index, float(took))))
        if full.is_budgeted:
            record.append(Piece(key=["spent", 0], status="ok", data={"seconds": 30.0}))
        if complete:
            record.finish()
    return record


def checked(error: float = 1e-6, gap: float | None = None) -> dict[str, Any]:
    """Return the data of a check whose every relative error is the given one."""
    deviations = dict.fromkeys(("value", "encoder", "decoder", "weight", "bias"), error)
    return {"deviations": deviations, "deterministic": True, "gap": gap, "version": "made up 1", "precision": "float32"}


def good_round(index: int, took_s: float) -> Round:
    """Return a round of ten equal values, a quarter of each forward, with a peak of 100 MB over inputs of 90 MB."""
    samples = Samples(
        first_s=2 * took_s,
        warmup_s=(took_s,) * 3,
        loops=1,
        values_s=(took_s,) * 10,
        device_values_s=(),
        stages_s=({"forward": took_s / 4, "backward": took_s / 2},) * 10,
        cautions=(),
    )
    memory = HostPeak(190_000_000, 90_000_000, EXACT)
    return Round(index, "ok", load_s=0.1, samples=samples, memory=memory, facts={"engine": {"name": "made up"}})
