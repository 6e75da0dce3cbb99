"""Every streaming metric on traces small enough to be worked out on paper."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav.speech.corpus import Word
from stopwav.speech.events import Chunk, Stage, Trace, trace_of
from stopwav.speech.lagging import backlog_slopes
from stopwav.speech.latency import (
    ShownText,
    algorithmic_latency,
    committing_texts,
    erased_words,
    final_latency,
    final_words,
    first_word_latency,
    first_word_text,
    shown_texts,
    unstable_words,
    waterfall,
    word_delays,
)
from stopwav.speech.stored_trace import trace_from_json
from stopwav.speech.waterfall import WATERFALL

# "red fox ran" over 1 s of audio in chunks of 0.25 s, each of which takes 0.1 s, the second 0.4 s.
WORDS = (Word("red", 0.10, 0.30), Word("fox", 0.30, 0.55), Word("ran", 0.60, 0.90))


def chunk(due: float, start: float, done: float, *texts: str, **stages: float) -> Chunk:
    return Chunk(due, start, done, tuple(Stage(name, 0.0, seconds) for name, seconds in stages.items()), texts)


TRACE = trace_of(
    audio_s=1.0,
    chunk_s=0.25,
    lookahead_s=0.0,
    chunks=(
        chunk(0.25, 0.25, 0.35, features=0.02, inference=0.07),
        chunk(0.50, 0.50, 0.90, "red box", features=0.02, copy=0.01, inference=0.30, post=0.05),
        chunk(0.75, 0.90, 1.00, "red fox", inference=0.10),
        chunk(1.00, 1.00, 1.10, "bed fox ran"),
        chunk(1.00, 1.10, 1.30, "Red fox ran.", inference=0.2),
    ),
)


DONE_S = TRACE.done_s.tolist()


def slope(trace: Trace) -> float:
    (found,) = backlog_slopes(trace.due_s[:-1], trace.queue_s[:-1], np.array([len(trace.due_s) - 1]))
    return float(found)


def test_chunk_lag_is_queue_plus_service() -> None:
    third = list(TRACE.chunks())[2]
    assert third.queue_s == pytest.approx(0.15)
    assert third.service_s == pytest.approx(0.10)
    assert third.lag_s == pytest.approx(0.25)


def test_stages_claim_their_part_and_other_is_the_rest() -> None:
    seconds = TRACE.stage_seconds
    assert list(seconds) == ["features", "inference", "copy", "post", "other"]
    assert seconds["other"] == pytest.approx([0.01, 0.02, 0.0, 0.10, 0.0])
    assert seconds["features"] == pytest.approx([0.02, 0.02, 0, 0, 0])


def test_a_nested_stage_is_not_counted_twice() -> None:
    nested = trace_of(1.0, 1.0, 0.0, [chunk(0, 0, 1.0, **{"inference": 0.8, "inference/search": 0.5})])
    seconds = {path: values.tolist() for path, values in nested.stage_seconds.items()}
    assert seconds == {"inference": [0.8], "inference/search": [0.5], "other": [pytest.approx(0.2)]}


def test_word_latency_is_from_the_end_of_the_word_to_its_first_correct_appearance() -> None:
    red, fox, ran = word_delays(TRACE, WORDS, shown_texts(TRACE.texts))
    assert red.latency_s == pytest.approx(0.90 - 0.30)
    assert fox.latency_s == pytest.approx(1.00 - 0.55)
    assert ran.latency_s == pytest.approx(1.10 - 0.90)


def test_stabilisation_runs_to_the_last_change() -> None:
    red, fox, ran = word_delays(TRACE, WORDS, shown_texts(TRACE.texts))
    # "red" was lost to "bed" and came back with the final text.
    assert red.stabilisation_s == pytest.approx(1.30 - 0.90)
    assert red.committed_s == pytest.approx(1.30 - 0.30)
    assert fox.stabilisation_s == 0
    assert ran.committed_s == pytest.approx(1.10 - 0.90)


def test_waterfall_of_a_word_on_paper() -> None:
    red, _, ran = word_delays(TRACE, WORDS, shown_texts(TRACE.texts))
    assert red.waterfall == pytest.approx(
        {
            "buffering": 0.20,  # ends at 0.30, its chunk at 0.50
            "lookahead": 0.0,
            "emission": 0.0,  # shown by the first chunk that could
            "queue": 0.0,
            "features": 0.02,
            "copy": 0.01,
            "inference": 0.30,
            "post": 0.05,
            "other": 0.02,
            "network": 0.0,
            "server": 0.0,
        }
    )
    assert ran.waterfall is not None
    assert ran.waterfall["buffering"] == pytest.approx(0.10)
    assert ran.waterfall["other"] == pytest.approx(0.10)


def test_look_ahead_and_emission_are_told_apart() -> None:
    trace = trace_of(2.0, 0.5, 0.1, tuple(chunk(0.5 * k, 0.5 * k, 0.5 * k + 0.01) for k in range(1, 5)))
    # Ends at 0.45: the chunk that ends at 0.5 lacks 0.05 s of look-ahead, so the next is the first that could show it.
    parts = waterfall(trace, Word("x", 0.2, 0.45), ShownText(2, 0, ["x"], 0))
    assert parts["lookahead"] == pytest.approx(0.1)
    assert parts["buffering"] == pytest.approx(1.0 - 0.45 - 0.1)
    assert parts["emission"] == pytest.approx(0.5)


def test_a_word_shown_before_it_ends_has_a_negative_latency_which_is_kept() -> None:
    trace = trace_of(1.0, 0.5, 0.0, (chunk(0.5, 0.5, 0.6, "yes"), chunk(1.0, 1.0, 1.1), chunk(1.0, 1.1, 1.2)))
    (delay,) = word_delays(trace, (Word("yes", 0.2, 0.8),), shown_texts(trace.texts))
    assert delay.latency_s == pytest.approx(-0.2)
    assert delay.waterfall is not None
    assert delay.waterfall["emission"] == pytest.approx(-0.5)
    assert sum(delay.waterfall.values()) == pytest.approx(-0.2)


def test_a_word_never_recognised_has_no_latency_and_one_lost_at_the_end_no_stable_time() -> None:
    trace = trace_of(1.0, 0.5, 0.0, (chunk(0.5, 0.5, 0.6, "yes"), chunk(1.0, 1.0, 1.1, "yet")))
    yes, no = word_delays(trace, (Word("yes", 0.1, 0.3), Word("no", 0.6, 0.8)), shown_texts(trace.texts))
    assert yes.latency_s == pytest.approx(0.3)
    assert yes.stabilisation_s is None
    assert no.latency_s is None


def test_a_word_is_not_credited_before_it_is_spoken() -> None:
    words = (Word("the", 0.0, 0.2), Word("cat", 0.3, 0.5), Word("the", 1.2, 1.4))
    texts = ("cat the", "the cat the")
    trace = trace_of(1.5, 0.75, 0.0, (chunk(0.75, 0.75, 0.8, texts[0]), chunk(1.5, 1.5, 1.6, texts[1])))
    delays = word_delays(trace, words, shown_texts(trace.texts))
    assert delays[2].shown_s == pytest.approx(1.6)


def test_of_two_equal_words_the_earlier_is_shown_first() -> None:
    words = (Word("no", 0.0, 0.2), Word("no", 0.3, 0.5))
    trace = trace_of(1.0, 1.0, 0.0, (chunk(1.0, 1.0, 1.1, "no"), chunk(1.0, 1.1, 1.2, "no no")))
    first, second = word_delays(trace, words, shown_texts(trace.texts))
    assert (first.shown_s, second.shown_s) == (pytest.approx(1.1), pytest.approx(1.2))


def test_first_word_final_text_and_algorithmic_latency() -> None:
    first = first_word_text(shown_texts(TRACE.texts))
    shown_s = float(TRACE.text_s[first])
    assert first_word_latency(shown_s, WORDS[0].start_s) == (pytest.approx(0.80), pytest.approx(0.90))
    assert first_word_latency(shown_s, None) == (None, pytest.approx(0.90))
    assert first_word_text([]) == -1
    assert first_word_latency(None, WORDS[0].start_s) == (None, None)
    assert final_latency(float(TRACE.due_s[-1]), DONE_S[-1], WORDS[-1].end_s) == (
        pytest.approx(0.40),
        pytest.approx(0.30),
    )
    assert algorithmic_latency(0.160, 0.040) == (pytest.approx(0.200), pytest.approx(0.120))


def test_revised_words_and_erasure_on_paper() -> None:
    texts = shown_texts(TRACE.texts)
    # box → fox, red → bed, bed → red.
    assert unstable_words(texts) == 3
    # "red box" → "red fox" erases 1; → "bed fox ran" erases 2; → "red fox ran" erases 3.
    assert erased_words(texts) == 1 + 2 + 3


def test_words_that_only_move_are_not_revised() -> None:
    trace = trace_of(1.0, 1.0, 0.0, (chunk(1, 1, 2, "b c"), chunk(1, 2, 3, "a b c")))
    assert unstable_words(shown_texts(trace.texts)) == 0
    assert erased_words(shown_texts(trace.texts)) == 2


def test_a_word_is_committed_when_it_and_all_before_it_stay() -> None:
    commits = committing_texts(shown_texts(TRACE.texts))
    assert commits == [3, 3, 3]  # "bed" was lost with the last text
    calm = trace_of(1.0, 0.5, 0.0, (chunk(0.5, 0.5, 0.6, "a b"), chunk(1, 1, 1.1, "a c")))
    assert committing_texts(shown_texts(calm.texts)) == [0, 1]


def test_a_periodic_queue_is_no_backlog_and_a_growing_one_is() -> None:
    def stream(services: list[float]) -> Trace:
        chunks, done = [], 0.0
        for k, service in enumerate(services, start=1):
            start = max(0.1 * k, done)
            done = start + service
            chunks.append(chunk(0.1 * k, start, done))
        return trace_of(0.1 * len(services), 0.1, 0.0, (*chunks, chunk(0.1 * len(services), done, done)))

    decodes_every_half_second = stream([0.001, 0.001, 0.001, 0.001, 0.3] * 10)
    assert slope(decodes_every_half_second) == pytest.approx(0.0, abs=1e-9)
    too_slow = stream([0.15] * 50)
    assert slope(too_slow) == pytest.approx(0.5, rel=0.05)
    assert math.isnan(slope(stream([0.01] * 5)))


TEXTS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=6).map(" ".join)


@st.composite
def streams(draw: st.DrawFn) -> tuple[Trace, tuple[Word, ...]]:
    size = draw(st.floats(0.05, 0.5))
    count = draw(st.integers(1, 8))
    chunks, done = [], 0.0
    for k in range(1, count + 2):
        due = size * min(k, count)
        start = max(due, done)
        done = start + draw(st.floats(0, 1))
        share = draw(st.floats(0, 1))
        texts = draw(st.lists(TEXTS, max_size=2))
        chunks.append(Chunk(due, start, done, (Stage("inference", 0, share * (done - start)),), tuple(texts)))
    borders = sorted(draw(st.lists(st.floats(0, size * count), min_size=2, max_size=10)))
    words = tuple(Word(draw(st.sampled_from("abcd")), b, e) for b, e in zip(borders[::2], borders[1::2], strict=False))
    return trace_of(size * count, size, draw(st.floats(0, 0.3)), tuple(chunks)), words


@given(streams())
def test_the_waterfall_adds_up_to_the_latency_whatever_the_stream(stream: tuple[Trace, tuple[Word, ...]]) -> None:
    trace, words = stream
    for delay in word_delays(trace, words, shown_texts(trace.texts)):
        if delay.waterfall is None:
            assert delay.latency_s is None
        else:
            assert tuple(delay.waterfall) == WATERFALL
            assert sum(delay.waterfall.values()) == pytest.approx(delay.latency_s, abs=1e-9)
            assert delay.waterfall["lookahead"] >= 0


@given(streams())
def test_what_is_stable_was_shown_before_and_is_in_the_final_text(stream: tuple[Trace, tuple[Word, ...]]) -> None:
    trace, words = stream
    texts = shown_texts(trace.texts)
    delays = word_delays(trace, words, texts)
    stable = [delay for delay in delays if delay.stable_s is not None]
    assert all(delay.shown_s is not None and delay.stabilisation_s >= 0 for delay in stable)  # type: ignore[operator]
    assert len(stable) <= len(final_words(texts))
    assert unstable_words(texts) <= erased_words(texts)


@given(streams())
def test_a_trace_survives_its_file(stream: tuple[Trace, tuple[Word, ...]]) -> None:
    trace, _ = stream
    again = trace_from_json(trace.to_json())
    assert again.text == trace.text
    for before, after in zip(trace.chunks(), again.chunks(), strict=True):
        assert after.lag_s == pytest.approx(before.lag_s, abs=1e-8)
        assert after.queue_s >= 0
        assert after.hypotheses == before.hypotheses
