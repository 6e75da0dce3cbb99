"""`stopwav.merge_traces` and `stopwav traces merge`: what comes out is a trace, and the sum of what went in."""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from command_line import command as run
from hypothesis import given, settings
from hypothesis import strategies as st

import stopwav

Event = dict[str, Any]
TRACES = Path(__file__).parent.parent / "data" / "traces"
BASE = "baseTimeNanoseconds"


def span(name: str, start: float, length: float, **more: object) -> Event:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 9, "tid": 1, "ts": start, "dur": length, **more}


def write(path: Path, events: list[Event], **metadata: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"schemaVersion": 1, "traceEvents": events, **metadata}).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def read(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    trace: dict[str, Any] = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    check_format(trace)
    return trace


def check_format(trace: dict[str, Any]) -> None:
    """The rules of the Trace Event Format that viewers rely on."""
    required = {"X": {"name", "ts", "dur"}, "M": {"name", "args"}, "i": {"name", "ts"}, "C": {"name", "ts", "args"}}
    joined = {phase: {"name", "ts", "id", "cat"} for phase in "stfbne"}
    named = set()
    for event in trace["traceEvents"]:
        assert required.get(event["ph"], joined.get(event["ph"], {"ts"})) <= set(event), event
        assert type(event["pid"]) is int
        assert "tid" in event or event["ph"] in "MiIC"
        assert all(math.isfinite(event[key]) for key in ("ts", "dur") if key in event)
        if event["ph"] == "M" and event["name"] == "process_name":
            assert event["pid"] not in named, "a process named twice"
            named.add(event["pid"])
    assert {event["pid"] for event in trace["traceEvents"]} <= named
    # A flow that begins once ends once, in the same process.
    flows = Counter((event["ph"], event["id"], event["cat"]) for event in trace["traceEvents"] if event["ph"] in "sf")
    assert set(flows.values()) <= {1}


names = st.sampled_from(["linear", "addmm", "copy"])


@st.composite
def traces(draw: Any) -> list[Event]:
    """Spans of two processes, some of which launched kernels, stages over them, memory and a flow."""
    events: list[Event] = []
    start = 0
    for number in range(1, draw(st.integers(2, 6))):
        length, place = draw(st.integers(10, 40)), {"pid": draw(st.sampled_from([1, 2])), "tid": 1}
        events.append(span(draw(names), start, length, **place, args={"External id": number}))
        events.append(span(draw(names), start + 2, draw(st.integers(1, 7)), **place))
        kernel = {
            "cat": "kernel",
            "pid": 0,
            "tid": 7,
            "args": {"External id": number, "correlation": number, "device": 0},
        }
        events.append(span("gemm", start + 5, draw(st.integers(1, 9)), **kernel))
        events.append({"ph": "s", "id": number, "cat": "ac2g", "name": "ac2g", "ts": start + 3, **place})
        events.append({"ph": "f", "id": number, "cat": "ac2g", "name": "ac2g", "ts": start + 5, "pid": 0, "tid": 7})
        used = {"Total Allocated": draw(st.integers(0, 99)), "Bytes": draw(st.integers(-9, 9)), "Device Type": 0}
        events.append({"ph": "i", "name": "[memory]", "ts": start + 1, "args": used, **place})
        start += length
    events.append(span("encoder", 0, start, cat="stage", tid="stages"))
    return [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}, *events]


@settings(max_examples=40, deadline=None)
@given(st.lists(traces(), min_size=1, max_size=4), st.sampled_from(["clock", "start"]), st.booleans())
def test_the_analysis_of_the_merged_is_the_sum_of_the_analyses(
    tmp_path_factory: pytest.TempPathFactory, sources: list[list[Event]], align: Any, based: bool
) -> None:
    folder = tmp_path_factory.mktemp("merge")
    metadata = [{BASE: 10**18 + 1234567 * index} if based else {} for index in range(len(sources))]
    paths = [write(folder / f"{i}.json", events, **metadata[i]) for i, events in enumerate(sources)]
    output = folder / "out" / "merged.json.gz"
    merged = stopwav.merge_traces(paths, output, align=align)
    trace = read(output)
    assert merged.events == sum(map(len, sources))
    one, several = stopwav.analyse(output, report=False), stopwav.analyse(*paths, report=False)
    for table in ("operators", "stages", "kernels", "launches"):
        assert getattr(one, table) == getattr(several, table)
    devices, memory = (
        sorted(use.busy_s for use in one.devices),
        sorted((line.peak_bytes, len(line.points)) for line in one.memory),
    )
    assert devices == sorted(use.busy_s for use in several.devices)
    assert memory == sorted((line.peak_bytes, len(line.points)) for line in several.memory)
    # Merging what is merged changes no time either.
    stopwav.merge_traces([output], folder / "again.json")
    assert stopwav.analyse(folder / "again.json", report=False).operators == one.operators
    assert len(trace["sources"]) == len(sources)


