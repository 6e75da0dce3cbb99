"""A workload, the thing to measure, and the plan of its measurement, chosen before any number is seen."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from math import isfinite
from numbers import Integral, Real
from typing import Protocol

from stopwav.errors import StopwavError

Scalar = str | int | float | bool | None

_WHOLE = ("rounds", "min_values", "max_values", "seed", "memory_limit_bytes")
# A round may do without a warm-up, and stop as soon as it has its values.
_MAY_BE_ZERO = ("warmup_s", "min_values_s")


class Workload(Protocol):
    """One thing to time: `setup` is untimed, runs in the fresh process, and returns the call that is timed.

    The call may have a method `prepare_calls(count)`, which makes the inputs of its next calls before they are timed,
    and returns for how many of them it did.
    """

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
        """Return the function itself."""
        return self.function


def as_workload(thing: Workload | Callable[[], object]) -> Workload:
    """Return a workload as it is, and a plain function wrapped as one."""
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


@dataclass(frozen=True)
class Plan:
    """How many rounds, how many values, and when a round may stop. METHOD: docs/concepts/method.md."""

    # 3 is the fewest rounds that have a Student interval worth the name.
    rounds: int = 3
    min_values: int = 10
    max_values: int = 100
    # Half-width of the 95 % interval of a round's median at which it stops, as a share of the median.
    precision: float = 0.02
    warmup_s: float = 1.0
    # A round that takes longer is killed and recorded as `timeout`.
    time_limit_s: float = 300.0
    seed: int = 0
    min_values_s: float = 1.0
    max_values_s: float = 20.0
    # Off by default: energy takes separate windows of several seconds.
    energy: bool = False
    # Seconds that first call, warm-up and values together should take: how many calls that is, is chosen from what the
    # first took. None is no such limit.
    visit_s: float | None = None
    # Bytes of host memory at which a round's process is recorded as `oom`; None is no limit.
    memory_limit_bytes: int | None = None

    def __post_init__(self) -> None:
        for field_ in fields(self):
            value = getattr(self, field_.name)
            if field_.name == "energy" or (value is None and field_.default is None):
                continue
            whole = field_.name in _WHOLE
            is_number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
            hint = f"leave it out for {field_.default!r}"
            if not is_number or not isfinite(value):
                kind = "a whole number" if whole else "a finite number"
                raise StopwavError(f"plan: {field_.name}={value!r} is not {kind}; {hint}")
            if field_.name != "seed" and (value < 0 or (value == 0 and field_.name not in _MAY_BE_ZERO)):
                least = "0 or more" if field_.name in _MAY_BE_ZERO else "greater than 0"
                raise StopwavError(f"plan: {field_.name}={value!r} must be {least}; {hint}")
        if self.max_values < self.min_values:
            raise StopwavError(
                f"plan: max_values={self.max_values} is below min_values={self.min_values}; raise it or lower the other"
            )


QUICK = Plan(rounds=1)
REPORT = Plan(rounds=3)
# 10 interleaved rounds find a 3 % change 99.8 % of the time on a noisy 2-core machine (docs/concepts/statistics.md).
COMPARISON = Plan(rounds=10)
