"""What a grid says in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from stopwav.record import Result
from stopwav.report.grid_layout import REAL_TIME, Layout, arrange, failure_text
from stopwav.report.numbers import format_bytes, format_value


def grid_findings(results: Sequence[Result]) -> list[str]:
    """A sentence on pace, one on memory, and one on what was not measured."""
    layout = arrange(results)
    return [_pace(layout), *_memory(layout), *_lost(layout)]


def _pace(layout: Layout) -> str:
    paces = [(one.metrics["rtfx"].value or 0.0, one) for one in layout.measured]
    if not paces:
        return "Nothing was measured"
    worst, best = min(paces, key=lambda pair: pair[0]), max(paces, key=lambda pair: pair[0])
    ends = (
        f"from {format_value(worst[1].metrics['rtfx'])} ({_place(worst[1])}) "
        f"to {format_value(best[1].metrics['rtfx'])} times real time ({_place(best[1])})"
    )
    slower = sum(value < REAL_TIME for value, _ in paces)
    if not slower:
        return f"Faster than real time in every measured cell, {ends}"
    return f"Slower than real time in {slower} of {len(paces)} measured cells, {ends}"


def _memory(layout: Layout) -> list[str]:
    """The cell that takes most, by the memory that runs out first: the device's where there is one."""
    metric = "peak_reserved_bytes" if layout.measured and layout.has("peak_reserved_bytes") else "peak_host_bytes"
    peaks = [(one.metrics[metric].value, one) for one in layout.measured if one.metrics[metric].value is not None]
    if not peaks:
        return []
    value, one = max(peaks, key=lambda pair: pair[0] or 0.0)
    over = one.metrics[metric.replace("_bytes", "_over_baseline_bytes")].value
    more = "" if over is None else f", {format_bytes(over)} of it over the loaded model"
    where = "on the device" if metric == "peak_reserved_bytes" else "of the host"
    return [f"It takes up to {format_bytes(value or 0.0)} {where} ({_place(one)}){more}"]


def _lost(layout: Layout) -> list[str]:
    lost = [one for one in layout.cells.values() if not one.metrics and one.status != "skipped"]
    if not lost:
        return []
    listed = ", ".join(f"{_place(one)} {failure_text(one)}" for one in lost[:6])
    more = f" and {len(lost) - 6} more" if len(lost) > 6 else ""
    return [f"{len(lost)} of {len(layout.cells)} cells could not be measured: {listed}{more}"]


def _place(result: Result) -> str:
    return f"{result.params['duration_s']:g} s × {result.params['batch_size']}"
