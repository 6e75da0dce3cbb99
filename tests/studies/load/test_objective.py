"""Objectives as people write them: presets, conditions, and errors that name the value and the way out."""

import pytest

from stopwav.errors import StopwavError
from stopwav.studies.load.objective import DEFAULT, EVENTS, PRESETS, Objective, ObjectiveCondition, parse_objective


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_its_conditions_by_name(name):
    objective = parse_objective(f" {name} ")
    assert objective == Objective(name, PRESETS[name])
    # Written out, it means the same.
    assert parse_objective(objective.text.partition("(")[2].removesuffix(")")).conditions == objective.conditions


def test_the_presets():
    assert DEFAULT in PRESETS
    texts = {name: parse_objective(name).text for name in PRESETS}
    assert texts == {
        "captions": "captions (committed_latency_p90<3, failed<1%)",
        "dictation": "dictation (word_latency_p90<1, final_latency_p95<1, failed<1%)",
        "voice-agent": "voice-agent (final_latency_p95<0.8, failed<1%)",
    }
    assert parse_objective("captions").longest_limit_s == 3


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("word_latency_p95<1.0", ObjectiveCondition("word_latency_p95", 1.0)),
        ("word_latency_p95 <= 800ms", ObjectiveCondition("word_latency_p95", 0.8)),
        ("final_latency_p50<2s", ObjectiveCondition("final_latency_p50", 2.0)),
        ("endpoint_latency_p99 < 1500 ms", ObjectiveCondition("endpoint_latency_p99", 1.5)),
        ("first_word_latency_p1<0.001", ObjectiveCondition("first_word_latency_p1", 0.001)),
        ("failed<1%", ObjectiveCondition("failed", 0.01)),
        ("failed<0.01", ObjectiveCondition("failed", 0.01)),
        ("wer<12.5%", ObjectiveCondition("wer", 0.125)),
    ],
)
def test_a_condition(text, condition):
    objective = parse_objective(text)
    assert objective.conditions == (condition,)
    assert objective.name == ""
    # As it is shown, it is read again.
    assert parse_objective(objective.text) == objective


def test_several_conditions():
    objective = parse_objective("word_latency_p95<1, final_latency_p95<800ms ,failed<1%,")
    assert [item.metric for item in objective.conditions] == ["word_latency_p95", "final_latency_p95", "failed"]
    assert objective.text == "word_latency_p95<1, final_latency_p95<0.8, failed<1%"
    assert objective.longest_limit_s == 1
    assert parse_objective("failed<1%").longest_limit_s == 0


def test_the_parts_of_a_condition():
    condition = ObjectiveCondition("word_latency_p95", 1.0)
    assert (condition.family, condition.percentile, condition.over_metric) == (
        "word_latency",
        0.95,
        "over_p95_word_latency",
    )
    assert (ObjectiveCondition("failed", 0.01).family, ObjectiveCondition("failed", 0.01).percentile) == (
        "failed",
        None,
    )
    assert all(parse_objective(f"{family}_p95<1").conditions[0].family == family for family in EVENTS)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", ["give an objective", "voice-agent", "word_latency_p95<1"]),
        (" , ", ["give an objective"]),
        ("caption", ["'caption'", "captions"]),
        ("voice agent", ["'voice agent'", "word_latency_p95<1.0"]),
        ("word_latency_p95", ["'word_latency_p95'", "word_latency_p95<1.0"]),
        ("word_latency_p95>1", ["'word_latency_p95>1'", "<"]),
        ("word_latency_p95<-1", ["'word_latency_p95<-1'"]),
        ("word_latency_p95<1.0.0", ["'word_latency_p95<1.0.0'", "'1.0.0'", "number"]),
        ("word_latency_p95<.", ["'.'", "number"]),
        ("word_latencies_p95<1", ["'word_latencies_p95'", "word_latency_p95"]),
        ("word_latency<1", ["'word_latency'", "word_latency_p95"]),
        ("word_latency_p0<1", ["'word_latency_p0'"]),
        ("word_latency_p100<1", ["'word_latency_p100'"]),
        ("word_latency_p95<5%", ["word_latency_p95<5%", "a time from 1 ms to 1 h", "800ms"]),
        ("word_latency_p95<0", ["word_latency_p95<0", "1 ms to 1 h"]),
        ("word_latency_p95<800", []),
        ("word_latency_p95<3601", ["word_latency_p95<3601", "1 h"]),
        ("failed<100%", ["failed<100%", "below 100 %", "1%"]),
        ("failed<0", ["failed<0", "above 0"]),
        ("failed<10ms", ["failed<10ms", "1%"]),
        ("failed<1%, failed<2%", ["two conditions on failed", "leave one"]),
    ],
)
def test_an_error_names_the_value_and_the_way_out(text, named):
    if not named:  # long, but a limit all the same
        assert parse_objective(text).longest_limit_s == 800
        return
    with pytest.raises(StopwavError) as caught:
        parse_objective(text)
    message = str(caught.value)
    assert "\n" not in message
    for part in named:
        assert part in message
