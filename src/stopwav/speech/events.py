"""The trace of one stream: when each chunk was due, started and done, its stages, and the texts that were shown.

In a process, a text is shown when the chunk that returned it is done. Behind a protocol a chunk is sent, which takes no
time of ours, and texts arrive when they arrive: the trace is `remote`, and each text has a time of its own.

A trace is kept by column, and its texts as what changed: partials mostly repeat each other, and an hour of them in full
would take gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Nanoseconds: finer than any clock used here, and rounding keeps `start = max(due, previous done)` exact.
_DIGITS = 9


@dataclass(frozen=True)
class Hypothesis:
    """The whole text of a stream as a listener sees it at one moment."""

    text: str
    # Whether the engine says by it that the utterance is over, before the end of the audio says so.
    endpoint: bool = False


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
    # Whether the engine said with this chunk that the utterance is over.
    endpoint: bool = False

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
    """A text and the chunk that returned it, or behind which it arrived: what it keeps of the text before, and adds."""

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


@dataclass(frozen=True)
class RemoteFacts:
    """What is known of the way to a server: half of a round trip, where it was measured, and the server's own queue.

    The queue has one value per text, in seconds, where the server reports it.
    """

    network_s: float | None = None
    queue_s: tuple[float, ...] = ()


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
    # When each text was shown, and when the engine or server said that the utterance is over.
    text_s: Floats
    endpoints_s: tuple[float, ...] = ()
    # Of a stream behind a protocol, what is known of the way there; chunks start when they are sent, and take no time.
    remote: RemoteFacts | None = None

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
        lengths = {"audio_s": self.audio_s, "chunk_s": self.chunk_s, "lookahead_s": self.lookahead_s}
        endpoints = {"endpoints": _rounded(np.array(self.endpoints_s))} if self.endpoints_s else {}
        texts = {"texts": [list(change) for change in self.texts]}
        if self.remote is not None:
            # Without `start` and `done`: a version that knows no servers must not take it for a stream in a process.
            return {
                **lengths,
                "due": _rounded(self.due_s),
                "sent": _rounded(self.start_s),
                **texts,
                "arrivals": _rounded(self.text_s),
                **endpoints,
                "network_s": self.remote.network_s,
                "server_queue": list(self.remote.queue_s),
            }
        return {
            **lengths,
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
            **texts,
            **endpoints,
        }


class TraceBuilder:
    """Takes the chunks of a stream as they come, and keeps of each text only what changed."""

    def __init__(self) -> None:
        self._times: list[tuple[float, float, float]] = []
        self._stages: list[tuple[int, Stage]] = []
        self._changes: list[TextChange] = []
        self._endpoints_s: list[float] = []
        self._text = ""

    def __len__(self) -> int:
        return len(self._times)

    def add(self, chunk: Chunk) -> None:
        """Add the next chunk."""
        index = len(self._times)
        self._times.append((chunk.due_s, chunk.start_s, chunk.done_s))
        self._stages += [(index, stage) for stage in chunk.stages]
        for text in chunk.hypotheses:
            self._changes.append(text_change(index, self._text, text))
            self._text = text
        if chunk.endpoint:
            self._endpoints_s.append(chunk.done_s)

    def trace(self, audio_s: float, chunk_s: float, lookahead_s: float) -> Trace:
        """Return the trace of the chunks so far."""
        due_s, start_s, done_s = np.array(self._times, dtype=float).reshape(-1, 3).T
        rows = [(index, stage.path, stage.start_s, stage.duration_s) for index, stage in self._stages]
        paths, path, chunk, stage_start_s, duration_s = stage_lists(rows)
        stages = StageColumns(
            tuple(paths),
            np.array(path, dtype=np.int64),
            np.array(chunk, dtype=np.int64),
            np.array(stage_start_s, dtype=float),
            np.array(duration_s, dtype=float),
        )
        texts, endpoints_s = tuple(self._changes), tuple(self._endpoints_s)
        times = due_s, start_s, done_s
        text_s = shown_at(done_s, texts)
        return Trace(audio_s, chunk_s, lookahead_s, *times, stages, texts, text_s, endpoints_s)


def remote_trace(
    lengths_s: tuple[float, float, float],
    due_s: Sequence[float],
    sent_s: Sequence[float],
    texts: Sequence[tuple[float, str]],
    endpoints_s: Sequence[float],
    remote: RemoteFacts,
) -> Trace:
    """Return the trace of a stream behind a protocol; `lengths_s` are those of audio, chunk and look-ahead.

    Texts come with their times of arrival, in that order; each belongs to the last chunk that was sent before.
    """
    sent = np.array(sent_s, dtype=float)
    changes, before = [], ""
    for at_s, text in texts:
        chunk = max(0, int(np.searchsorted(sent, at_s, side="right")) - 1)
        changes.append(text_change(chunk, before, text))
        before = text
    none = np.zeros(0, dtype=np.int64)
    stages = StageColumns((), none, none, np.zeros(0), np.zeros(0))
    arrivals_s = np.array([at_s for at_s, _ in texts], dtype=float)
    due = np.array(due_s, dtype=float)
    return Trace(*lengths_s, due, sent, sent, stages, tuple(changes), arrivals_s, tuple(endpoints_s), remote)


def shown_at(done_s: Floats, texts: Sequence[TextChange]) -> Floats:
    """Return when each text of a stream in a process was shown: when its chunk was done."""
    return done_s[np.array([change.chunk for change in texts], dtype=np.int64)] if texts else np.zeros(0)


def trace_of(audio_s: float, chunk_s: float, lookahead_s: float, chunks: Iterable[Chunk]) -> Trace:
    """Return the trace of these chunks."""
    builder = TraceBuilder()
    for chunk in chunks:
        builder.add(chunk)
    return builder.trace(audio_s, chunk_s, lookahead_s)


def stage_lists(
    rows: Sequence[tuple[int, str, float, float]],
) -> tuple[list[str], list[int], list[int], list[float], list[float]]:
    """Return the paths, and of each execution its path, chunk, start and duration; rows are chunk, path and times."""
    if not rows:
        return [], [], [], [], []
    chunk, path, start_s, duration_s = map(list, zip(*rows, strict=True))
    paths = {name: number for number, name in enumerate(dict.fromkeys(path))}
    return list(paths), [paths[name] for name in path], chunk, start_s, duration_s


def last_text(changes: Sequence[TextChange]) -> str:
    """Return the text after all changes."""
    text = ""
    for change in changes:
        text = text[: change.kept] + change.added
    return text


def text_change(chunk: int, before: str, text: str) -> TextChange:
    """Return the change from one text to the next."""
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


def _rounded(column: Floats) -> list[float]:
    values: list[float] = np.round(column, _DIGITS).tolist()
    return values
