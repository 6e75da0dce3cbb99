"""The trace of one stream: when each chunk was due, started and done, its stages, and the texts it returned.

A trace is kept by column, and its texts as what changed: partials mostly repeat each other, and an hour of them in full
would take gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Nanoseconds: finer than any clock used here, and rounding keeps `start = max(due, previous done)` exact.
_DIGITS = 9
# Two clock readings of one moment may differ by rounding.
_TOLERANCE_S = 1e-6


@dataclass(frozen=True)
class Hypothesis:
    """The whole text of a stream as a listener sees it at one moment."""

    text: str


@dataclass(frozen=True)
class Stage:
    """One execution of a named part of a chunk's work, in seconds since the chunk was started."""

    path: str
    start_s: float
    duration_s: float


@dataclass(frozen=True)
class Chunk:
    """One push of audio (or the call that ends the stream), in seconds of stream time.

    It is due when its last sample has been spoken; its hypotheses are shown when it is done.
    """

    due_s: float
    start_s: float
    done_s: float
    stages: tuple[Stage, ...] = ()
    hypotheses: tuple[str, ...] = ()

    @property
    def service_s(self) -> float:
        """Time spent computing."""
        return self.done_s - self.start_s

    @property
    def queue_s(self) -> float:
        """Time spent waiting for earlier chunks."""
        return self.start_s - self.due_s

    @property
    def lag_s(self) -> float:
        """Time from the last sample spoken to the end of the computation."""
        return self.done_s - self.due_s


class TextChange(NamedTuple):
    """A text that a chunk returned: so many characters of the text before it, and what follows them."""

    chunk: int
    kept: int
    added: str


@dataclass(frozen=True, eq=False)
class StageColumns:
    """Every execution of a stage: which path and chunk it is of, its start since that of the chunk, its duration."""

    paths: Sequence[str]
    path: Integers
    chunk: Integers
    start_s: Floats
    duration_s: Floats


@dataclass(frozen=True, eq=False)
class Trace:
    """One stream: its chunks in order, the last of which is the call that ended it (no new audio, due at the end)."""

    audio_s: float
    chunk_s: float
    lookahead_s: float
    due_s: Floats
    start_s: Floats
    done_s: Floats
    # Their paths are in the order in which they first occur.
    stages: StageColumns
    texts: tuple[TextChange, ...]

    @property
    def queue_s(self) -> Floats:
        """The time that each chunk waited for earlier ones."""
        return self.start_s - self.due_s

    @property
    def service_s(self) -> Floats:
        """The time that each chunk was computed."""
        return self.done_s - self.start_s

    @property
    def lag_s(self) -> Floats:
        """The time from the last sample of each chunk to the end of its computation."""
        return self.done_s - self.due_s

    @cached_property
    def stage_seconds(self) -> dict[str, Floats]:
        """The seconds of each chunk by stage path, nested ones included, and `other` for time outside all stages."""
        count, stages = len(self.due_s), self.stages
        places = stages.path * count + stages.chunk
        sums = np.bincount(places, stages.duration_s, minlength=count * len(stages.paths)).astype(float)
        totals = dict(zip(stages.paths, sums.reshape(-1, count), strict=True)) if stages.paths else {}
        claimed = sum(seconds for path, seconds in totals.items() if "/" not in path)
        return {**totals, "other": self.service_s - claimed}

    @property
    def text(self) -> str:
        """The final text: the last hypothesis, or ""."""
        return last_text(self.texts)

    def chunks(self) -> Iterator[Chunk]:
        """Yield the chunks one by one, each with the whole of its texts."""
        stages: dict[int, list[Stage]] = {}
        columns = (self.stages.path, self.stages.chunk, self.stages.start_s, self.stages.duration_s)
        for path, index, start_s, duration_s in zip(*(column.tolist() for column in columns), strict=True):
            stages.setdefault(index, []).append(Stage(self.stages.paths[path], start_s, duration_s))
        changes = iter([*self.texts, TextChange(-1, 0, "")])
        change, text = next(changes), ""
        for index in range(len(self.due_s)):
            texts = []
            while change.chunk == index:
                text = text[: change.kept] + change.added
                texts.append(text)
                change = next(changes)
            own = sorted(stages.get(index, ()), key=lambda stage: stage.start_s)
            due_s, start_s, done_s = (float(column[index]) for column in (self.due_s, self.start_s, self.done_s))
            yield Chunk(due_s, start_s, done_s, tuple(own), tuple(texts))

    def to_json(self) -> dict[str, Any]:
        """Return the trace as plain lists and numbers."""
        return {
            "audio_s": self.audio_s,
            "chunk_s": self.chunk_s,
            "lookahead_s": self.lookahead_s,
            "due": _rounded(self.due_s),
            "start": _rounded(self.start_s),
            "done": _rounded(self.done_s),
            "stages": {
                "paths": list(self.stages.paths),
                "path": self.stages.path.tolist(),
                "chunk": self.stages.chunk.tolist(),
                "start": _rounded(self.stages.start_s),
                "duration": _rounded(self.stages.duration_s),
            },
            "texts": [list(change) for change in self.texts],
        }


