"""The sentence under the table, from metrics alone."""

from stopwav.errors import Caution
from stopwav.record import Result
from stopwav.stats import Estimate
from stopwav.studies.latency.document import latency_finding


def result(**changes: float | None) -> Result:
    values: dict[str, float | None] = {
        "keeps_up": 1.0,
        "rtf": 0.25,
        "rtfx": 4.0,
        "backlog_slope": 0.0,
        "word_latency_p50": 0.41,
        "word_latency_p95": 1.02,
        "committed_latency_p50": 0.6,
        "share_waiting": 0.58,
        "share_queue": 0.0,
        "share_computing": 0.09,
        "share_stabilisation": 0.33,
        **changes,
    }
    return Result("engine", {}, "ok", {name: Estimate(value, note="why not") for name, value in values.items()})


def test_the_sentence_says_what_a_listener_feels_and_why() -> None:
    assert latency_finding(result()) == (
        "engine: keeps up; word latency 0.41 s (P50) / 1.02 s (P95); a word is final after 0.60 s (P50); "
        "of that wait 58 % is waiting for audio, 9 % computing, 33 % stabilisation"
    )


def test_falling_behind_is_told_from_being_too_slow() -> None:
    slow = latency_finding(result(keeps_up=0.0, rtf=1.2, rtfx=0.833))
    assert "does not keep up (RTF 1.20, RTFx 0.83);" in slow
    behind = latency_finding(result(keeps_up=0.0, rtf=0.5, rtfx=2.0, backlog_slope=0.03))
    expected = "does not keep up (RTF 0.50, RTFx 2.00, but its backlog grows by 30.0 ms per second of audio)"
    assert expected in behind


def test_what_the_sample_cannot_support_is_left_out_or_said() -> None:
    assert "(P95)" not in latency_finding(result(word_latency_p95=None))
    assert "word latency is unknown (why not)" in latency_finding(result(word_latency_p50=None))
    shares = dict.fromkeys(("share_waiting", "share_queue", "share_computing", "share_stabilisation"))
    assert latency_finding(result(**shares)).endswith("1.02 s (P95)")


def test_an_engine_without_a_result_says_why() -> None:
    failed = Result("x", {}, "crashed", {}, (Caution("busy", "not this"), Caution("stream-crashed", "u1: SIGSEGV")))
    assert latency_finding(failed) == "x: crashed; u1: SIGSEGV"
    assert latency_finding(Result("x", {}, "skipped")) == "x: skipped; nothing was measured"
