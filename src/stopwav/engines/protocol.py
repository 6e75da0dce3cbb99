"""The interface of an engine. Any class that has these members is an engine: nothing needs to be inherited."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from os import PathLike
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stopwav.errors import StopwavError
from stopwav.speech.audio import Audio
from stopwav.speech.events import Hypothesis

# The size that the recognisers' own examples push; short compared to the half second that a person notices.
DEFAULT_CHUNK_S = 0.1


class DescriptionError(StopwavError):
    """A description of an engine that cannot be."""


@dataclass(frozen=True)
class EngineInfo:
    """The description of an engine: printed with every result and stored in the run file."""

    name: str
    version: str
    sample_rate_hz: int = 16_000
    # How much audio to push at a time, and how much more audio a decision waits for.
    chunk_s: float = DEFAULT_CHUNK_S
    lookahead_s: float = 0.0
    parameters: int | None = None
    device: str = "cpu"
    precision: str = "float32"
    model: str = ""
    # Facts that a reader needs to judge the numbers, such as "random weights".
    notes: tuple[str, ...] = ()
    # Weights that were never trained: times are meaningful, texts and word error rates are not.
    untrained: bool = False
    # The language it recognises, such as `en` or `de`; "" for several or unknown.
    language: str = ""
    # Whether its time depends on what is said, as with any search; then noise cannot replace speech.
    data_dependent: bool = True
    # How many symbols a second untrained weights were set to emit on speech; None where nothing was set.
    symbols_per_s: float | None = None

    def __post_init__(self) -> None:
        """Turn numbers and names of any type into plain ones, which a run file holds, and refuse what cannot be."""
        for field in fields(self):
            object.__setattr__(self, field.name, _plain(field.name, str(field.type), getattr(self, field.name)))
        if not (self.sample_rate_hz > 0 and self.chunk_s > 0 and self.lookahead_s >= 0 and (self.parameters or 0) >= 0):
            raise DescriptionError(
                "EngineInfo: sample_rate_hz and chunk_s must be above 0, lookahead_s and parameters not below; got "
                f"{self.sample_rate_hz}, {self.chunk_s:g}, {self.lookahead_s:g} and {self.parameters}"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values, checked once more: an engine may have changed them since."""
        checked = EngineInfo(**{field.name: getattr(self, field.name) for field in fields(EngineInfo)})
        return {**asdict(checked), "notes": list(checked.notes)}


def _plain(name: str, kind: str, value: object) -> object:
    """The value of a field as a plain one of its kind, whose type is not that of another package."""
    kind, _, optional = kind.partition(" | ")
    if optional and value is None:
        return None
    try:
        return _CONVERSIONS[kind](value)
    except Exception as error:  # a value of another's type may raise anything
        shown = f"of type {type(value).__name__}" if len(_shown(value)) > _SHOWN else _shown(value)
        raise DescriptionError(f"EngineInfo: {name} is {shown}, which is not {_KINDS[kind]}") from error


def _shown(value: object) -> str:
    try:
        return " ".join(repr(value).split())
    except Exception:
        return f"of type {type(value).__name__}"


def _text(value: object) -> str:
    if value is None:
        raise ValueError
    # Such as a path, a device or a precision of torch.
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else f"{value!s}"


def _texts(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping, PathLike)):
        return tuple(map(_text, value))
    return (_text(value),)


def _whole_number(value: object) -> int:
    number = int(operator.index(value))  # type: ignore[arg-type]
    if isinstance(value, bool) or abs(number) > _LARGEST_NUMBER:
        raise ValueError
    return number


def _finite_number(value: object) -> float:
    number = float(value)  # type: ignore[arg-type]
    if isinstance(value, (str, bytes)) or not math.isfinite(number):
        raise ValueError
    return number


def _truth(value: object) -> bool:
    if value is None or isinstance(value, (str, bytes)):
        raise ValueError
    return bool(value)


# What 64 bits hold: beyond it a number is a mistake, and no longer converts to a float.
_LARGEST_NUMBER = 2**63 - 1
# Characters of a value that an error shows.
_SHOWN = 60
_KINDS = {
    "str": "a text",
    "int": "a whole number of at most 64 bits",
    "float": "a finite number",
    "bool": "true or false",
    "tuple[str, ...]": "a list of texts",
}
_CONVERSIONS: dict[str, Callable[[object], object]] = {
    "str": _text,
    "int": _whole_number,
    "float": _finite_number,
    "bool": _truth,
    "tuple[str, ...]": _texts,
}


@dataclass(frozen=True)
class Knob:
    """A setting that might make an engine faster: its options, and why it is not available here, or ""."""

    options: Mapping[str, str | int | float | bool]
    unavailable: str = ""

    @property
    def text(self) -> str:
        """The options as they are written after an engine's name."""
        return ",".join(f"{key}={_format(value)}" for key, value in self.options.items())


def _format(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@runtime_checkable
class Engine(Protocol):
    """An offline recogniser."""

    info: EngineInfo

    def transcribe(self, batch: Sequence[Audio]) -> list[str]:
        """Return the text of each utterance of a batch."""
        ...


@runtime_checkable
class AudioProcessor(Protocol):
    """A model that takes whole utterances and gives no text, such as a classifier; only the grid measures it."""

    info: EngineInfo

    def process(self, batch: Sequence[Audio]) -> object:
        """Process a batch; the result is dropped."""
        ...


class Session(Protocol):
    """One stream through a streaming engine."""

    def push(self, samples: NDArray[np.float32]) -> Sequence[Hypothesis]:
        """Return the hypotheses that this audio made visible: none, one or several; each is the whole text so far."""
        ...

    def finish(self) -> Sequence[Hypothesis]:
        """Return the hypotheses that the end of the audio made visible; the last one is the final text."""
        ...


@runtime_checkable
class StreamingEngine(Protocol):
    """A recogniser that is fed chunk by chunk."""

    info: EngineInfo

    def open(self) -> Session:
        """Return a new stream, independent of all others."""
        ...


@runtime_checkable
class BatchingEngine(StreamingEngine, Protocol):
    """A streaming recogniser that advances many of its streams in one call, faster than one after the other."""

    def advance_all(self, calls: Sequence[tuple[Session, NDArray[np.float32] | None]]) -> list[Sequence[Hypothesis]]:
        """Push samples to each session, or finish it where there are none; return the hypotheses of each call.

        They are those of `push` and `finish`, one session after the other. A session occurs at most once.
        """
        ...
