"""The Chrome trace: every event is well formed, spans nest, time goes forward, and nothing is lost or counted twice."""

import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from command_line import command
from stored_runs import FAILURES, HOSTILE, REAL, changed, found_in, renamed

from stopwav.record import Record
from stopwav.speech.stored_trace import trace_from_json
from stopwav.studies.latency.stream_trace import TEXT, UTTERANCES, WORK, stream_trace

Event = dict[str, Any]


def validate(trace: dict[str, Any]) -> list[Event]:
    """The events, or the assertion that one breaks: what the viewers take for granted of a trace."""
    json.loads(json.dumps(trace, allow_nan=False))
    named: set[tuple[int, int]] = set()
    last: dict[int, float] = defaultdict(float)
    open_spans: dict[tuple[int, int], list[float]] = defaultdict(list)
    for event in trace["traceEvents"]:
        assert event["name"]
        assert event["ph"] in ("M", "X", "i", "C")
        if event["ph"] == "M":
            named |= {(event["pid"], event["tid"])} if event["name"] == "thread_name" else set()
            assert event["args"]
            continue
        track = (event["pid"], event["tid"])
        assert track in named
        assert event["ts"] >= last[event["pid"]]
        last[event["pid"]] = event["ts"]
        if event["ph"] == "X":
            stack = open_spans[track]
            end = event["ts"] + event["dur"]
            # Microseconds with three decimals are exact nanoseconds up to 2**53.
            while stack and stack[-1] <= event["ts"] + 1e-6:
                stack.pop()
            assert event["dur"] >= 0
            assert not stack or end <= stack[-1] + 1e-4, event
            stack.append(end)
        elif event["ph"] == "i":
            assert event["s"] == "t"
    return list(trace["traceEvents"])


def by_engine(events: list[Event]) -> dict[str, list[Event]]:
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    return {name: [event for event in events if event["pid"] == process] for process, name in names.items()}


@pytest.mark.parametrize("path", [REAL, FAILURES], ids=lambda path: path.stem)
def test_what_an_engine_did_adds_up_to_its_service(path: Path) -> None:
    record = Record.read(path)
    engines = by_engine(validate(stream_trace([record])))
    assert list(engines) == record.header.spec["engines"]
    for name, events in engines.items():
        traces = [
            trace_from_json(piece.data["trace"])
            for piece in record.pieces
            if piece.key[0] == "stream" and piece.key[2] == name and piece.status == "ok"
        ]
        chunks = [chunk for trace in traces for chunk in trace.chunks()]
        spans = [event for event in events if event.get("cat") == "chunk"]
        assert len(spans) == len(chunks)
        assert sum(event["dur"] for event in spans) == pytest.approx(1e6 * sum(c.service_s for c in chunks), abs=1e-2)
        for path_of_stage in {stage.path for chunk in chunks for stage in chunk.stages}:
            total = sum(s.duration_s for chunk in chunks for s in chunk.stages if s.path == path_of_stage)
            drawn = sum(
                event["dur"]
                for event in events
                if event.get("cat") == "stage"
                and event["args"]["path"] == path_of_stage
                and not _in_failed(event, events)
            )
            assert drawn == pytest.approx(1e6 * total, abs=0.002 * len(chunks))
        shown = Counter(text for chunk in chunks for text in chunk.hypotheses)
        assert sum(shown.values()) <= sum(event.get("cat") == "hypothesis" for event in events)


def _in_failed(event: Event, events: list[Event]) -> bool:
    failed = [one for one in events if one.get("cat") == "failed"]
    return any(one["ts"] <= event["ts"] < one["ts"] + one["dur"] for one in failed)


def test_the_real_time_factor_can_be_read_off_the_trace() -> None:
    record, results = found_in(REAL)
    engines = by_engine(validate(stream_trace([record])))
    for result in results:
        audio_s = 2 * result.params["audio_s"]  # type: ignore[operator]  # two rounds
        work_s = sum(event["dur"] for event in engines[result.name] if event.get("cat") == "chunk") / 1e6
        assert work_s / audio_s == pytest.approx(result.metrics["rtf"].value, rel=1e-6)


def test_utterances_follow_each_other_and_begin_together_for_all_engines() -> None:
    engines = by_engine(validate(stream_trace([Record.read(REAL)])))
    begins = []
    for events in engines.values():
        utterances = [event for event in events if event["ph"] == "X" and event["tid"] == UTTERANCES]
        assert len(utterances) == 8
        for before, after in pairwise(utterances):
            assert before["ts"] + before["dur"] < after["ts"]
        begins.append([event["ts"] for event in utterances])
    assert begins[0] == begins[1]


def test_the_queue_fills_and_empties() -> None:
    # The scripted engine takes 130 ms for every third chunk of 100 ms: the next one waits, and only that.
    events = by_engine(validate(stream_trace([Record.read(FAILURES)])))["fake:script.json"]
    counts = [event["args"]["chunks waiting"] for event in events if event["ph"] == "C"]
    assert set(counts) == {0, 1}
    assert counts[0] == 1
    assert counts[-1] == 0
    waits = [event["args"]["queue_ms"] for event in events if event.get("cat") == "chunk"]
    assert sum(wait > 0 for wait in waits) == counts.count(1)


def test_stages_lie_inside_each_other_and_texts_where_the_chunk_is_done() -> None:
    events = by_engine(validate(stream_trace([Record.read(FAILURES)])))["flaky.py:Flaky"]
    work = [event for event in events if event["ph"] == "X" and event["tid"] == WORK]
    search = next(event for event in work if event["args"].get("path") == "inference/search")
    inference = next(event for event in work if event["name"] == "inference" and event["ts"] <= search["ts"])
    assert search["name"] == "search"
    assert inference["ts"] <= search["ts"]
    texts = [event for event in events if event["ph"] == "i" and event["tid"] == TEXT]
    ends = {round(event["ts"] + event["dur"], 3) for event in work if event["cat"] in ("chunk", "failed")}
    assert {event["ts"] for event in texts if event["cat"] == "hypothesis"} <= ends
    assert any(event["name"].startswith("error: in chunk 4") for event in texts)


def test_several_runs_make_one_trace_with_a_process_each() -> None:
    engines = by_engine(validate(stream_trace([Record.read(REAL), Record.read(FAILURES)])))
    assert next(iter(engines)) == "latency-real: pocketsphinx"
    assert len(engines) == 5


@pytest.mark.parametrize("hostile", [one for one in HOSTILE if one and "\ud800" not in one])
def test_hostile_names_stay_short_text(hostile: str, tmp_path: Path) -> None:
    events = validate(stream_trace([Record.read(renamed(FAILURES, tmp_path / "run.jsonl", hostile))]))
    assert max(len(event["name"]) for event in events) <= 81


def test_a_run_without_streams_is_refused(tmp_path: Path) -> None:
    run = changed(REAL, tmp_path / "run.jsonl", lambda lines: lines[0].update(study="grid"))
    done = command("report", run, "--trace", tmp_path / "trace.json")
    assert done.code == 2
    assert not (tmp_path / "trace.json").exists()