def test_processes_are_named_after_their_source_and_ids_do_not_meet(tmp_path: Path) -> None:
    def source(rank: int) -> list[Event]:
        return [
            {"ph": "M", "name": "process_name", "pid": 9, "args": {"name": "python"}},
            {"ph": "M", "name": "process_sort_index", "pid": 9, "args": {"sort_index": 7}},
            {"ph": "M", "name": "thread_name", "pid": 9, "tid": 1, "args": {"name": "main"}},
            span("a", 1, 2, args={"External id": 5, "rank": rank}),
            span("k", 2, 1, cat="kernel", pid=0, tid=7, args={"External id": 5, "correlation": 0}),
            span("PyTorch Profiler (0)", 0, 9, cat="Trace", pid="Spans", tid="PyTorch Profiler"),
            *({"ph": phase, "id": 5, "cat": "ac2g", "name": "ac2g", "ts": 2, "pid": 9, "tid": 1} for phase in "sf"),
            *({"ph": phase, "id2": {"global": "0x5"}, "cat": "c", "name": "n", "ts": 2, "pid": 9} for phase in "be"),
            {"ph": "C", "name": "queue", "ts": 2, "pid": 9, "id": 5, "args": {"waiting": 1}},
        ]

    paths = [write(tmp_path / f"rank{rank}" / "host_9.1.pt.trace.json", source(rank)) for rank in (0, 1)]
    merged = stopwav.merge_traces(paths, tmp_path / "merged.json")
    # The ids of asynchronous events are in `id2`.
    trace = json.loads((tmp_path / "merged.json").read_text())
    named = {event["pid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"}
    assert sorted(named.values()) == sorted(
        f"rank{rank}/host_9.1{name}" for rank in (0, 1) for name in (": python", "", ": Spans")
    )
    first, second = merged.sources
    assert first.processes["9"] == 9  # its own number, as that was free
    assert not set(first.processes.values()) & set(second.processes.values())
    by_source = [
        [event for event in trace["traceEvents"] if event["pid"] in source.processes.values()]
        for source in merged.sources
    ]
    ids = [{event["id"] for event in events if event["ph"] in "sf"} for events in by_source]
    assert [len(each) for each in ids] == [1, 1]
    assert ids[0] != ids[1]
    for events, flow in zip(by_source, ids, strict=True):
        spans = {event["name"]: event["args"] for event in events if event["ph"] == "X" and "args" in event}
        # A flow and the ids of an operator and its kernel stay the same number, and none stays none.
        assert {spans["a"]["External id"], spans["k"]["External id"]} == flow
        assert spans["k"]["correlation"] == 0
        (asynchronous,) = {event["id2"]["global"] for event in events if event["ph"] in "be"}
        assert asynchronous not in flow
        assert [event["id"] for event in events if event["ph"] == "C"] == [5]  # of its process alone
    order = {e["pid"]: e["args"]["sort_index"] for e in trace["traceEvents"] if e["name"] == "process_sort_index"}
    assert max(order[pid] for pid in first.processes.values()) < min(order[pid] for pid in second.processes.values())


def starts(path: Path) -> dict[str, float]:
    return {event["name"]: event["ts"] for event in read(path)["traceEvents"] if event["ph"] == "X"}


def test_times_are_aligned_by_the_clock_where_it_is_known(tmp_path: Path) -> None:
    output = tmp_path / "merged.json"
    early = write(tmp_path / "early.json", [span("early", 5.5, 1)], **{BASE: 1_700_000_000_000_000_000})
    late = write(tmp_path / "late.json", [span("late", 1, 1)], **{BASE: 1_700_000_002_000_000_000})
    merged = stopwav.merge_traces([late, early], output)
    assert starts(output) == {"early": 0, "late": 1999995.5}
    assert read(output)[BASE] == 1_700_000_000_000_005_500
    assert [source.first_s for source in merged.sources] == [pytest.approx(1.9999955), 0]
    # With one base for all, nothing moves: not a digit is lost.
    same = write(tmp_path / "same.json", [span("same", 3992121118342.591, 1)], **{BASE: 1_700_000_000_000_000_000})
    stopwav.merge_traces([early, same], output)
    assert starts(output) == {"early": 5.5, "same": 3992121118342.591}
    # Older files of torch.profiler have microseconds since 1970.
    old = write(tmp_path / "old.json", [span("old", 1_700_000_001_000_000, 1)])
    stopwav.merge_traces([early, old], output)
    assert starts(output) == {"early": 0, "old": 999994.5}
    # One that does not say is moved to the first of the others, and that is said.
    unknown = write(tmp_path / "unknown.json", [span("unknown", 77, 1), span("next", 80, 1)])
    merged = stopwav.merge_traces([early, late, unknown], output)
    assert starts(output) == {"early": 0, "late": 1999995.5, "unknown": 0, "next": 3}
    assert any("unknown: does not say" in note for note in merged.notes)
    # Where none says, all keep their times.
    merged = stopwav.merge_traces([unknown, write(tmp_path / "more.json", [span("more", 5, 1)])], output)
    assert starts(output) == {"unknown": 77, "next": 80, "more": 5}
    assert "not aligned" in merged.alignment
    stopwav.merge_traces([early, late, unknown], output, align="start")
    assert starts(output) == {"early": 0, "late": 0, "unknown": 0, "next": 3}


def test_metadata_that_agree_stay_and_the_others_are_kept_by_source(tmp_path: Path) -> None:
    common = {"displayTimeUnit": "ms", "profile_memory": 1}
    frames = {"1": {"name": "main"}, "2": {"name": "f", "parent": "1"}}
    one = write(
        tmp_path / "one.json",
        [span("a", 0, 1, sf=2)],
        **(common | {"deviceProperties": [{"id": 0}], "distributedInfo": {"rank": 0}, "stackFrames": frames}),
    )
    two = write(
        tmp_path / "two.json",
        [span("b", 0, 1)],
        **common,
        deviceProperties=[{"id": 0}, {"id": 1}],
        distributedInfo={"rank": 1},
    )
    stopwav.merge_traces([one, two], tmp_path / "merged.json")
    trace = read(tmp_path / "merged.json")
    assert (trace["displayTimeUnit"], trace["profile_memory"], trace["schemaVersion"]) == ("ms", 1, 1)
    assert trace["deviceProperties"] == [{"id": 0}, {"id": 1}]
    assert "distributedInfo" not in trace
    assert [source["metadata"]["distributedInfo"] for source in trace["sources"]] == [{"rank": 0}, {"rank": 1}]
    (event,) = (event for event in trace["traceEvents"] if event["name"] == "a")
    assert trace["stackFrames"][event["sf"]] == {"name": "f", "parent": "0:1"}
    assert trace["stackFrames"]["0:1"]["name"] == "main"


def test_real_traces_merge(tmp_path: Path) -> None:
    one, two = (write(tmp_path / name, [span("a", 0, 5)]) for name in ("bare.json", "other.json.gz"))
    one.write_text(json.dumps([span("a", 0, 5)]))
    cuda = TRACES / "cuda.json.gz"
    done = run("traces", "merge", one, two, cuda, cuda, "-o", tmp_path / "merged.pt.trace.json.gz", "--json")
    assert done.code == 0
    assert [source["name"] for source in json.loads(done.stdout)["sources"]] == [
        "bare",
        "other",
        "cuda (3)",
        "cuda (4)",
    ]
    read(tmp_path / "merged.pt.trace.json.gz")
    alone = {row.name: row.self_s for row in stopwav.analyse(cuda, report=False).launches}
    twice = {
        row.name: row.self_s for row in stopwav.analyse(tmp_path / "merged.pt.trace.json.gz", report=False).launches
    }
    assert twice == {name: pytest.approx(2 * self_s) for name, self_s in alone.items()}


def test_threads_and_times_that_viewers_do_not_read_are_rewritten(tmp_path: Path) -> None:
    """Perfetto keeps 32 bits of a thread's number, and some tools write times as texts."""
    large = [139627874611776, 139627874611777]
    events = [{"ph": "M", "name": "thread_name", "pid": 2**33, "tid": tid, "args": {"name": str(tid)}} for tid in large]
    events += [{**span(str(tid), 0, 1), "ts": "12.5", "dur": "1.5", "pid": 2**33, "tid": tid} for tid in large]
    path = write(tmp_path / "a.json", events)
    stopwav.merge_traces([path], tmp_path / "merged.json")
    merged = read(tmp_path / "merged.json")["traceEvents"]
    threads = {event["args"]["name"]: event["tid"] for event in merged if event["name"] == "thread_name"}
    spans = {event["name"]: (event["tid"], event["ts"], event["dur"]) for event in merged if event["ph"] == "X"}
    assert spans == {name: (tid, 12.5, 1.5) for name, tid in threads.items()}
    assert len(set(threads.values())) == 2
    assert all(event["tid"] < 2**32 and event["pid"] < 2**32 for event in merged)
    assert [us_of(row.self_s) for row in stopwav.analyse(path, report=False).operators] == [1.5, 1.5]


def us_of(seconds: float) -> float:
    return round(1e6 * seconds, 3)


def test_nothing_is_written_where_a_source_is_broken(tmp_path: Path) -> None:
    good, output = write(tmp_path / "good.json", [span("a", 0, 1)]), tmp_path / "out" / "merged.json"
    torn = tmp_path / "torn.json"
    torn.write_text(good.read_text()[:-9])
    empty = write(tmp_path / "empty.json", [])
    for place, text in ((torn, "truncated"), (empty, "no events"), (tmp_path / "none.json", "does not exist")):
        done = run("traces", "merge", good, place, "-o", output)
        assert done.code == 2
        assert text in done.stderr
        assert place.name in done.stderr
    assert not output.parent.exists()
    before = good.read_bytes()
    assert "would be overwritten" in run("traces", "merge", good, "-o", good).stderr
    assert good.read_bytes() == before
    assert "cannot be written" in run("traces", "merge", good, "-o", good / "merged.json").stderr
    assert "did you mean 'clock'" in run("traces", "merge", good, "-o", output, "--align", "clok").stderr
