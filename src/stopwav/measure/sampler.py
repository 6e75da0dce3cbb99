"""The samples of one round: first call, warm-up, loops, values, stop rule. No other loop repeats a call to time it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from stopwav.errors import Caution
from stopwav.measure.clock import Clock, Timing
from stopwav.measure.plan import Plan

# Caches, allocators and just-in-time compilers settle within a few calls; a process that has not settled after this
# many, or after half a minute, is measured as it is, with the warning `not-warm`.
MIN_WARMUP_CALLS = 3
MAX_WARMUP_CALLS = 20
MAX_WARMUP_S = 30.0
# Of a visit with a time limit, one part in so many is warm-up, and the rest is values.
WARMUP_PART = 4
# More calls than any visit makes.
MAX_CALLS = 10**6
# The clock's own cost, about 1 µs, is a ten-thousandth of the shortest value.
MIN_VALUE_S = 0.010
# Values are added five at a time: testing the stop rule after each one would stop on lucky streaks more often.
STEP = 5
# Drift between the last and the middle third of the warm-up above which the warning `not-warm` is given.
WARM_TOLERANCE = 0.05
# The code of the warning about a value that is the first call of a visit.
ONE_CALL = "one-call"


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


def sample(call: Callable[[], object], clock: Clock, plan: Plan, first: Timing | None = None) -> Samples:
    """Take the samples of one round of `call`: with `plan.visit_s`, as many as that has time for, at least one.

    `first` is the first call, where it has been made already.
    """
    if first is None:
        first = time_calls(call, 1, clock)
    first_s = first.wall_s
    calls = MAX_CALLS if plan.visit_s is None else _calls_left(plan.visit_s, first_s)
    if calls == 0:
        return _one_call(first)
    plan = _sized(plan, calls, first_s)
    warmup_s, cautions = warm_up(call, clock, plan, min(MIN_WARMUP_CALLS, calls // WARMUP_PART))
    # Of few calls none is spent on what is known: how long one takes.
    is_long = plan.visit_s is not None and min((first_s, *warmup_s)) >= 2 * MIN_VALUE_S
    loops = 1 if is_long else choose_loops(call, clock)
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


def _calls_left(visit_s: float, first_s: float) -> int:
    """How many more calls a visit has time for, if they take as long as the first."""
    return min(MAX_CALLS, int((visit_s - first_s) / first_s)) if 0 < first_s < visit_s else 0


def _sized(plan: Plan, calls: int, first_s: float) -> Plan:
    """The plan with as much warm-up and as many values as the visit has time for."""
    if plan.visit_s is None:
        return plan
    warmup_s = min(plan.warmup_s, (plan.visit_s - first_s) / WARMUP_PART)
    values_s = plan.visit_s - first_s - warmup_s
    return replace(
        plan,
        warmup_s=warmup_s,
        min_values=min(plan.min_values, max(1, calls - calls // WARMUP_PART)),
        min_values_s=min(plan.min_values_s, values_s),
        max_values_s=min(plan.max_values_s, values_s),
    )


def _one_call(first: Timing) -> Samples:
    """The samples of a visit that has time for its first call alone, which then is its value too."""
    message = "a call takes longer than its share of the budget: its first call is the value, without a warm-up"
    return Samples(
        first_s=first.wall_s,
        warmup_s=(),
        loops=1,
        values_s=(first.wall_s,),
        device_values_s=() if first.device_s is None else (first.device_s,),
        stages_s=(dict(first.stages),),
        cautions=(Caution(ONE_CALL, message),),
    )


def warm_up(
    call: Callable[[], object], clock: Clock, plan: Plan, min_calls: int = MIN_WARMUP_CALLS
) -> tuple[tuple[float, ...], tuple[Caution, ...]]:
    """Warm up and return the seconds of each call, with a caution if the process was still changing."""
    values_s: list[float] = []
    while len(values_s) < MAX_WARMUP_CALLS and sum(values_s) < MAX_WARMUP_S:
        if len(values_s) >= min_calls and sum(values_s) >= plan.warmup_s:
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
