"""`stopwav.analyse` over traces made by hand, broken ones, and real ones."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stopwav
from stopwav.profiling import trace_file
from stopwav.profiling.analysis import TIMELINE_POINTS
from stopwav.profiling.trace_file import BrokenTrace, TraceFile
from stopwav.profiling.trace_spans import Track, busy_ns, nesting

Event = dict[str, Any]


def span(name: str, start: float, length: float, cat: str = "cpu_op", thread: object = 1, **args: object) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": thread, "ts": start, "dur": length, "args": args}


def memory(at: float, total: object, kind: int = 0, number: int = -1) -> Event:
    args = {"Total Allocated": total, "Bytes": 1, "Device Type": kind, "Device Id": number}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 9, "tid": 1, "ts": at, "args": args}


def write(path: Path, events: Sequence[object]) -> Path:
    text = json.dumps({"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events, "traceName": "x"})
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def by_name(rows: Sequence[Any]) -> dict[str, Any]:
    return {row.name: row for row in rows}


HAND_MADE = [
    # Thread 1: linear [0, 100] holds addmm [10, 60], which holds copy [20, 30], and another copy [70, 80].
    span("addmm", 10, 50),
    span("linear", 0, 100),
    span("copy", 20, 10),
    span("copy", 70, 10),
    # Thread 2 overlaps it in time and is nested in nothing.
    span("copy", 5, 40, thread=2),
    # Recursion: the outer one's whole time holds the inner one's. Of two inner ones each is a call; an only one is
    # another overload of the same call, as in torch.profiler's table.
    span("tree", 200, 30),
    span("tree", 205, 5),
    span("leaf", 210, 10),
    span("tree", 300, 30),
    span("tree", 310, 10),
    # Device 0: [0, 10], [5, 25] on another stream, idle to 75, [75, 100]: busy 50 of 100. Device 1 is never idle.
    span("gemm", 1000, 10, "kernel", 7, device=0),
    span("gemm", 1005, 20, "kernel", 8, device=0),
    span("Memcpy HtoD", 1075, 25, "gpu_memcpy", 7, device=0),
    span("relu", 1000, 50, "kernel", 7, device=1),
    # Drawn over the others, on the device and on the host: neither work.
    span("ProfilerStep#1", 1000, 5000, "gpu_user_annotation", 7, device=0),
    {**span("PyTorch Profiler (0)", -10, 9000, "Trace", "PyTorch Profiler"), "pid": "Spans"},
    {"ph": "M", "name": "process_name", "pid": 9, "args": {"name": "python"}},
    memory(40, 300),
    memory(30, 100),
    memory(50, 200),
    memory(60, 5000, 1, 0),
]


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 20])
def test_every_number_is_the_one_on_paper(
    tmp_path: Path, name: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_file, "CHUNK_CHARS", chunk)
    write(tmp_path / name, HAND_MADE)
    found = stopwav.analyse(tmp_path, report=False)
    microseconds = {
        one.name: (one.calls, round(1e6 * one.self_s, 6), round(1e6 * one.total_s, 6)) for one in found.operators
    }
    assert microseconds == {
        "linear": (1, 40, 100),
        "addmm": (1, 40, 50),
        "leaf": (1, 10, 10),
        "copy": (3, 60, 60),
        "tree": (3, 50, 60),
    }
    assert found.operators[0].name == "copy"
    kernels = {one.name: (one.calls, round(1e6 * one.total_s, 6)) for one in found.kernels}
    assert kernels == {"gemm": (2, 30), "relu": (1, 50), "Memcpy HtoD": (1, 25)}
    assert [(one.device, one.idle_share) for one in found.devices] == [("0", pytest.approx(0.5)), ("1", 0)]
    assert found.idle_share == pytest.approx(50 / 150)  # a ratio of sums
    cpu, cuda = found.memory
    assert (cpu.device, cpu.peak_bytes, cpu.peak_at_s) == ("cpu", 300, pytest.approx(40e-6))
    assert cpu.points == ((pytest.approx(30e-6), 100), (pytest.approx(40e-6), 300), (pytest.approx(50e-6), 200))
    assert (cuda.device, cuda.peak_bytes) == ("cuda:0", 5000)
    assert found.notes == ()
    assert found.skipped == ()
    table = str(found)
    for text in ("copy", "60.0 µs", "gemm", "50.0%", "5.00 kB"):
        assert text in table


@pytest.mark.parametrize(("track", "kind"), [("stages", "stage"), ("modules", "module")])
def test_a_track_drawn_over_the_threads_is_no_thread(tmp_path: Path, track: str, kind: str) -> None:
    """The call [0, 100] holds its encoder [0, 60]; the operators below them take 50 + 30, and that is all the time."""
    drawn = [span("call", 0, 100, kind, track), span("encoder", 0, 60, kind, track)]
    write(tmp_path / "trace.json", [span("addmm", 0, 50), span("copy", 60, 30), *drawn])
    found = stopwav.analyse(tmp_path, report=False)
    assert {one.name: round(1e6 * one.self_s, 6) for one in found.operators} == {"addmm": 50, "copy": 30}
    own = {one.name: (round(1e6 * one.self_s, 6), round(1e6 * one.total_s, 6)) for one in found.stages}
    assert own == {"encoder": (60, 60), "call": (40, 100)}
    # Shares are of the time of the table that they stand in.
    table = str(found)
    assert all(text in table for text in ("62.5%", "37.5%", "60.0%", "40.0%"))


def test_files_are_added_up_and_one_file_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    one = write(tmp_path / "below" / "one.json", [span("a", 0, 2)])
    write(tmp_path / "two.json.gz", [span("a", 0, 3)])
    both = stopwav.analyse(tmp_path, report=False)
    assert both.files == (str(Path("below") / "one.json"), "two.json.gz")
    assert (both.operators[0].calls, both.operators[0].self_s) == (2, pytest.approx(5e-6))
    assert stopwav.analyse(one, report=False).operators[0].calls == 1


def test_spans_in_two_events_and_a_bare_list(tmp_path: Path) -> None:
    def mark(phase: str, at: float, name: str = "") -> Event:
        return {"ph": phase, "name": name, "pid": 1, "tid": 1, "ts": at}

    events = [mark("B", 0, "outer"), mark("B", 2, "inner"), mark("E", 5), mark("E", 10), mark("E", 11)]
    (tmp_path / "a.json").write_text(json.dumps([*events, mark("B", 12, "open")]))
    found = stopwav.analyse(tmp_path, report=False)
    assert {one.name: round(1e6 * one.self_s, 6) for one in found.operators} == {"outer": 7, "inner": 3}
    assert any("1 events without a valid time" in note for note in found.notes)
    assert any("1 spans never end" in note for note in found.notes)


WHOLE = json.dumps({"traceEvents": [span("a", 0, 1), span("b", 1, 1)], "other": 1})


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.json", b"", "empty"),
        ("blank.json", b" \n ", "empty"),
        ("torn.json", WHOLE[: len(WHOLE) // 2].encode(), "truncated"),
        ("torn-late.json", WHOLE[:-1].rstrip("1").encode(), "truncated"),
        ("after.json", WHOLE[: WHOLE.index("]") + 1].encode(), "truncated"),
        ("list.json", b'[{"ph": "X"}, {"ph"', "truncated"),
        ("none.json", b'{"traceEvents": []}', "no events"),
        ("names.json", b'[{"ph": "M", "name": "process_name"}]', "no events"),
        ("run.json", b'{"kind":"header","study":"grid"}\n{"kind":"piece"}', "a run file"),
        ("after-nested.json", b'{"traceEvents": [], "more": {"a": 1}', "truncated"),
        ("trailing.json", b"[] and more", "corrupt"),
        ("bytes.json", b"\x00\x01\x02", "not JSON"),
        ("other.json", b'{"results": [1, 2]}', "no list of traceEvents"),
        ("numbers.json", b'{"traceEvents": [1, 2]}', "corrupt"),
        ("middle.json", b'{"traceEvents": [{"ph": "X", oops}, {"ph": "X"}]}', "truncated"),
        ("deep.json", b'{"traceEvents": [' + b'{"a":' * 200_000, "truncated"),
        ("digits.json", b'{"traceEvents": [{"ph": "X", "ts": ' + b"1" * 5000 + b"}]}", "corrupt"),
        ("digits-after.json", b'{"traceEvents": [], "more": ' + b"1" * 5000 + b"}", "truncated or corrupt"),
        ("manifest.json", b'[{"audio": "a.wav"}]', "a list of something else"),
        ("plain.json.gz", WHOLE.encode(), "corrupt"),
        ("torn.json.gz", gzip.compress(WHOLE.encode())[:-12], "truncated"),
        ("empty.json.gz", b"", "empty"),
    ],
)
def test_a_broken_file_is_named_and_skipped(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(stopwav.StopwavError, match="no trace to read"):
        stopwav.analyse(tmp_path, report=False)
    write(tmp_path / "good.json", [span("a", 0, 2)])
    found = stopwav.analyse(tmp_path, report=False)
    (skipped,) = found.skipped
    assert skipped.file == name
    assert reason in skipped.reason
    # Nothing of what the broken one held before its break is in the numbers.
    assert [(one.name, one.calls) for one in found.operators] == [("a", 1)]
    assert f"skipped {name}" in str(found)


def test_a_broken_event_does_not_pull_in_the_rest_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "CHUNK_CHARS", 100)
    monkeypatch.setattr(trace_file, "LONGEST_EVENT_CHARS", 1000)
    path = tmp_path / "a.json"
    path.write_text('{"traceEvents": [{"ph": oops' + " " * 100_000 + "}]}")
    with pytest.raises(BrokenTrace, match="does not end"):
        list(TraceFile(path).events())


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_trace_cut_anywhere_is_never_half_read(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    path = tmp_path_factory.mktemp("cut") / "a.json"
    path.write_text(WHOLE[: data.draw(st.integers(0, len(WHOLE) - 1))])
    with pytest.raises(BrokenTrace):
        list(TraceFile(path).events())


def test_events_that_make_no_sense_are_counted_and_left_out(tmp_path: Path) -> None:
    wrong = [
        {**span("a", 0, 1), "ts": "soon"},
        {**span("a", 0, 1), "ts": True},
        {**span("a", 0, 1), "dur": -1},
        {**span("a", 0, 1), "dur": math.nan},
        {**span("a", 0, 1), "ts": 10**400},
        memory(0, "much"),
    ]
    write(tmp_path / "a.json", [*wrong, {**span("good", 0, 1), "args": [1]}, {"ph": "X", "ts": 5, "dur": 1}, {}])
    found = stopwav.analyse(tmp_path, report=False)
    assert sorted(one.name for one in found.operators) == ["", "good"]
    assert any("6 events without a valid time" in note for note in found.notes)


def test_a_folder_without_traces_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(stopwav.StopwavError, match=r"no \.json or \.json\.gz file"):
        stopwav.analyse(tmp_path)
    with pytest.raises(stopwav.StopwavError, match="does not exist"):
        stopwav.analyse(tmp_path / "nowhere")


def test_a_long_timeline_is_thinned_and_keeps_its_peak(tmp_path: Path) -> None:
    totals = [(7919 * at) % 100_003 for at in range(25_000)]
    write(tmp_path / "a.json", [memory(at, total) for at, total in enumerate(totals)])
    (timeline,) = stopwav.analyse(tmp_path, report=False).memory
    assert len(timeline.points) <= TIMELINE_POINTS
    assert max(total for _, total in timeline.points) == timeline.peak_bytes == max(totals)


def test_overlapping_spans_are_noted(tmp_path: Path) -> None:
    write(tmp_path / "a.json", [span("a", 0, 10), span("b", 5, 10)])
    found = stopwav.analyse(tmp_path, report=False)
    assert {one.name: round(1e6 * one.self_s, 6) for one in found.operators} == {"a": 5, "b": 10}
    assert any("1 spans overlap" in note for note in found.notes)


intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), min_size=1, max_size=20)


def track_of(spans: Sequence[tuple[int, int]]) -> Track:
    track = Track()
    for number, (start, length) in enumerate(spans):
        track.add(start, length, number)
    return track


@given(intervals)
def test_busy_time_is_that_of_counting_ticks(spans: list[tuple[int, int]]) -> None:
    ticks = {tick for start, length in spans for tick in range(start, start + length)}
    busy, whole = busy_ns(track_of(spans))
    assert busy == len(ticks)
    assert whole == max(start + length for start, length in spans) - min(start for start, _ in spans)


@given(st.recursive(st.just([]), lambda inner: st.lists(inner, max_size=3), max_leaves=12))
def test_own_times_of_a_tree_add_up_to_its_root(tree: list[Any]) -> None:
    spans: list[tuple[int, int]] = []
    owns: list[int] = []

    def place(node: list[Any], start: int) -> int:
        """Where the node ends: one tick of its own before each child and one at its end."""
        position, now = len(spans), start
        spans.append((0, 0))
        owns.append(len(node) + 1)
        for child in node:
            now = place(child, now + 1)
        spans[position] = (start, now + 1 - start)
        return now + 1

    place(tree, 0)
    assert nesting(track_of(spans)).own_ns == owns
    assert sum(owns) == spans[0][1]


def test_the_closing_bracket_of_a_list_may_be_missing(tmp_path: Path) -> None:
    """The format allows it, for programs that are killed."""
    (tmp_path / "a.json").write_text(json.dumps([span("a", 0, 1), span("b", 1, 1)])[:-1] + ",\n")
    analysis = stopwav.analyse(tmp_path, report=False)
    assert [row.name for row in analysis.operators] == ["a", "b"]
    assert any("no closing bracket" in note for note in analysis.notes)


def test_fractions_of_a_microsecond_far_from_zero_are_exact(tmp_path: Path) -> None:
    start = 3992121118342.59
    write(
        tmp_path / "a.json",
        [span("outer", start, 10.003), span("inner", start + 1, 0.001), span("inner", start + 2, 1)],
    )
    rows = by_name(stopwav.analyse(tmp_path, report=False).operators)
    assert [round(1e6 * rows[name].self_s, 3) for name in ("outer", "inner")] == [9.002, 1.001]


def test_several_places_and_orders(tmp_path: Path) -> None:
    first = write(tmp_path / "a.json", [span("long", 0, 9), span("often", 0, 1), span("often", 2, 1)])
    second = write(tmp_path / "b.json.gz", [span("often", 0, 1)])
    both = stopwav.analyse(first, second, report=False)
    assert both.files == (str(first), str(second))
    assert [(row.name, row.calls) for row in both.operators] == [("long", 1), ("often", 3)]
    ordered = stopwav.analyse(first, second, sort="calls", report=False).operators
    assert [row.name for row in ordered] == ["often", "long"]
    with pytest.raises(stopwav.StopwavError, match=r"sort 'self': there are own, total, calls, name"):
        stopwav.analyse(first, sort="self", report=False)  # type: ignore[arg-type]


def test_our_own_traces_can_be_analysed(tmp_path: Path) -> None:
    from stopwav.record import Record
    from stopwav.studies.latency.stream_trace import stream_trace

    record = Record.read(Path(__file__).parent.parent / "data" / "latency-real.jsonl")
    (tmp_path / "streams.json").write_text(json.dumps(stream_trace([record])))
    found = stopwav.analyse(tmp_path, report=False)
    kinds = {one.kind for one in found.operators}
    assert {"utterance", "chunk", "stage"} <= kinds
    assert all(one.self_s >= 0 for one in found.operators)
