"""A workload: one thing to time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

Scalar = str | int | float | bool | None


class Workload(Protocol):
    """One thing to time: `setup` is untimed, runs in the fresh process, and returns the call that is timed."""

    @property
    def name(self) -> str: ...

    @property
    def params(self) -> Mapping[str, Scalar]: ...

    def setup(self) -> Callable[[], object]: ...


@dataclass(frozen=True)
class FunctionWorkload:
    """A plain function as a workload that needs no set-up."""

    function: Callable[[], object]
    name: str
    params: Mapping[str, Scalar] = field(default_factory=dict)

    def setup(self) -> Callable[[], object]:
        """The function itself."""
        return self.function


def as_workload(thing: Workload | Callable[[], object]) -> Workload:
    """The thing itself where it is a workload; a plain function wrapped as one."""
    if hasattr(thing, "setup"):
        return thing  # type: ignore[return-value]
    return FunctionWorkload(thing, getattr(thing, "__name__", repr(thing)))
