"""The largest batch of a loss that fits, by doubling and then by bisection, each try in a process of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from stopwav.measure.launcher import ask_machine
from stopwav.record import Record
from stopwav.speech.batches import Batch
from stopwav.speech.shapes import Shapes
from stopwav.studies.frontier import LARGEST_BATCH, Frontier, free_memory_limit_bytes, frontier_of, next_batch
from stopwav.studies.loss.batch_sets import batch_seed, load_spec_shapes
from stopwav.studies.loss.loss_step import LossRunner, LossSetup, loss_setup
from stopwav.studies.loss.spec import BATCH_SIZE, LossSpec, plan_of
from stopwav.studies.worker import Worker, outcome_to_piece


def find_largest(spec: LossSpec, record: Record, loss: str, left_s: Callable[[], float] = lambda: math.inf) -> None:
    """Try batches until the largest that goes through one step is known, or no time is left; each try is recorded."""
    shapes = load_spec_shapes(spec)
    most = min(LARGEST_BATCH, len(shapes))
    first = min((spec.batch_size or [BATCH_SIZE])[0], most)
    for vocab in spec.vocab:
        setup = _limited(loss_setup(spec, loss, vocab))
        while (size := next_batch(largest_of(record, loss, vocab), first, most)) is not None:
            limit_s = min(spec.time_limit_s, left_s())
            if limit_s <= 0:
                return
            batch = nested_batch(shapes, size, spec.seed)
            with Worker(LossRunner, (setup, plan_of(spec)), "loss", limit_s) as worker:
                outcome = worker.call("run_once", batch, batch_seed(spec, 0), time_limit_s=limit_s)
            if outcome.status == "timeout" and limit_s < spec.time_limit_s:
                return  # the budget ended it: that says nothing of the batch
            limit = {"memory_limit_bytes": setup.memory_limit_bytes}
            record.append(outcome_to_piece(["largest", loss, vocab, size], outcome, limit))


def largest_of(record: Record, loss: str, vocab: int) -> Frontier:
    """Return the largest batch that fitted, the smallest that did not, and why, by the recorded tries of a loss."""
    pieces = [piece for piece in record.pieces if piece.key[:3] == ["largest", loss, vocab]]
    return frontier_of((int(piece.key[3]), piece) for piece in pieces)


def next_size(record: Record, spec: LossSpec, loss: str, vocab: int) -> int | None:
    """Return the batch that the search of a run tries next; None where it has ended."""
    most = min(LARGEST_BATCH, int(record.header.corpus["count"]))
    first = min((spec.batch_size or [BATCH_SIZE])[0], most)
    return next_batch(largest_of(record, loss, vocab), first, most)


def nested_batch(shapes: Shapes, size: int, seed: int) -> Batch:
    """Return a batch of utterances in an order drawn by the seed: a larger one holds every smaller one."""
    chosen = np.random.default_rng(seed).permutation(len(shapes))[:size]
    return Batch(tuple(shapes.frames[chosen].tolist()), tuple(shapes.tokens[chosen].tolist()))


def _limited(setup: LossSetup) -> LossSetup:
    """Limit the host's memory unless the user did: the machine has to stay alive."""
    if setup.memory_limit_bytes is not None or setup.on_cuda:
        return setup
    return replace(setup, memory_limit_bytes=ask_machine(free_memory_limit_bytes))
