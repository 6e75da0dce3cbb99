"""An energy meter: counters of joules, sensors of power, or NoMeter with the reason where there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# NVML updates its power about every 100 ms, so that reading twice as often misses none; forty readings in the shortest
# window. A reading takes well below a millisecond, so the work loses less than 2 % to it, in a pass that times nothing.
SAMPLE_S = 0.05


@dataclass(frozen=True)
class Counter:
    """One energy counter: microjoules that only increase, until they wrap at the range (if it has one).

    A sensor that reports power alone has no `read_uj`: its joules are the integral of its samples.
    """

    part: str
    read_uj: Callable[[], int] | None  # raises OSError, with the reason, once it cannot be read
    range_uj: int | None = None
    # The power now, in watts, where the hardware reports it; next to a counter it is a cross-check. Raises OSError too.
    read_w: Callable[[], float] | None = None

    def spent_uj(self, before_uj: int, after_uj: int) -> int | None:
        """Return the microjoules between two readings less than one range apart, or None when it went back."""
        if after_uj >= before_uj:
            return after_uj - before_uj
        return None if self.range_uj is None else after_uj - before_uj + self.range_uj


@dataclass(frozen=True)
class Meter:
    """Counters that are read together."""

    source: str
    counters: tuple[Counter, ...]
    tick_s: float
    min_window_s: float = 0.0
    # How often power is sampled.
    sample_s: float = SAMPLE_S

    def has_only_power(self, part: str) -> bool:
        """Return whether a part has no counter, so that its joules come from sampled power."""
        return any(counter.part == part and counter.read_uj is None for counter in self.counters)

    @property
    def parts(self) -> tuple[str, ...]:
        """The metered parts, each once."""
        return tuple(dict.fromkeys(counter.part for counter in self.counters))


@dataclass(frozen=True)
class NoMeter:
    """A meter that is not available, and the reason. It has no parts and gives no number."""

    reason: str
    source: str = "energy"

    @property
    def parts(self) -> tuple[str, ...]:
        """No parts."""
        return ()


@dataclass(frozen=True)
class Meters:
    """The meters of this machine, those that are missing, and the parts whose sum is the machine's total."""

    found: tuple[Meter, ...]
    missing: tuple[NoMeter, ...]
    whole: tuple[str, ...]

    def joined(self) -> Meter | NoMeter:
        """Join them into one meter: all but the battery read together, else it, else NoMeter with every reason."""
        chosen = [meter for meter in self.found if "battery" not in meter.parts] or list(self.found)
        if not chosen:
            return NoMeter("; ".join(f"{meter.source}: {meter.reason}" for meter in self.missing))
        return Meter(
            source=" + ".join(meter.source for meter in chosen),
            counters=tuple(counter for meter in chosen for counter in meter.counters),
            tick_s=max(meter.tick_s for meter in chosen),
            min_window_s=max(meter.min_window_s for meter in chosen),
            sample_s=max(meter.sample_s for meter in chosen),
        )
