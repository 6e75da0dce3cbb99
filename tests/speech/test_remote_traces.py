"""Traces of streams behind a protocol, small enough to be worked out on paper."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from stopwav.speech.events import RemoteFacts, Trace, remote_trace
from stopwav.speech.latency import (
    endpoint_latency,
    first_word_latency,
    first_word_text,
    shown_texts,
    word_delays,
)
from stopwav.speech.stored_trace import trace_from_json, trace_lists
from stopwav.speech.utterance import Utterance, Word
from stopwav.speech.waterfall import WATERFALL
from stopwav.studies.stream_facts import StreamFacts
from stopwav.studies.stream_table_builder import StreamTableBuilder
from stopwav.studies.utterance_table import UtteranceTable

# "red fox" over 1 s of audio in chunks of 0.25 s, of which the second was sent 0.01 s late; a round trip takes 0.04 s.
WORDS = (Word("red", 0.10, 0.30), Word("fox", 0.40, 0.70))
TEXTS = ((0.60, "red"), (0.95, "red box"), (1.30, "red fox"), (1.40, "red fox"))
DUE_S = (0.25, 0.50, 0.75, 1.0, 1.0)
SENT_S = (0.25, 0.51, 0.75, 1.0, 1.0)


def trace(**changes: Any) -> Trace:
    queue_s = changes.get("queue_s", ())
    return remote_trace(
        (1.0, 0.25, 0.0), DUE_S, SENT_S, TEXTS, changes.get("endpoints_s", ()), RemoteFacts(0.02, queue_s)
    )


def test_a_text_belongs_to_the_last_chunk_that_was_sent_before_it() -> None:
    assert [(change.chunk, change.kept, change.added) for change in trace().texts] == [
        (1, 0, "red"),
        (2, 3, " box"),
        (4, 4, "fox"),
        (4, 7, ""),
    ]
    assert trace().text == "red fox"


def test_word_latencies_are_from_the_arrival_of_texts() -> None:
    red, fox = word_delays(trace(), WORDS, shown_texts(trace().texts))
    assert red.latency_s == pytest.approx(0.60 - 0.30)
    assert fox.latency_s == pytest.approx(1.30 - 0.70)
    assert fox.committed_s == pytest.approx(1.30 - 0.70)


def test_the_waterfall_on_paper() -> None:
    red, _ = word_delays(trace(), WORDS, shown_texts(trace().texts))
    assert red.waterfall is not None
    parts = {part: seconds for part, seconds in red.waterfall.items() if seconds}
    assert parts == pytest.approx(
        {
            "buffering": 0.20,  # ends at 0.30, its chunk at 0.50
            "queue": 0.01,  # that chunk was sent so late, by us
            "network": 0.02,  # half a round trip
            "server": 0.30 - 0.20 - 0.01 - 0.02,
        }
    )
    assert set(red.waterfall) == set(WATERFALL)
    assert sum(red.waterfall.values()) == pytest.approx(red.latency_s)


def test_a_queue_that_the_server_reports_is_taken_out_of_its_part() -> None:
    red, _ = word_delays(trace(queue_s=(0.03, 0.0, 0.0, 0.0)), WORDS, shown_texts(trace().texts))
    assert red.waterfall is not None
    assert red.waterfall["queue"] == pytest.approx(0.01 + 0.03)
    assert red.waterfall["server"] == pytest.approx(0.04)


def test_first_partial_final_text_and_endpoint() -> None:
    stream = trace(endpoints_s=(0.5, 1.1, 1.2))
    number = first_word_text(shown_texts(stream.texts))
    shown_s = float(stream.text_s[number])
    assert first_word_latency(shown_s, WORDS[0].start_s) == (pytest.approx(0.50), pytest.approx(0.60))
    # The first was at a pause inside the utterance.
    assert endpoint_latency(stream.endpoints_s, WORDS[-1].end_s) == pytest.approx(1.2 - 0.70)
    assert endpoint_latency((0.5,), WORDS[-1].end_s) is None
    assert endpoint_latency((1.2,), None) is None
    builder = StreamTableBuilder(UtteranceTable.of([Utterance("u", Path("nowhere.wav"), "red fox", words=WORDS)]))
    builder.add(trace_lists(stream.to_json()), 0, 0)
    facts = StreamFacts(*builder.table().facts[0].tolist())
    # The last text says the same as the one before it, and is the answer to the end of the audio.
    assert facts.final_latency == pytest.approx(1.40 - 0.70)
    assert facts.final_latency_from_end == pytest.approx(0.40)
    assert facts.endpoint_latency == pytest.approx(0.50)
    assert math.isnan(facts.backlog_slope)


def test_it_comes_back_from_a_file_as_it_was() -> None:
    stream = trace(endpoints_s=(1.1,), queue_s=(0.03, 0.0, 0.0, 0.01))
    stored = json.loads(json.dumps(stream.to_json()))
    again = trace_from_json(stored)
    assert again.to_json() == stored
    assert again.remote == stream.remote
    # A version that knows no servers must not take it for a stream in a process.
    assert not {"start", "done"} & stored.keys()


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("arrivals", [0.6, 0.95, 1.3], "4 texts have 3 times of arrival"),
        ("arrivals", [0.6, 1.3, 0.95, 1.4], "arrives before the one that it follows"),
        ("arrivals", [0.6, 0.95, 1.3, float("nan")], "not a number"),
        ("network_s", -1, "network_s is -1"),
        ("server_queue", [0.1], "4 texts have"),
        ("endpoints", [float("inf")], "not a number"),
        ("sent", [0.25, 0.5], "5 chunks are due, 2 start"),
    ],
)
def test_what_cannot_have_happened_is_refused(field: str, value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        trace_from_json({**trace().to_json(), field: value})
