"""The chunks of all streams of an engine by column, in blocks: times in whole nanoseconds take half of a float.

A hundred thousand utterances in three rounds have sixteen million chunks. Each quantity of them, such as the queue, is
made from its blocks when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stopwav.speech.events import Floats, Integers
from stopwav.studies.column_file import ColumnFile, StoredColumn, read_column

# Run files hold times in whole nanoseconds.
_PER_S = 1e9
_MOST = 2**31


class Times(NamedTuple):
    """When chunks were due, started and done."""

    due_s: Floats
    start_s: Floats
    done_s: Floats


@dataclass(frozen=True, eq=False)
class Whole:
    """Whole numbers in four bytes: all of them, or where most are the same only the others, with their places."""

    size: int
    usual: int
    places: NDArray[np.int32] | None
    others: NDArray[np.int32] | StoredColumn[np.int32]

    def values(self) -> Integers:
        """Return all of them."""
        others = read_column(self.others)
        if self.places is None:
            return others.astype(np.int64)
        values = np.full(self.size, self.usual, dtype=np.int64)
        values[self.places] = others
        return values

    def stored(self, file: ColumnFile) -> Whole:
        """Return the same numbers, in a file if they are many."""
        if self.places is not None or isinstance(self.others, StoredColumn):
            return self
        return replace(self, others=file.put(self.others))


def whole(values: Floats) -> Whole | None:
    """Return whole numbers in four bytes; None where one of them needs more."""
    if values.size and float(np.abs(values).max()) >= _MOST:
        return None
    numbers = values.astype(np.int32)
    # Most chunks wait for none before them, and are as long as the one before.
    usual = int(np.partition(numbers, numbers.size // 2)[numbers.size // 2]) if numbers.size else 0
    places = np.flatnonzero(numbers != usual).astype(np.int32)
    if 2 * places.size >= numbers.size:
        return Whole(numbers.size, usual, None, numbers)
    return Whole(numbers.size, usual, places, numbers[places])


@dataclass(frozen=True, eq=False)
class ChunkBlock:
    """The chunks of some streams that follow each other: how many each stream has, their times and stages."""

    sizes: Integers
    # Nanoseconds from the chunk before to this one, from due to start, and from there to done; or the times in seconds.
    steps: tuple[Whole, Whole, Whole] | Times
    # The same by path of the stage.
    stages: Mapping[str, Whole | Floats]

    @property
    def times(self) -> Times:
        """When its chunks were due, started and done."""
        if isinstance(self.steps, Times):
            return self.steps
        first, second, third = (step.values() for step in self.steps)
        sums, firsts = np.cumsum(first), np.cumsum(self.sizes) - self.sizes
        due = sums - np.repeat(sums[firsts] - first[firsts], self.sizes)
        start = due + second
        return Times(due / _PER_S, start / _PER_S, (start + third) / _PER_S)

    def stage_s(self, path: str) -> Floats:
        """Return the seconds of its chunks in a stage."""
        seconds = self.stages.get(path)
        if seconds is None:
            return np.zeros(int(self.sizes.sum()))
        return seconds.values() / _PER_S if isinstance(seconds, Whole) else seconds

    def other_s(self) -> Floats:
        """Return the seconds of its chunks outside of all stages; what is nested in a stage is in that stage."""
        _, start_s, done_s = self.times
        seconds: Floats = done_s - start_s - sum(self.stage_s(path) for path in self.stages if "/" not in path)
        return seconds

    def stored(self, file: ColumnFile) -> ChunkBlock:
        """Return the block with its times in a file, as far as they are whole numbers."""
        if isinstance(self.steps, Times):
            steps: tuple[Whole, Whole, Whole] | Times = self.steps
        else:
            first, second, third = self.steps
            steps = (first.stored(file), second.stored(file), third.stored(file))
        stages = {path: own.stored(file) if isinstance(own, Whole) else own for path, own in self.stages.items()}
        return replace(self, steps=steps, stages=stages)

    @property
    def with_audio(self) -> NDArray[np.bool_]:
        """Whether a chunk has audio: all but the last of each stream."""
        flags = np.ones(int(self.sizes.sum()), dtype=bool)
        flags[np.cumsum(self.sizes) - 1] = False
        return flags


def chunk_block(sizes: Integers, times: Times, stages: Mapping[str, Floats]) -> ChunkBlock:
    """Return the block of streams with so many chunks each; no stream has none."""
    # A path of a stream before, which none of these has, takes no place.
    own = {path: _stage(seconds) for path, seconds in stages.items() if seconds.any()}
    return ChunkBlock(sizes, _steps(sizes, times) or times, own)


def _steps(sizes: Integers, times: Times) -> tuple[Whole, Whole, Whole] | None:
    """The times as steps, from which they come back to the last digit; None where they would not."""
    with np.errstate(over="ignore"):
        due, start, done = (np.rint(seconds * _PER_S) for seconds in times)
    if not all(np.array_equal(units / _PER_S, s) for units, s in zip((due, start, done), times, strict=True)):
        return None
    first, firsts = np.diff(due, prepend=0.0), np.cumsum(sizes) - sizes
    first[firsts] = due[firsts]
    steps = whole(first), whole(start - due), whole(done - start)
    return None if any(step is None for step in steps) else steps  # type: ignore[return-value]


def _stage(seconds: Floats) -> Whole | Floats:
    with np.errstate(over="ignore"):
        units = np.rint(seconds * _PER_S)
    # The sum of several executions may differ from whole nanoseconds in its last digits.
    is_whole = bool((np.abs(units / _PER_S - seconds) <= 4 * np.spacing(np.abs(seconds))).all())
    return (whole(units) if is_whole else None) or seconds


@dataclass(frozen=True, eq=False)
class Chunks:
    """The chunks of all streams, one after the other; that which ended a stream is the last of it."""

    blocks: tuple[ChunkBlock, ...]
    # The stages that chunks with audio have, and `other`, in the order in which they occur.
    paths: tuple[str, ...]

    @cached_property
    def sizes(self) -> Integers:
        """The number of chunks of each stream."""
        return np.concatenate([np.zeros(0, dtype=np.int64), *(block.sizes for block in self.blocks)])

    @property
    def audio_sizes(self) -> Integers:
        """The number of chunks with audio of each stream."""
        return self.sizes - 1

    def lag_s(self) -> Floats:
        """From the last sample of each chunk with audio to the end of its computation."""
        return self._with_audio(lambda block: block.times.done_s - block.times.due_s)

    def queue_s(self) -> Floats:
        """The time that each chunk with audio waited for earlier ones."""
        return self._with_audio(lambda block: block.times.start_s - block.times.due_s)

    def service_s(self) -> Floats:
        """The time that each chunk with audio was computed."""
        return self._with_audio(lambda block: block.times.done_s - block.times.start_s)

    def stage_s(self, path: str) -> Floats:
        """The seconds of each chunk with audio in a stage, or in none for `other`."""
        return self._with_audio(lambda block: block.other_s() if path == "other" else block.stage_s(path))

    def send_lateness_s(self) -> Floats:
        """How late each chunk was sent to a server, the call that ends a stream included."""
        return _joined(block.times.start_s - block.times.due_s for block in self.blocks)

    def quantities(self) -> Iterator[tuple[str, Callable[[], Floats]]]:
        """Yield the names of the times of chunks with audio, and how to get each: latency, queue, compute, stages."""
        yield from (("chunk_lag", self.lag_s), ("queue", self.queue_s), ("service", self.service_s))
        for path in self.paths:
            yield path, lambda path=path: self.stage_s(path)  # type: ignore[misc]

    def _with_audio(self, of_block: Callable[[ChunkBlock], Floats]) -> Floats:
        count, values = int(self.audio_sizes.sum()), np.zeros(0)
        if count:
            values, start = np.empty(count), 0
            for block in self.blocks:
                own = of_block(block)[block.with_audio]
                values[start : start + own.size] = own
                start += own.size
        return values


def _joined(parts: Iterable[Floats]) -> Floats:
    return np.concatenate([np.zeros(0), *parts])
