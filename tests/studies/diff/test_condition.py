"""Conditions on one run: what holds, what fails, what is open, and what cannot be known."""

from pathlib import Path

import pytest

from stopwav.errors import StopwavError
from stopwav.record import Result
from stopwav.report.document import Table
from stopwav.stats import Estimate
from stopwav.studies.definition import Definition, Definitions, seconds
from stopwav.studies.diff.condition import Condition, check_condition, judge, parse_condition
from stopwav.studies.diff.gate_document import requirements_document
from stopwav.studies.diff.requirements import Requirements
from stopwav.studies.limit import Limit

DEFINITIONS = Definitions(
    {
        "All": {
            "rtf": Definition("real-time factor", "", ""),
            "wer": Definition("word error rate", "", "", scale=100.0),
            "load_time": seconds("load time", ""),
            "word_latency": Definition("word latency", "s", "", percentiles=True),
        }
    }
)


def result(estimate, status="ok"):
    return Result("engine", {}, status, {} if estimate is None else {"rtf": estimate})


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("rtf < 0.5", Condition(Limit("rtf", "<", 0.5))),
        ("rtf < 0.5 of torch", Condition(Limit("rtf", "<", 0.5), "torch")),
        ("rtf<0.5  of  fake @ 10 of 2", Condition(Limit("rtf", "<", 0.5), "fake @ 10 of 2")),
        ("word_latency_p95 < 800ms of a.py:B,c=1", Condition(Limit("word_latency_p95", "<", 0.8, "s"), "a.py:B,c=1")),
    ],
)
def test_a_condition_is_read_and_written(text, condition):
    read = parse_condition(text)
    assert read == condition
    assert parse_condition(read.text) == condition


@pytest.mark.parametrize("text", ["", "rtf", "rtf is low", "of torch", "rtf < of torch", "rtf != 1"])
def test_what_is_no_condition_is_an_error_with_examples(text):
    with pytest.raises(StopwavError, match="is not a condition such as word_latency") as caught:
        parse_condition(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("low", "high", "relation", "outcome"),
    [
        (0.3, 0.4, "<", "holds"),
        (0.3, 0.5, "<", "undecided"),
        (0.3, 0.5, "<=", "holds"),
        (0.5, 0.7, "<", "fails"),
        (0.5, 0.7, "<=", "undecided"),
        (0.6, 0.7, "<", "fails"),
        (0.6, 0.7, ">", "holds"),
        (0.5, 0.7, ">", "undecided"),
        (0.5, 0.7, ">=", "holds"),
        (0.3, 0.5, ">", "fails"),
        (0.3, 0.5, ">=", "undecided"),
        # A count has its value at both ends.
        (0.5, 0.5, "<", "fails"),
        (0.5, 0.5, "<=", "holds"),
        # One end is enough where it is the one that decides: a capacity of at least so many streams.
        (0.6, None, ">=", "holds"),
        (0.6, None, "<", "fails"),
        (0.4, None, "<", "undecided"),
        (None, 0.4, "<", "holds"),
        # A measured value without an interval shows nothing, however far from the limit.
        (None, None, "<", "undecided"),
    ],
)
def test_the_whole_interval_decides(low, high, relation, outcome):
    value = low if low is not None else high if high is not None else 0.0001
    judged = judge(Condition(Limit("rtf", relation, 0.5)), result(Estimate(value, low, high)))
    assert judged.outcome == outcome
    assert bool(judged.reason) == (outcome == "undecided")


def test_what_has_no_value_is_absent_with_its_reason():
    condition = parse_condition("rtf < 0.5")
    assert judge(condition, result(None)).reason == "the result has no such metric"
    assert judge(condition, result(None, "oom")).reason == "the result is oom"
    absent = judge(condition, result(Estimate(None, note="needs 72 events, has 14")))
    assert (absent.outcome, absent.reason) == ("absent", "needs 72 events, has 14")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("rtv < 1", ["'rtv'", "did you mean 'rtf'?"]),
        ("word_latency < 1", ["'word_latency'", "'word_latency_p95'"]),
        ("rtf < 800ms", ["rtf has no unit"]),
        ("load_time < 2GB", ["load_time is in s"]),
        ("load_time < 5%", ["load_time is in s"]),
        # Nobody means 500 %.
        ("wer < 5", ["wer is a share", "wer < 5%"]),
    ],
)
def test_a_condition_that_no_run_of_the_study_can_meet_is_an_error(text, named):
    with pytest.raises(StopwavError) as caught:
        check_condition(parse_condition(text), DEFINITIONS)
    assert "\n" not in str(caught.value)
    assert all(part in str(caught.value) for part in named)


@pytest.mark.parametrize("text", ["rtf < 50%", "rtf < 1.5", "wer < 5%", "wer < 0.05", "word_latency_p95 < 1"])
def test_a_condition_of_the_study(text):
    check_condition(parse_condition(text), DEFINITIONS)


def test_microseconds_are_told_from_nothing():
    judged = judge(Condition(Limit("step_time", "<", 0.001, "s")), microseconds())
    document = requirements_document(Requirements(Path("run.jsonl"), "loss", (judged,)))
    (table,) = (block for block in document.blocks if isinstance(block, Table))
    assert table.rows[0].cells[2].text == "0.0000251 [0.0000249–0.0000252] s"


def microseconds():
    estimate = Estimate(2.512e-5, 2.494e-5, 2.523e-5, unit="s")
    return Result("fused", {}, "ok", {"step_time": estimate})
