"""What a loss run says in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from stopwav.record import Result
from stopwav.report.loss_layout import by_setting, failure_text, peak_metric, setting_text
from stopwav.report.numbers import format_bytes, format_value
from stopwav.report.plain import plain


def loss_findings(results: Sequence[Result]) -> list[str]:
    """A sentence on the fastest and on the smallest loss of each setting, and one on those that are wrong or lost."""
    groups = by_setting(results)
    found = [told for group in groups for told in _of_setting(group, several=len(groups) > 1)]
    return [*(found or ["Nothing was measured"]), *_wrong(results), *_lost(results)]


def _of_setting(group: Sequence[Result], several: bool) -> list[str]:
    ranked = [one for one in group if one.metrics and one.metrics["rank"].value is not None]
    if not ranked:
        return []
    best = min(float(one.metrics["rank"].value or 0) for one in ranked)
    first = [one for one in ranked if one.metrics["rank"].value == best]
    where = f" ({setting_text(first[0])})" if several else ""
    *others, last = [_name(one) for one in first]
    names = f"{', '.join(others)} and {last}" if others else last
    verb = "is the fastest exact loss" if len(first) == 1 else "are the fastest exact losses, not to be told apart"
    told = [f"{names} {verb}{where}: {format_value(first[0].metrics['step_time'], 1e3)} ms a step"]
    metric = peak_metric(group)
    peaks = [(one.metrics[metric].value or 0.0, one) for one in ranked if one.metrics[metric].value is not None]
    if peaks:
        value, least = min(peaks, key=lambda pair: pair[0])
        told.append(
            f"{_name(least)} takes the least memory of the exact losses{where}: {format_bytes(value)} over its inputs"
        )
    return told


def _wrong(results: Sequence[Result]) -> list[str]:
    wrong = {_name(one) for one in results if one.metrics and not one.params["right"]}
    return [f"Not what the oracle computes, or not checked: {', '.join(sorted(wrong))}"] if wrong else []


def _lost(results: Sequence[Result]) -> list[str]:
    lost = [f"{_name(one)} {failure_text(one)}" for one in results if not one.metrics]
    return [f"Not measured: {', '.join(dict.fromkeys(lost))}"] if lost else []


def _name(one: Result) -> str:
    return plain(str(one.params["loss"]), 40)
