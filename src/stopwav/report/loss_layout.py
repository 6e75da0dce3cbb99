"""The results of a loss run as the table that the field knows, for the terminal, Markdown and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stopwav.record import Result
from stopwav.report.numbers import DASH, format_bytes, format_interval, format_value
from stopwav.report.plain import plain

WRONG = "✗"
APPROXIMATE = "~"

_FAILED = {"oom": "OOM", "timeout": "timeout", "error": "error", "skipped": "not run"}
# The peak that runs out first: the device's where there is one.
_PEAKS = ("peak_allocated_over_inputs_bytes", "peak_host_over_inputs_bytes")


@dataclass(frozen=True)
class LossTable:
    """One setting: its title, the line on its batches, its headings, and a row per loss, fastest first."""

    title: str
    about: str
    headings: list[str]
    rows: list[list[str]]


def loss_tables(results: Sequence[Result], *, intervals: bool = True) -> list[LossTable]:
    """A table per setting of the run."""
    return [_table(group, intervals) for group in by_setting(results)]


def by_setting(results: Sequence[Result]) -> list[list[Result]]:
    """The results of each setting: those that were measured by their time, then the others."""
    groups: dict[tuple[object, object], list[Result]] = {}
    for one in results:
        groups.setdefault((one.params["batch_size"], one.params["vocab"]), []).append(one)
    return [sorted(group, key=_order) for group in groups.values()]


def setting_text(result: Result) -> str:
    """The setting of a result in words."""
    params: Any = result.params
    count = "1 batch" if params["batches"] == 1 else f"{params['batches']} batches"
    size = f"at most {params['max_frames']:,} frames" if params["batch_size"] is None else str(params["batch_size"])
    order = {"pairs": ", sorted", "columns-independently": ", T and U sorted each for itself"}.get(params["sort"], "")
    bucketed = f", {params['buckets']} buckets" if params["buckets"] else ""
    return f"{count} of {size}{order}{bucketed}; {params['vocab']} symbols"


def padding_text(result: Result) -> str:
    """How much of the corpus the batches cover, and how much of them is padding."""
    params: Any = result.params
    low, high = params["covered"]
    first, last = params["frames"]
    efficiency = result.metrics["padding_efficiency"].value if result.metrics else None
    padding = (
        ""
        if efficiency is None
        else f"; padding efficiency {efficiency:.2f} ({1 / efficiency:.2f} padded cells a real one)"
    )
    whole, source = params["corpus_padding_efficiency"], plain(str(params["shapes"]), 60)
    return (
        f"{params['utterances']:,} of {params['corpus_utterances']:,} utterances of {source}, "
        f"T {first} to {last}: from {low:.1%} to {high:.1%} of its lengths{padding}; whole corpus {whole:.2f}"
    )


def rank_text(result: Result) -> str:
    """The rank, or the mark that says why there is none."""
    if not result.metrics:
        return ""
    if not result.params["right"]:
        return WRONG
    if result.params["approximate"]:
        return APPROXIMATE
    rank = result.metrics["rank"].value
    return DASH if rank is None else f"{rank:.0f}"


def legend(results: Sequence[Result]) -> list[str]:
    """What the marks of the table mean, as far as they are in it."""
    marks = {rank_text(one) for one in results}
    told = {
        WRONG: f"{WRONG} not what the oracle computes, or not checked: timed all the same, and not ranked",
        APPROXIMATE: f"{APPROXIMATE} approximates the loss of the others by leaving paths out, and is not ranked",
    }
    return [text for mark, text in told.items() if mark in marks]


def failure_text(result: Result) -> str:
    """How a loss that has no number ended."""
    codes = {warning.code for warning in result.warnings}
    if "loss-missing" in codes:
        return "missing"
    if "loss-device" in codes:
        return "other device"
    if result.status == "crashed":
        told = next((w.message for w in result.warnings if w.code == "loss-crashed"), "")
        return plain(told.partition(": ")[2].partition(";")[0], 40) or "crashed"
    return _FAILED.get(result.status, result.status)


def peak_metric(results: Sequence[Result]) -> str:
    """The peak that a table shows: the allocator's where there is a device, else the host's."""
    measured = [one for one in results if one.metrics]
    return next((name for name in _PEAKS if any(one.metrics[name].value is not None for one in measured)), _PEAKS[1])


def _table(group: Sequence[Result], intervals: bool) -> LossTable:
    first = group[0]
    largest = any("largest_batch" in one.metrics for one in group)
    headings = ["", "loss", "step, ms", "forward", "backward", "peak memory", "off by"]
    return LossTable(
        title=setting_text(first),
        about=padding_text(next((one for one in group if one.metrics), first)),
        headings=[*headings, *(["largest batch"] if largest else [])],
        rows=[_row(one, group, intervals, largest) for one in group],
    )


def _row(one: Result, group: Sequence[Result], intervals: bool, largest: bool) -> list[str]:
    name = plain(str(one.params["loss"]), 40)
    if not one.metrics:
        return [rank_text(one), name, failure_text(one), *[""] * (5 if largest else 4)]
    step = (format_interval if intervals else format_value)(one.metrics["step_time"], 1e3)
    peak = one.metrics[peak_metric(group)].value
    row = [
        rank_text(one),
        name,
        step,
        format_value(one.metrics["forward_time"], 1e3),
        format_value(one.metrics["backward_time"], 1e3),
        DASH if peak is None else format_bytes(peak),
        _deviation(one),
    ]
    return [*row, _largest(one)] if largest else row


def _deviation(one: Result) -> str:
    values = [one.metrics[name].value for name in ("value_deviation", "gradient_deviation")]
    known = [value for value in values if value is not None]
    gap = one.metrics.get("pruning_gap")
    told = f"{max(known):.0e}" if known else DASH
    return told if gap is None or gap.value is None else f"{told}, pruned {gap.value:+.1%}"


def _largest(one: Result) -> str:
    found = one.metrics.get("largest_batch")
    if found is None or found.value is None:
        return DASH
    return f"{found.value:.0f}" if "ended with" in found.note else f"≥ {found.value:.0f}"


def _order(one: Result) -> tuple[bool, float]:
    step = one.metrics["step_time"].value if one.metrics else None
    return step is None, step or 0.0
