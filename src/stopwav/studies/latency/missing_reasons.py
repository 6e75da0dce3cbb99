"""Why numbers and intervals of a latency run are missing, in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from stopwav.record import Result
from stopwav.stats import Estimate, minimum_count
from stopwav.studies.latency.chunk_definitions import REMOTE_CODE, REMOTE_NOTE
from stopwav.studies.latency.definitions import label_of, shown_sections
from stopwav.studies.latency.metrics import SAID

# Where the count stands in a reason; no note holds it.
_COUNT = "\0"


def missing_reasons(results: Sequence[Result], brief: Collection[str] | None = None) -> Iterator[str]:
    """Yield why numbers and intervals of the table are missing, each reason once with the rows that it is about.

    Of the `brief` metrics alone it is why numbers are missing, without the rows.
    """
    counts: dict[str, list[int]] = {}
    labels: dict[str, dict[str, None]] = {}
    for _, metrics in shown_sections(results, page=False):
        for metric, unit in metrics.items():
            if brief is not None and metric not in brief:
                continue
            for estimate in (result.metrics[metric] for result in results if metric in result.metrics):
                absent = estimate.low is None if brief is None else estimate.value is None
                if absent and estimate.note and estimate.code not in SAID:
                    reason, count = _reason(estimate, metric)
                    counts.setdefault(reason, []).append(count)
                    labels.setdefault(reason, {})[label_of(metric, unit)] = None
    if any(result.metrics and result.metrics["rtf"].code == REMOTE_CODE for result in results):
        yield f"{REMOTE_NOTE}: real-time factor, chunk latency, memory"
        labels.pop(REMOTE_NOTE, None)
    for reason, about in labels.items():
        low, high = min(counts[reason]), max(counts[reason])
        shown = str(low) if low == high else f"{low}–{high}"
        rows = "" if brief is not None else f": {'; '.join(about)}"
        yield f"{reason.replace(_COUNT, shown)}{rows}"


def _reason(estimate: Estimate, metric: str) -> tuple[str, int]:
    """The reason, with a mark in the place of its count, and the count, in which alone many reasons differ."""
    if estimate.effective_n is None and estimate.code != "too-few":
        return estimate.note, 0
    percent = metric.rpartition("_p")[2]
    needed = minimum_count(int(percent) / 100)
    if estimate.effective_n is None:
        return f"needs {needed} events, has {_COUNT}", estimate.n
    return f"effective n {_COUNT}; a P{percent} interval needs {needed}", estimate.effective_n
