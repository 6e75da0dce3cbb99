"""The tables of profiling: profiled functions and blocks, and a measured loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stopwav.report.terminal import Section, Sheet, format_seconds
from stopwav.report.text import DASH, format_bytes

if TYPE_CHECKING:
    from stopwav.profiling.call_tracer import CallTracer
    from stopwav.profiling.profile import PeakTotal, Profile
    from stopwav.profiling.steps import Steps

HEADINGS = ("total", "mean", "median", "P95", "share", "peak memory", "added")
DEVICE_HEADINGS = ("device", "tensors at peak", "added")
# Enough to see a pattern (every tenth step, say) without burying the table.
LISTED_STEPS = 20


def call_sheet(profiles: Sequence[Profile]) -> Sheet:
    """Return the table of profiles, longest total first, each with its stages below it."""
    ordered = sorted(profiles, key=lambda profile: profile.total_s, reverse=True)
    section = _profile_section(ordered, "stopwav profile", "calls")
    return Sheet((section,), tuple(note for profile in ordered for note in _profile_notes(profile)))


def step_sheet(steps: Steps) -> Sheet:
    """Return the table of a loop: the active steps with their stages, the control limit and the steps above it."""
    section = _profile_section([steps.profile], "stopwav profile_steps", "steps")
    return Sheet((section,), (*_profile_notes(steps.profile), *_limit_notes(steps), *_trace_notes(steps)))


def _profile_section(profiles: Sequence[Profile], title: str, counted: str) -> Section:
    """Return the table of profiles, with columns for the device where one was used."""
    on_device = any(profile.device_s is not None for profile in profiles)
    headings = (title, counted, *HEADINGS, *(DEVICE_HEADINGS if on_device else ()))
    rows = [row for profile in profiles for row in _profile_rows(profile, on_device)]
    return "", headings, [(*row, *[""] * (len(headings) - len(row))) for row in rows]


def _profile_rows(profile: Profile, on_device: bool) -> Iterator[tuple[str, ...]]:
    """Yield the row of a profile, and one for each of its stages with its share of the total."""
    times = (profile.total_s, profile.mean_s, profile.median.value, profile.p95.value)
    host = _memory(profile.host, profile.calls)
    device = (format_seconds(profile.device_s), *_memory(profile.allocated, profile.calls)) if on_device else ()
    yield (profile.name, str(profile.calls), *map(format_seconds, times), "", *host, *device)
    for path, stage in sorted(profile.stages.items(), key=lambda item: item[0].split("/")):
        share = f"{stage.total_s / profile.total_s:.0%}" if profile.total_s else DASH
        yield (
            *(f"  {path}", str(stage.calls), format_seconds(stage.total_s), format_seconds(stage.mean_s)),
            *("", "", share),
        )


def _profile_notes(profile: Profile) -> Iterator[str]:
    """Yield the notes on a profile's numbers: what is missing, what was left out, what is a lower bound."""
    name, host = profile.name, profile.host
    for label, estimate in (("median", profile.median), ("P95", profile.p95)):
        if estimate.value is None and profile.calls:
            yield f"{DASH}  {name}: {label} {estimate.note}"
    if profile.errors:
        failed = format_seconds(profile.failed_s)
        yield f"!  {name}: {profile.errors} raised, after {failed} in all; not included in the numbers above"
    if profile.traced_calls:
        yield f"   {name}: {profile.traced_calls} under torch.profiler, not included in the numbers above"
    if profile.call_tracer is not None:
        yield from _call_trace_notes(profile.name, profile.call_tracer)
    if profile.inner_calls:
        yield f"   {name}: {profile.inner_calls} recursive calls, included in the time of the outermost"
    if host is not None and not host.exact:
        yield f"≥  {name}: the peak mark cannot be reset here; memory between entry and exit may have been higher"
    if host is not None and host.calls < profile.calls:
        yield f"   {name}: memory was read in {host.calls} of {profile.calls} calls"


def _call_trace_notes(name: str, tracer: CallTracer) -> Iterator[str]:
    yield from _file_notes(tracer.files, tracer.stacks)
    if len(tracer.files) < tracer.planned:
        traces = f"{len(tracer.files)} of {tracer.planned} traces"
        yield f"!  {name}: {traces}; by its schedule the last is of complete call {tracer.calls_needed}"


def _memory(peak: PeakTotal | None, calls: int) -> tuple[str, str]:
    """Return the highest peak and the most that one call added, marked where they are lower bounds."""
    if peak is None:
        return DASH, DASH
    bound = "" if peak.exact and peak.calls >= calls else "≥ "
    return f"{bound}{format_bytes(peak.peak_bytes)}", f"{bound}{format_bytes(peak.over_baseline_bytes)}"


def _limit_notes(steps: Steps) -> list[str]:
    from stopwav.stats.outliers import RANGES_TO_LIMIT

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
    notes += [
        f"!  step {step.index} (cycle {step.cycle}): {format_seconds(step.wall_s)}" for step in above[:LISTED_STEPS]
    ]
    if len(above) > LISTED_STEPS:
        notes.append(f"   … and {len(above) - LISTED_STEPS} more in `above_limit`")
    return notes


def _trace_notes(steps: Steps) -> list[str]:
    if not steps.traces_planned:
        return []
    notes = _file_notes(steps.traces, steps.stacks)
    if len(steps.traces) < steps.traces_planned:
        needed = steps.schedule.steps_of(2 * steps.schedule.repeat)
        notes.append(
            f"!  {len(steps.traces)} of {steps.traces_planned} traces: the loop ended after {steps.index} steps; "
            f"measuring and then tracing take {needed}"
        )
    return notes


def _file_notes(traces: Sequence[Path], stacks: Sequence[Path]) -> list[str]:
    return [f"   trace: {path}" for path in traces] + [f"   stacks for FlameGraph: {path}" for path in stacks]
