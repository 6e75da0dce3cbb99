"""The metrics that the tables of a latency run show, by heading, and which of them say something about some engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from stopwav.record import UNTRAINED, Result
from stopwav.studies.definition import Definition
from stopwav.studies.latency.definitions import DEFINITIONS, WATERFALL

# The lines of the classic analysis of a streaming transducer; for engines that mark its stages.
LEGACY = "Legacy breakdown, ms"
# The metrics of the table by heading, each with its unit where the heading does not say it.
SECTIONS: Mapping[str, Mapping[str, str]] = {
    "What a listener feels, in seconds": {
        "word_latency_p50": "",
        "word_latency_p95": "",
        "committed_latency_p50": "",
        "committed_latency_p95": "",
        "first_word_latency_p50": "",
        "final_latency_p50": "",
        "final_latency_from_end_p50": "",
    },
    "Why it takes so long, mean ms": dict.fromkeys((*WATERFALL, "word_latency_mean"), ""),
    "What the machine does": {
        "rtf": "",
        "rtfx": "",
        "chunk_lag_p50": "ms",
        "chunk_lag_p95": "ms",
        "chunk_lag_p99": "ms",
        "peak_host_bytes": "",
    },
    "What it writes": {"wer": "%", "upwr": ""},
    LEGACY: {
        "algorithmic_latency": "",
        "inference_p95": "",
        "features_p95": "",
        "copy_p95": "",
        "sum_of_p95s": "",
        "rtf": "",
        "rtfx": "",
        "longest_wait_p95": "",
    },
}
# A reader compares engines by these, a column each, under headings as short as can be.
GLANCE: Mapping[str, str] = {
    "word_latency_p50": "word latency P50, s",
    "word_latency_p95": "word latency P95, s",
    "committed_latency_p50": "word finalization latency P50, s",
    "final_latency_from_end_p50": "end-of-stream finalization latency P50, s",
    "rtf": "RTF",
    "rtfx": "RTFx",
    "keeps_up": "keeps up",
    "wer": "WER, %",
    "peak_host_bytes": "peak memory",
}


def shown_sections(results: Sequence[Result]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the headings with those of their metrics that say something about some engine."""
    for heading, metrics in SECTIONS.items():
        shown = {metric: unit for metric, unit in metrics.items() if _is_shown(metric, heading, results)}
        if shown:
            yield heading, shown


def label_of(metric: str, unit: str) -> str:
    """Return the title of a metric, with its unit where one is given."""
    return ", ".join(filter(None, (definition_of(metric).title, unit)))


def definition_of(metric: str) -> Definition:
    """Return the definition of a metric that a table shows."""
    definition = DEFINITIONS.find(metric)
    assert definition is not None, metric
    return definition


def _is_shown(metric: str, heading: str, results: Sequence[Result]) -> bool:
    """Whether a row says something: a part that is zero for every engine (no look-ahead, no copy) does not."""
    if heading == LEGACY:
        return any({"features_p95", "inference_p95"} <= result.metrics.keys() for result in results)
    estimates = [result.metrics[metric] for result in results if metric in result.metrics]
    # That texts mean nothing is said once, in place of the errors.
    if metric != "wer" and all(estimate.code == UNTRAINED for estimate in estimates):
        return False
    return any(estimate.value != 0 or estimate.high for estimate in estimates)
