"""The table of watched functions and blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stopwav.profiling.profile import PeakTotal, Profile
from stopwav.report.numbers import DASH, format_bytes
from stopwav.report.sheet import Section, Sheet, format_seconds

HEADINGS = ("total", "mean", "median", "P95", "share", "peak memory", "added")
DEVICE_HEADINGS = ("device", "tensors at peak", "added")


def call_sheet(profiles: Sequence[Profile]) -> Sheet:
    """The sheet: a line for each profile, the one that took longest first, with its stages below it."""
    ordered = sorted(profiles, key=lambda one: one.total_s, reverse=True)
    section = profile_section(ordered, "stopwav profile", "calls")
    return Sheet((section,), tuple(note for one in ordered for note in profile_notes(one)))


def profile_section(profiles: Sequence[Profile], title: str, counted: str) -> Section:
    """The table of profiles, with columns for the device where one was in use."""
    on_device = any(one.device_s is not None for one in profiles)
    headings = (title, counted, *HEADINGS, *(DEVICE_HEADINGS if on_device else ()))
    rows = [row for one in profiles for row in _rows(one, on_device)]
    return "", headings, [(*row, *[""] * (len(headings) - len(row))) for row in rows]


def profile_notes(one: Profile) -> Iterator[str]:
    """What is to be said beside a profile's numbers: what is missing, what was left out, what is a lower bound."""
    for label, estimate in (("median", one.median), ("P95", one.p95)):
        if estimate.value is None and one.calls:
            yield f"{DASH}  {one.name}: {label} {estimate.note}"
    if one.errors:
        yield f"!  {one.name}: {one.errors} raised, after {format_seconds(one.failed_s)} in all; in no number above"
    if one.inner_calls:
        yield f"   {one.name}: {one.inner_calls} more inside itself, within the time of the outermost"
    if one.host is not None and not one.host.exact:
        yield f"≥  {one.name}: the peak mark cannot be reset here; memory between entry and exit may have been higher"
    if one.host is not None and one.host.calls < one.calls:
        yield f"   {one.name}: memory was read in {one.host.calls} of {one.calls} calls"


def _rows(one: Profile, on_device: bool) -> Iterator[tuple[str, ...]]:
    """The line of a profile, and one for each of its stages with its share of the total."""
    times = (one.total_s, one.mean_s, one.median.value, one.p95.value)
    device = (format_seconds(one.device_s), *_memory(one.allocated, one.calls)) if on_device else ()
    yield (one.name, str(one.calls), *map(format_seconds, times), "", *_memory(one.host, one.calls), *device)
    for path, stage in sorted(one.stages.items(), key=lambda item: item[0].split("/")):
        share = f"{stage.total_s / one.total_s:.0%}" if one.total_s else DASH
        spent = (format_seconds(stage.total_s), format_seconds(stage.mean_s))
        yield (f"  {path}", str(stage.calls), *spent, "", "", share)


def _memory(peak: PeakTotal | None, calls: int) -> tuple[str, str]:
    """The highest peak and the most that one of the calls added, as lower bounds where they are."""
    if peak is None:
        return DASH, DASH
    bound = "" if peak.exact and peak.calls >= calls else "≥ "
    return f"{bound}{format_bytes(peak.peak_bytes)}", f"{bound}{format_bytes(peak.over_baseline_bytes)}"
