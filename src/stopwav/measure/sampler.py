"""The samples of one round: first call, warm-up, loops, values, stop rule. No other loop repeats a call to time it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from stopwav.errors import Caution
from stopwav.measure.clock import Clock, Timing
from stopwav.measure.plan import Plan

# Caches, allocators and just-in-time compilers settle within a few calls; a process that has not settled after this
# many, or after half a minute, is measured as it is, with the warning `not-warm`.
MIN_WARMUP_CALLS = 3
MAX_WARMUP_CALLS = 20
MAX_WARMUP_S = 30.0
# The clock's own cost, about 1 µs, is a ten-thousandth of the shortest value.
MIN_VALUE_S = 0.010
# Values are added five at a time: testing the stop rule after each one would stop on lucky streaks more often.
STEP = 5
# Drift between the last and the middle third of the warm-up above which the warning `not-warm` is given.
WARM_TOLERANCE = 0.05


@dataclass(frozen=True)
class Samples:
    """The times of one round, in seconds per iteration: its first call, its warm-up and each value."""

    first_s: float
    warmup_s: tuple[float, ...]
    loops: int
    values_s: tuple[float, ...]
    device_values_s: tuple[float, ...]
    stages_s: tuple[dict[str, float], ...]
    cautions: tuple[Caution, ...]


def load_statistics() -> None:
    """Load what the stop rule needs, so that it is not counted as memory of the workload."""
    import statistics

    # Used once, since NumPy imports some of its parts when they are first needed.
    _is_precise([Timing(float(value), None, (), None) for value in range(1, 11)], 0.0)
    del statistics


def sample(call: Callable[[], object], clock: Clock, plan: Plan) -> Samples:
    """Take the samples of one round of `call`."""
    first_s = time_calls(call, 1, clock).wall_s
    warmup_s, cautions = warm_up(call, clock, plan)
    loops = choose_loops(call, clock)
    timings = _take_values(call, loops, clock, plan)
    return Samples(
        first_s=first_s,
        warmup_s=warmup_s,
        loops=loops,
        values_s=tuple(timing.wall_s / loops for timing in timings),
        device_values_s=tuple(timing.device_s / loops for timing in timings if timing.device_s is not None),
        stages_s=tuple({path: total / loops for path, total in timing.stages.items()} for timing in timings),
        cautions=cautions,
    )


def warm_up(call: Callable[[], object], clock: Clock, plan: Plan) -> tuple[tuple[float, ...], tuple[Caution, ...]]:
    """Warm up and return the seconds of each call, with a caution if the process was still changing."""
    values_s: list[float] = []
    while len(values_s) < MAX_WARMUP_CALLS and sum(values_s) < MAX_WARMUP_S:
        if len(values_s) >= MIN_WARMUP_CALLS and sum(values_s) >= plan.warmup_s:
            break
        values_s.append(time_calls(call, 1, clock).wall_s)
    return tuple(values_s), _warmup_cautions(values_s)


def _warmup_cautions(values_s: list[float]) -> tuple[Caution, ...]:
    from statistics import median

    third = len(values_s) // 3
    # One value against one other is noise on any shared machine.
    if third < 2:
        return ()
    middle, last = median(values_s[third : 2 * third]), median(values_s[2 * third :])
    if middle > 0 and abs(last / middle - 1) > WARM_TOLERANCE:
        change = f"{last / middle - 1:+.0%}"
        return (Caution("not-warm", f"the end of the warm-up differs from its middle by {change}; warm up longer"),)
    return ()


def choose_loops(call: Callable[[], object], clock: Clock) -> int:
    """Return the iterations per value: 1 for calls of 10 ms or more, else doubled until a value takes that long.

    A call whose inputs cannot be prepared for twice as many iterations has shorter values.
    """
    loops = 1
    # Such a clock prepares each call, and its events resolve a short one.
    if getattr(clock, "one_at_a_time", False):
        return loops
    while time_calls(call, loops, clock).wall_s < MIN_VALUE_S and _prepare(call, 2 * loops):
        loops *= 2
        # With a fake clock that stands still this would never end.
        if loops >= 1 << 24:
            break
    return loops


def time_calls(call: Callable[[], object], count: int, clock: Clock) -> Timing:
    """Time a call so many times in a row; their inputs, where the call makes its own, are prepared before."""
    _prepare(call, count)
    return clock.time(call if count == 1 else partial(_repeat, call, count))


def _prepare(call: Callable[[], object], count: int) -> bool:
    """Have a call prepare the inputs of its next calls, and return whether it did so for all; most have none."""
    prepare: Callable[[int], int] | None = getattr(call, "prepare_calls", None)
    return prepare is None or prepare(count) >= count


def _repeat(call: Callable[[], object], loops: int) -> None:
    for _ in range(loops):
        call()


def _take_values(call: Callable[[], object], loops: int, clock: Clock, plan: Plan) -> list[Timing]:
    timings: list[Timing] = []
    spent_s = 0.0
    while True:
        timing = time_calls(call, loops, clock)
        # The result may be as large as the model's output: it is not kept while others are timed.
        timings.append(Timing(timing.wall_s, timing.device_s, timing.spans, None))
        spent_s += timing.wall_s
        count = len(timings)
        if count >= plan.max_values or spent_s >= plan.max_values_s:
            return timings
        enough = count >= plan.min_values and spent_s >= plan.min_values_s
        if enough and (count - plan.min_values) % STEP == 0 and _is_precise(timings, plan.precision):
            return timings


def _is_precise(timings: list[Timing], precision: float) -> bool:
    from stopwav.stats import median_interval

    median, low, high = median_interval([timing.wall_s for timing in timings])
    return low is not None and high is not None and (high - low) / 2 <= precision * median
