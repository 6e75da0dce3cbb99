"""A workload: one thing to time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from stopwav.errors import StopwavError

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
        for part in ("name", "params"):
            if not hasattr(thing, part):
                raise StopwavError(f"measure: {thing!r} has a `setup` and no `{part}`; a workload has both")
        return thing  # type: ignore[return-value]
    if not callable(thing):
        raise StopwavError(f"measure: {thing!r} is not a function; give one, or a workload with a `setup`")
    if inspect.iscoroutinefunction(thing):
        raise StopwavError(f"measure: {thing!r} is asynchronous: calling it runs nothing; wrap it in asyncio.run(…)")
    if inspect.isgeneratorfunction(thing) or inspect.isasyncgenfunction(thing):
        raise StopwavError(f"measure: {thing!r} is a generator: calling it runs nothing; measure what consumes it")
    return FunctionWorkload(thing, getattr(thing, "__name__", repr(thing)))
