"""The columns of streams: the numbers of each trace by itself, whole to the last digit, and faults by their stream."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_lagging import backlog, differentiable, lagging

from stopwav.speech.events import Chunk, Stage, Trace, trace_of
from stopwav.speech.latency import committing_texts, shown_texts, word_delays
from stopwav.speech.stored_trace import trace_from_json, trace_lists
from stopwav.speech.utterance import Utterance, Word
from stopwav.speech.waterfall import WATERFALL
from stopwav.studies import trace_batch
from stopwav.studies.chunk_columns import Times, Whole, chunk_block, whole
from stopwav.studies.stream_table import StreamTable
from stopwav.studies.stream_table_builder import StreamTableBuilder
from stopwav.studies.trace_batch import StreamFaultError
from stopwav.studies.utterance_table import UtteranceTable

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "d", "it's"]), max_size=6).map(" ".join)
# Seconds in whole nanoseconds, as run files hold them.
SECONDS = st.integers(0, 10**9).map(lambda units: units / 1e9)


@st.composite
def streams(draw: st.DrawFn) -> tuple[Trace, Utterance]:
    size_s, count = draw(st.sampled_from([0.1, 0.16, 1 / 3])), draw(st.integers(1, 9))
    chunks, done = [], 0.0
    for number in range(1, count + 2):
        due = round(size_s * min(number, count), 9)
        start = max(due, done)
        service = draw(SECONDS)
        done = round(start + service, 9)
        # Executed several times in a chunk, nested, or not at all.
        paths = draw(st.lists(st.sampled_from(["features", "inference", "inference/join", "own"]), max_size=4))
        stages = tuple(Stage(path, 0.0, round(service / 8, 9)) for path in paths)
        chunks.append(Chunk(due, start, done, stages, tuple(draw(st.lists(TEXTS, max_size=2)))))
    borders = sorted(draw(st.lists(st.floats(0, size_s * count), min_size=2, max_size=10)))
    words = tuple(Word(draw(st.sampled_from("abcd")), b, e) for b, e in zip(borders[::2], borders[1::2], strict=False))
    text = draw(st.sampled_from([None, " ".join(word.text for word in words) or "a"]))
    trace = trace_of(size_s * count, size_s, draw(st.sampled_from([0.0, 0.2])), chunks)
    return trace_from_json(json.loads(json.dumps(trace.to_json()))), Utterance("u", Path("u.wav"), text, words=words)


def table_of(each: list[tuple[Trace, Utterance]]) -> StreamTable:
    numbered = [Utterance(str(n), u.path, u.text, words=u.words) for n, (_, u) in enumerate(each)]
    builder = StreamTableBuilder(UtteranceTable.of(numbered))
    for number, (trace, _) in enumerate(each):
        builder.add(trace_lists(trace.to_json()), number, 0)
    return builder.table()


@given(st.lists(streams(), min_size=1, max_size=6), st.sampled_from([1, 20, 10**6]))
@settings(max_examples=60)
def test_columns_have_the_numbers_of_each_trace(each: list[tuple[Trace, Utterance]], most_chunks: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace_batch, "MOST_CHUNKS", most_chunks)
        table = table_of(each)
    chunks, start = table.chunks, 0
    quantities = {name: seconds() for name, seconds in chunks.quantities()}
    for number, (trace, _) in enumerate(each):
        own = slice(start, start + len(trace.due_s) - 1)
        start = own.stop
        assert quantities["chunk_lag"][own].tolist() == trace.lag_s[:-1].tolist()
        assert quantities["queue"][own].tolist() == trace.queue_s[:-1].tolist()
        assert quantities["service"][own].tolist() == trace.service_s[:-1].tolist()
        for path in chunks.paths:
            expected = trace.stage_seconds.get(path, np.zeros(len(trace.due_s)))[:-1]
            assert quantities[path][own] == pytest.approx(expected, rel=1e-12, abs=1e-15)
        assert table.service_s[number] == pytest.approx(float(trace.service_s.sum()), rel=1e-12)
    assert chunks.audio_sizes.tolist() == [len(trace.due_s) - 1 for trace, _ in each]


@given(st.lists(streams(), min_size=1, max_size=6))
@settings(max_examples=60)
def test_words_have_the_delays_of_each_trace(each: list[tuple[Trace, Utterance]]) -> None:
    table = table_of(each)
    words, start = table.words, 0
    for number, (trace, utterance) in enumerate(each):
        delays = word_delays(trace, utterance.words, shown_texts(trace.texts))
        own = slice(start, start + len(delays))
        start = own.stop
        for column, name in ((words.shown_s, "shown_s"), (words.stable_s, "stable_s")):
            assert [None if np.isnan(s) else s for s in column[own].tolist()] == [getattr(d, name) for d in delays]
        for part in WATERFALL:
            values = [delay.waterfall[part] for delay in delays if delay.waterfall is not None]
            stable = [d.waterfall[part] for d in delays if d.waterfall is not None and d.stable_s is not None]
            assert words.parts[part].shown[number] == pytest.approx(sum(values), abs=1e-9)
            assert words.parts[part].stable[number] == pytest.approx(sum(stable), abs=1e-9)
            assert words.parts[part].least <= min(values, default=np.inf) + 1e-12
    assert words.end_s.tolist() == [word.end_s for _, utterance in each for word in utterance.words]


@given(st.lists(streams(), min_size=1, max_size=6))
@settings(max_examples=60)
def test_facts_are_those_of_each_trace(each: list[tuple[Trace, Utterance]]) -> None:
    table = table_of(each)
    for number, (trace, _) in enumerate(each):
        texts, errors = shown_texts(trace.texts), table.texts[number].errors
        committed = [texts[place] for place in committing_texts(texts)]
        heard = [float(trace.due_s[text.chunk]) for text in committed]
        passed = [float(trace.text_s[text.number]) for text in committed]
        expected = {"backlog_slope": backlog(trace.due_s[:-1].tolist(), trace.queue_s[:-1].tolist())}
        for suffix, delays in (("", heard), ("_ca", passed)):
            expected[f"dal{suffix}"] = differentiable(delays, trace.audio_s)
            if errors is not None:
                expected[f"al{suffix}"] = lagging(delays, trace.audio_s, errors.words)
                expected[f"laal{suffix}"] = lagging(delays, trace.audio_s, max(errors.words, len(delays)))
        for name, value in expected.items():
            own = float(table.fact(name)[number])
            assert (None if np.isnan(own) else own) == (None if value is None else pytest.approx(value, rel=1e-9)), name
        assert float(table.fact("final_latency_from_end")[number]) == float(trace.done_s[-1] - trace.due_s[-1])


@given(st.lists(st.integers(-(2**31) + 1, 2**31 - 1), max_size=40), st.integers(0, 60))
def test_whole_numbers_come_back(some: list[int], zeros: int) -> None:
    values = np.array([*some, *[7] * zeros], dtype=float)
    packed = whole(values)
    assert packed is not None
    assert packed.values().tolist() == values.tolist()
    if zeros > 3 * len(some):
        assert packed.others.size <= len(some)
    assert whole(np.append(values, 2.0**31)) is None


@pytest.mark.parametrize("far_s", [0.0, 1e-10, 3.0, 1e298])
def test_times_that_are_no_steps_of_nanoseconds_are_kept_as_they_are(far_s: float) -> None:
    due_s = np.array([0.1, 0.2, 0.3, 0.3]) + np.array([0, 0, far_s, far_s])
    times = Times(due_s, np.round(due_s + 0.01, 9), np.round(due_s + 0.02, 9))
    block = chunk_block(np.array([4]), times, {"features": np.array([1e-9, 0.25, 1 / 3, 0.0])})
    for seconds, expected in zip(block.times, times, strict=True):
        assert seconds.tolist() == expected.tolist()
    assert block.stage_s("features").tolist() == [1e-9, 0.25, 1 / 3, 0.0]
    assert block.stage_s("inference").tolist() == [0.0] * 4
    assert isinstance(block.steps, Times) == (far_s > 0)


def test_times_of_nanoseconds_take_four_bytes_or_less() -> None:
    due_s = np.round(0.1 * np.arange(1, 201), 9)
    times = Times(due_s, due_s, np.round(due_s + np.random.default_rng(0).random(200), 9))
    steps = chunk_block(np.array([200]), times, {}).steps
    assert not isinstance(steps, Times)
    assert all(isinstance(step, Whole) for step in steps)
    assert [step.others.size for step in steps] == [0, 0, 200]


def trace_json(**changes: object) -> dict[str, object]:
    chunks = [Chunk(0.1 * n, 0.1 * n, 0.1 * n + 0.05, (Stage("own", 0.0, 0.01),), ("a",)) for n in (1, 2, 3)]
    return {**trace_of(0.3, 0.1, 0.0, chunks).to_json(), **changes}


STAGES = {"paths": ["own"], "path": [0], "chunk": [0], "start": [0.0], "duration": [0.1]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"done": [0.15, 0.1, 0.35]}, "chunk 2 is done before it starts"),
        ({"due": [0.1, 0.2, float("nan")]}, "chunk 3 has a time that is not a number"),
        ({"stages": {**STAGES, "chunk": [3]}}, "a stage is of a chunk or path that is not there"),
        ({"stages": {**STAGES, "path": [-1]}}, "a stage is of a chunk or path that is not there"),
        ({"stages": {**STAGES, "duration": [-0.1]}}, "a stage has a duration below 0"),
        ({"stages": {**STAGES, "start": [float("inf")]}}, "a stage has a duration below 0, or a time that is not"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_fault_is_that_of_its_stream(changes: dict[str, object], said: str) -> None:
    builder = StreamTableBuilder(UtteranceTable.of([Utterance("u", Path("u.wav"), "a")]))
    for fields in (trace_json(), trace_json(), trace_json(**changes), trace_json()):
        builder.add(trace_lists(fields), 0, 0)
    with pytest.raises(StreamFaultError, match=said) as raised:
        builder.table()
    assert raised.value.index == 2
