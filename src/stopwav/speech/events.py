"""The trace of one stream: when each chunk was due, started and done, its stages, and the texts it returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Nanoseconds: finer than any clock used here, and rounding keeps `start = max(due, previous done)` exact.
_DIGITS = 9


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


@dataclass(frozen=True)
class Trace:
    """One stream: its chunks in order, the last of which is the call that ended it (no new audio, due at the end)."""

    audio_s: float
    chunk_s: float
    lookahead_s: float
    chunks: tuple[Chunk, ...]

    @property
    def finish(self) -> Chunk:
        """The call that ended the stream."""
        return self.chunks[-1]

    @property
    def text(self) -> str:
        """The final text: the last hypothesis shown, or ""."""
        return next((chunk.hypotheses[-1] for chunk in reversed(self.chunks) if chunk.hypotheses), "")

    def to_json(self) -> dict[str, Any]:
        """Return the trace as plain lists and numbers."""
        return {
            "audio_s": self.audio_s,
            "chunk_s": self.chunk_s,
            "lookahead_s": self.lookahead_s,
            "chunks": [_chunk_to_json(chunk) for chunk in self.chunks],
        }


def trace_from_json(fields: dict[str, Any]) -> Trace:
    """Return the trace that `to_json` wrote."""
    chunks = tuple(
        Chunk(
            chunk["due"],
            chunk["start"],
            chunk["done"],
            tuple(Stage(*stage) for stage in chunk.get("stages", ())),
            tuple(chunk.get("text", ())),
        )
        for chunk in fields["chunks"]
    )
    return Trace(fields["audio_s"], fields["chunk_s"], fields["lookahead_s"], chunks)


def _chunk_to_json(chunk: Chunk) -> dict[str, Any]:
    times = {"due": chunk.due_s, "start": chunk.start_s, "done": chunk.done_s}
    fields: dict[str, Any] = {name: round(value, _DIGITS) for name, value in times.items()}
    if chunk.stages:
        fields["stages"] = [[s.path, round(s.start_s, _DIGITS), round(s.duration_s, _DIGITS)] for s in chunk.stages]
    if chunk.hypotheses:
        fields["text"] = list(chunk.hypotheses)
    return fields
