"""What an engine must do to be measured. A class that has these members is an engine: nothing needs to be inherited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stopwav.speech.audio import Audio
from stopwav.speech.events import Hypothesis

# What the recognisers' own examples push at a time, and short beside the half second in which a person notices a wait.
DEFAULT_CHUNK_S = 0.1


@dataclass(frozen=True)
class EngineInfo:
    """What an engine is: printed with every result and kept in the run file."""

    name: str
    version: str
    sample_rate_hz: int = 16_000
    # How much audio it wants to be pushed at a time, and how much beyond that a decision waits for.
    chunk_s: float = DEFAULT_CHUNK_S
    lookahead_s: float = 0.0
    parameters: int | None = None
    device: str = "cpu"
    precision: str = "float32"
    model: str = ""
    # What a reader must know to judge the numbers, such as "random weights".
    notes: tuple[str, ...] = ()
    # Weights that were never trained: times mean something, texts and word error rates do not.
    untrained: bool = False
    # The language it recognises, as `en` or `de`; "" where it recognises several or does not say.
    language: str = ""
    # Whether how long it takes depends on what is said, as with any search; noise is then no stand-in for speech.
    data_dependent: bool = True

    def to_json(self) -> dict[str, Any]:
        """The fields as plain values."""
        return {**asdict(self), "notes": list(self.notes)}


@dataclass(frozen=True)
class Knob:
    """A setting of an engine that might make it quicker: its options, and why it cannot be tried here, or ""."""

    options: Mapping[str, str | int | float | bool]
    unavailable: str = ""

    @property
    def text(self) -> str:
        """The options as they are written behind an engine's name."""
        return ",".join(f"{key}={_written(value)}" for key, value in self.options.items())


def _written(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@runtime_checkable
class Engine(Protocol):
    """An offline recogniser."""

    info: EngineInfo

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """The text of each utterance of a batch."""
        ...


class Session(Protocol):
    """One stream through a streaming engine."""

    def push(self, samples: NDArray[np.float32]) -> Sequence[Hypothesis]:
        """The hypotheses that became visible by this audio: none, one, or several; each is the whole text so far."""
        ...

    def finish(self) -> Sequence[Hypothesis]:
        """The hypotheses that became visible by the end of the audio; the last one is the final text."""
        ...


@runtime_checkable
class StreamingEngine(Protocol):
    """A recogniser that is fed chunk by chunk."""

    info: EngineInfo

    def open(self) -> Session:
        """A new stream that shares nothing with any other."""
        ...
