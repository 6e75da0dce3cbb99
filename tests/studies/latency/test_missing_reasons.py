"""Why numbers and intervals are missing: each reason once, with the rows that it is about."""

from dataclasses import replace

from shown_runs import study_run
from stored_runs import REAL, found_in

from stopwav.report.document import Detail, Missing
from stopwav.stats import Estimate


def reasons(*changed: dict[str, Estimate]) -> tuple[str, ...]:
    """The reasons of a run of two engines, in which these numbers are changed and all others have an interval."""
    record, found = found_in(REAL)
    certain = Estimate(1.0, 0.9, 1.1)
    results = [
        replace(result, metrics={**dict.fromkeys(result.metrics, certain), **metrics})
        for result, metrics in zip(found, changed, strict=True)
    ]
    blocks = study_run(record, results).document(Detail()).blocks
    return next(block.reasons for block in blocks if isinstance(block, Missing) and "brief" not in block.media)


def worth(count: int) -> Estimate:
    return Estimate(1.0, note="for people", effective_n=count)


def too_few(count: int) -> Estimate:
    return Estimate(None, n=count, note="for people", code="too-few")


def test_reasons_that_differ_in_a_count_alone_are_one_line() -> None:
    first = {"word_latency_p50": worth(4), "word_latency_p95": worth(15), "chunk_lag_p95": worth(47)}
    second = {"word_latency_p95": too_few(47), "chunk_lag_p95": too_few(60), "chunk_lag_p99": too_few(60)}
    chunks = "chunk latency (queue + compute)"
    assert reasons(first, second) == (
        "effective n 4; a P50 interval needs 6: word latency (UPL), P50",
        f"effective n 15–47; a P95 interval needs 72: word latency (UPL), P95; {chunks}, P95, ms",
        f"needs 72 events, has 47–60: word latency (UPL), P95; {chunks}, P95, ms",
        f"needs 368 events, has 60: {chunks}, P99, ms",
    )


def test_other_reasons_are_left_as_they_are() -> None:
    noted = {"rtf": Estimate(1.0, note="within 1.5 s"), "wer": Estimate(1.0, note="within 2.5 s")}
    assert reasons(noted, {"chunk_lag_p50": Estimate(1.0, note="within 1.5 s")}) == (
        "within 1.5 s: real-time factor (RTF); chunk latency (queue + compute), P50, ms",
        "within 2.5 s: word error rate (WER), %",
    )


def test_what_follows_from_a_definition_or_is_untrained_needs_no_reason() -> None:
    silent = {
        "algorithmic_latency": Estimate(1.0, note="chunk + look-ahead", code="by-definition"),
        "word_latency_p50": Estimate(None, note="untrained", code="untrained"),
    }
    assert reasons(silent, {}) == ()
