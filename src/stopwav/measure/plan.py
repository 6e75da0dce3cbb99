"""The plan of a measurement, chosen before any number is seen."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite
from numbers import Integral, Real

from stopwav.errors import StopwavError

_WHOLE = ("rounds", "min_values", "max_values", "seed", "memory_limit_bytes")
# A round may do without a warm-up, and stop as soon as it has its values.
_MAY_BE_ZERO = ("warmup_s", "min_values_s")


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
    # Energy takes windows of seconds of its own: asked for, not taken by default.
    energy: bool = False
    # Bytes a round's process may take from the host before it is recorded as `oom`; no limit where it is None.
    memory_limit_bytes: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "energy" or (value is None and field.default is None):
                continue
            whole = field.name in _WHOLE
            number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
            if not number or not isfinite(value):
                kind = "a whole number" if whole else "a finite number"
                raise StopwavError(f"plan: {field.name}={value!r} is not {kind}; leave it out for {field.default!r}")
            if field.name != "seed" and (value < 0 or (value == 0 and field.name not in _MAY_BE_ZERO)):
                least = "0 or more" if field.name in _MAY_BE_ZERO else "greater than 0"
                raise StopwavError(f"plan: {field.name}={value!r} must be {least}; leave it out for {field.default!r}")
        if self.max_values < self.min_values:
            raise StopwavError(
                f"plan: max_values={self.max_values} is below min_values={self.min_values}; raise it or lower the other"
            )


QUICK = Plan(rounds=1)
REPORT = Plan(rounds=3)
# 10 interleaved rounds find a 3 % change 99.8 % of the time on a noisy 2-core machine (docs/concepts/statistics.md).
COMPARISON = Plan(rounds=10)
