"""The largest batch of a loss that fits, by doubling and then by bisection, each try in a fresh process."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stopwav.measure.process import FreshProcess, Outcome
from stopwav.record import Piece, Record
from stopwav.speech.batches import Batch
from stopwav.speech.shapes import Shapes
from stopwav.studies.frontier import Frontier, free_memory_limit_bytes, frontier_of, next_batch
from stopwav.studies.loss.loss_step import StepPlace, StepRunner, place_of
from stopwav.studies.loss.setting import batch_seed, shapes_of
from stopwav.studies.loss.spec import BATCH_SIZE, LossSpec, plan_of


def find_largest(spec: LossSpec, record: Record, loss: str) -> None:
    """Probe batches until the largest that goes through one step is known; each probe is recorded at once."""
    shapes = shapes_of(spec)
    first = min((spec.batch_size or [BATCH_SIZE])[0], len(shapes))
    for vocab in spec.vocab:
        place = _limited(place_of(spec, loss, vocab))
        while (size := next_batch(largest_of(record, loss, vocab), first)) is not None and size <= len(shapes):
            outcome = _probe(spec, place, nested_batch(shapes, size, spec.seed))
            record.append(
                Piece(
                    key=["largest", loss, vocab, size],
                    status=outcome.status,
                    message=outcome.message,
                    last_words=outcome.last_words,
                    data={"memory_limit_bytes": place.memory_limit_bytes},
                )
            )


def largest_of(record: Record, loss: str, vocab: int) -> Frontier:
    """What the recorded probes of a loss say: the largest batch that fitted, the smallest that did not, and why."""
    pieces = [piece for piece in record.pieces if piece.key[:3] == ["largest", loss, vocab]]
    return frontier_of((int(piece.key[3]), piece) for piece in pieces)


def nested_batch(shapes: Shapes, size: int, seed: int) -> Batch:
    """So many utterances in an order drawn by the seed: a larger batch holds every smaller one, and needs no less."""
    chosen = np.random.default_rng(seed).permutation(len(shapes))[:size]
    return Batch(tuple(shapes.frames[chosen].tolist()), tuple(shapes.tokens[chosen].tolist()))


def _probe(spec: LossSpec, place: StepPlace, batch: Batch) -> Outcome:
    with FreshProcess(StepRunner, place, plan_of(spec)) as process:
        outcome = process.start(spec.time_limit_s)
        if outcome.ok:
            outcome = process.call("once", batch, batch_seed(spec, 0), time_limit_s=spec.time_limit_s)
        return outcome


def _limited(place: StepPlace) -> StepPlace:
    """The place with a limit to the host's memory, unless the user set one: the machine has to live on."""
    if place.memory_limit_bytes is not None or place.on_cuda:
        return place
    return replace(place, memory_limit_bytes=free_memory_limit_bytes())