class TraceBuilder:
    """Takes the chunks of a stream as they come, and keeps of each text only what changed."""

    def __init__(self) -> None:
        self._times: list[tuple[float, float, float]] = []
        self._stages: list[tuple[int, Stage]] = []
        self._changes: list[TextChange] = []
        self._text = ""

    def __len__(self) -> int:
        return len(self._times)

    def add(self, chunk: Chunk) -> None:
        """Add the next chunk."""
        index = len(self._times)
        self._times.append((chunk.due_s, chunk.start_s, chunk.done_s))
        self._stages += [(index, stage) for stage in chunk.stages]
        for text in chunk.hypotheses:
            self._changes.append(_change(index, self._text, text))
            self._text = text

    def trace(self, audio_s: float, chunk_s: float, lookahead_s: float) -> Trace:
        """Return the trace of the chunks so far."""
        due_s, start_s, done_s = np.array(self._times, dtype=float).reshape(-1, 3).T
        stages = _stage_columns([(i, stage.path, stage.start_s, stage.duration_s) for i, stage in self._stages])
        return Trace(audio_s, chunk_s, lookahead_s, due_s, start_s, done_s, stages, tuple(self._changes))


def trace_of(audio_s: float, chunk_s: float, lookahead_s: float, chunks: Iterable[Chunk]) -> Trace:
    """Return the trace of these chunks."""
    builder = TraceBuilder()
    for chunk in chunks:
        builder.add(chunk)
    return builder.trace(audio_s, chunk_s, lookahead_s)


def last_text(changes: Sequence[TextChange]) -> str:
    """Return the text after all changes."""
    text = ""
    for change in changes:
        text = text[: change.kept] + change.added
    return text


def trace_from_json(fields: Mapping[str, Any]) -> Trace:
    """Return the trace that `to_json` wrote, now or in format 1; raise ValueError where it cannot have happened."""
    audio_s, chunk_s, lookahead_s = lengths = (fields["audio_s"], fields["chunk_s"], fields["lookahead_s"])
    if not all(isinstance(length, (int, float)) and 0 <= length < np.inf for length in lengths):
        raise ValueError(f"audio_s, chunk_s and lookahead_s are {lengths}")
    times: Any
    if "chunks" in fields:
        times, stages, texts = _first_format(fields["chunks"])
    else:
        times = [fields[name] for name in ("due", "start", "done")]
        own = fields["stages"]
        stages = StageColumns(
            own["paths"],
            np.array(own["path"], dtype=np.int64),
            np.array(own["chunk"], dtype=np.int64),
            np.array(own["start"], dtype=float),
            np.array(own["duration"], dtype=float),
        )
        texts = tuple(map(TextChange._make, fields["texts"]))
    due_s, start_s, done_s = (np.array(column, dtype=float) for column in times)
    trace = Trace(audio_s, chunk_s, lookahead_s, due_s, start_s, done_s, stages, texts)
    _check(trace)
    return trace


