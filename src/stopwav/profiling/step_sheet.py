"""The table of a measured loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stopwav.profiling.call_sheet import profile_notes, profile_section
from stopwav.report.numbers import DASH
from stopwav.report.sheet import Sheet, format_seconds
from stopwav.stats.outliers import RANGES_TO_LIMIT

if TYPE_CHECKING:
    from stopwav.profiling.steps import Steps

# Enough to see a pattern (every tenth step, say) without burying the table.
LISTED_STEPS = 20


def step_sheet(steps: Steps) -> Sheet:
    """The sheet: the active steps with their stages, then the control limit and what lies above it."""
    section = profile_section([steps.profile], "stopwav profile_steps", "steps")
    return Sheet((section,), (*profile_notes(steps.profile), *_limit_notes(steps), *_trace_notes(steps)))


def _limit_notes(steps: Steps) -> list[str]:
    chart = steps.chart
    if not steps.active:
        first = steps.schedule.first_active
        return [f"{DASH}  no active step: the loop ended after {steps.index}, and the first active one is step {first}"]
    if chart.limit is None:
        return [f"{DASH}  upper control limit: {chart.note}"]
    limit, mean, spread = map(format_seconds, (chart.limit, chart.mean, chart.moving_range))
    notes = [
        f"   upper control limit: {limit} = {mean} + {RANGES_TO_LIMIT} · {spread} (mean + 2.66 · mean moving range)",
        f"   {len(chart.above)} of {chart.n} steps above it",
    ]
    if chart.note:
        notes.insert(1, f"!  the limit is {chart.note}")
    above = steps.above_limit
    notes += [f"!  step {one.index} (cycle {one.cycle}): {format_seconds(one.wall_s)}" for one in above[:LISTED_STEPS]]
    if len(above) > LISTED_STEPS:
        notes.append(f"   … and {len(above) - LISTED_STEPS} more in `above_limit`")
    return notes


def _trace_notes(steps: Steps) -> list[str]:
    if not steps.traces_planned:
        return []
    notes = [f"   trace: {path}" for path in steps.traces]
    if len(steps.traces) < steps.traces_planned:
        needed = steps.schedule.steps_of(2 * steps.schedule.repeat)
        notes.append(
            f"!  {len(steps.traces)} of {steps.traces_planned} traces: the loop ended after {steps.index} steps; "
            f"measuring and then tracing take {needed}"
        )
    return notes
