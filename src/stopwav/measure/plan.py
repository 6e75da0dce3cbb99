"""The plan of a measurement, chosen before any number is seen."""

from __future__ import annotations

from dataclasses import dataclass, fields

from stopwav.errors import StopwavError


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
            free = field.name in ("energy", "seed", "warmup_s", "min_values_s") or value is None
            if not free and not value > 0:
                raise StopwavError(f"plan: {field.name}={value!r} must be greater than 0")
        if self.max_values < self.min_values:
            raise StopwavError(f"plan: max_values={self.max_values} is below min_values={self.min_values}")


QUICK = Plan(rounds=1)
REPORT = Plan(rounds=3)
# 10 interleaved rounds find a 3 % change 99.8 % of the time on a noisy 2-core machine (docs/concepts/statistics.md).
COMPARISON = Plan(rounds=10)