def _first_format(chunks: Sequence[Mapping[str, Any]]) -> tuple[Any, StageColumns, tuple[TextChange, ...]]:
    """The columns of a trace that has an object per chunk, with its stages and the whole of its texts."""
    stages = [(index, *stage) for index, chunk in enumerate(chunks) for stage in chunk.get("stages", ())]
    changes, before = [], ""
    for index, chunk in enumerate(chunks):
        for text in chunk.get("text", ()):
            changes.append(_change(index, before, text))
            before = text
    times = [[chunk[name] for chunk in chunks] for name in ("due", "start", "done")]
    return times, _stage_columns(stages), tuple(changes)


def _stage_columns(rows: Sequence[tuple[int, str, float, float]]) -> StageColumns:
    """The columns of rows of chunk, path, start and duration."""
    if not rows:
        none = np.zeros(0, dtype=np.int64)
        return StageColumns((), none, none, np.zeros(0), np.zeros(0))
    chunk, path, start_s, duration_s = zip(*rows, strict=True)
    paths = {name: number for number, name in enumerate(dict.fromkeys(path))}
    return StageColumns(
        tuple(paths),
        np.array([paths[name] for name in path]),
        np.array(chunk),
        np.array(start_s, dtype=float),
        np.array(duration_s, dtype=float),
    )


def _change(chunk: int, before: str, text: str) -> TextChange:
    """The change from one text to the next."""
    if text.startswith(before):
        return TextChange(chunk, len(before), text[len(before) :])
    shared, most = 0, min(len(before), len(text))
    while shared < most:  # the longest common start lies between the two
        middle = (shared + most + 1) // 2
        if text.startswith(before[shared:middle], shared):
            shared = middle
        else:
            most = middle - 1
    return TextChange(chunk, shared, text[shared:])


def _check(trace: Trace) -> None:
    """Raise ValueError where the times or texts of a trace contradict each other."""
    due_s, start_s, done_s = trace.due_s, trace.start_s, trace.done_s
    count = due_s.size
    if not due_s.shape == start_s.shape == done_s.shape == (count,):
        raise ValueError(f"{due_s.size} chunks are due, {start_s.size} start, {done_s.size} are done")
    if not np.isfinite(done_s.sum() + start_s.sum() + due_s.sum()):
        raise ValueError("the time of a chunk is not a number")
    _refuse_any(done_s < start_s, "is done before it starts")
    _refuse_any(due_s < 0, "is due before the stream begins")
    _refuse_any(due_s[1:] < due_s[:-1], "is due after the next one")
    _refuse_any(start_s[1:] < done_s[:-1] - _TOLERANCE_S, "is not done when the next one starts")
    _check_stages(trace.stages, count)
    before, length = 0, 0
    for chunk, kept, added in trace.texts:
        if not (before <= chunk < count and 0 <= kept <= length):
            raise ValueError(f"text {(chunk, kept, added)!r:.60} does not follow from the one before")
        before, length = chunk, kept + len("" + added)


def _check_stages(stages: StageColumns, count: int) -> None:
    size = stages.path.size
    if not stages.path.shape == stages.chunk.shape == stages.start_s.shape == stages.duration_s.shape == (size,):
        raise ValueError("the columns of its stages have different lengths")
    if not all(isinstance(path, str) for path in stages.paths) or len(set(stages.paths)) < len(stages.paths):
        raise ValueError(f"its stages are named {list(stages.paths)!r:.60}")
    if not size:
        return
    for column, most in ((stages.path, len(stages.paths)), (stages.chunk, count)):
        if column.min() < 0 or column.max() >= most:
            raise ValueError("a stage is of a chunk or path that is not there")
    if not (np.isfinite(stages.start_s.sum() + stages.duration_s.sum()) and stages.duration_s.min() >= 0):
        raise ValueError("a stage has a duration below 0, or a time that is not a number")


def _refuse_any(wrong: NDArray[np.bool_], reason: str) -> None:
    if wrong.any():
        raise ValueError(f"chunk {int(wrong.argmax()) + 1} {reason}")


def _rounded(column: Floats) -> list[float]:
    values: list[float] = np.round(column, _DIGITS).tolist()
    return values
