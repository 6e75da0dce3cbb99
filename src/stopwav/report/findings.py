"""Findings in plain words: one sentence per engine, from its metrics alone."""

from __future__ import annotations

from stopwav.record import UNTRAINED, Result
from stopwav.report.numbers import format_value
from stopwav.report.plain import plain
from stopwav.stats import Estimate

CAUSES = {
    "waiting": "waiting for audio",
    "queue": "queueing",
    "computing": "computing",
    "stabilisation": "stabilisation",
}


def latency_finding(result: Result) -> str:
    """What a latency result says to someone who has not read the manual."""
    name = plain(result.name)
    if not result.metrics:
        told = next((w.message for w in result.warnings if w.code.startswith("stream-")), "nothing was measured")
        return f"{name}: {result.status}; {plain(told)}"
    p50, p95 = (result.metrics[f"word_latency_{p}"] for p in ("p50", "p95"))
    return f"{name}: {_pace(result)}; {_appears(p50, p95)}{_causes(result)}"


def _pace(result: Result) -> str:
    rtf, slope = result.metrics["rtf"], result.metrics["backlog_slope"]
    if result.metrics["keeps_up"].value:
        return "keeps up"
    if rtf.value is not None and rtf.value < 1:
        grows = f"its backlog grows by {format_value(slope, 1e3)} ms per second of audio"
        return f"does not keep up (real-time factor {format_value(rtf)}, but {grows})"
    return f"does not keep up (real-time factor {format_value(rtf)})"


def _appears(p50: Estimate, p95: Estimate) -> str:
    if p50.note == UNTRAINED:
        return f"{UNTRAINED}: no words to time"
    if p50.value is None:
        return f"how long a word takes to appear cannot be said ({plain(p50.note)})"
    tail = f" / {format_value(p95)} s (P95)" if p95.value is not None else ""
    return f"a word appears {format_value(p50)} s (P50){tail} after it is spoken"


def _causes(result: Result) -> str:
    """The shares of the wait until a word stands for good, in the order in which they happen."""
    shares = {cause: result.metrics[f"share_{cause}"].value for cause in CAUSES}
    known = {cause: share for cause, share in shares.items() if share is not None}
    if not known:
        return ""
    settled = result.metrics["committed_latency_p50"]
    parts = [(f"{100 * share:.0f} %", CAUSES[cause]) for cause, share in known.items() if round(100 * share) != 0]
    stands = f" and stands for good after {format_value(settled)} s (P50)" if settled.value is not None else ""
    if not parts:
        return stands
    first, *others = parts
    listed = ", ".join([f"{first[0]} is {first[1]}", *(" ".join(part) for part in others)])
    return f"{stands}; of that wait {listed}"
