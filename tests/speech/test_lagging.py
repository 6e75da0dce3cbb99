"""Lagging and backlog: on paper, and of many streams at once as of each by itself."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_lagging import backlog, differentiable, lagging

from stopwav.speech.lagging import Laggings, backlog_slopes, laggings

DELAYS = st.lists(st.floats(0, 20, allow_nan=False), max_size=8).map(sorted)
# Delays, audio, and words of the reference, -1 for none.
STREAMS = st.lists(st.tuples(DELAYS, st.floats(0, 12, allow_nan=False), st.integers(-1, 9)), max_size=12)


def of(streams: Sequence[tuple[Sequence[float], float, int]]) -> Laggings:
    flat = [delay for delays, _, _ in streams for delay in delays]
    sizes, audio_s, words = ([len(s[0]) for s in streams], [s[1] for s in streams], [s[2] for s in streams])
    return laggings(np.array(flat, float), np.array(sizes, int), np.array(audio_s, float), np.array(words, int))


def test_lagging_on_paper() -> None:
    # Each word a second late, and an ideal word a second.
    assert of([([1.0, 2.0, 3.0], 3.0, 3)]).al.tolist() == [1.0]
    # The second word is the first after all audio; the third does not count.
    assert of([([1.0, 3.0, 3.0], 3.0, 3)]).al.tolist() == [(1.0 + 2.0) / 2]
    delays = [0.5 * index for index in range(1, 7)]
    six = of([(delays, 3.0, 3)])
    assert six.al == pytest.approx(sum(delay - index for index, delay in enumerate(delays)) / 6)
    assert six.laal == pytest.approx(0.5)
    assert of([([1.0, 3.0, 3.0], 3.0, -1)]).dal == pytest.approx((1 + 2 + 2) / 3)
    assert of([([4.0], 3.0, 1)]).al.tolist() == [4.0]


def test_what_has_no_word_no_audio_or_no_reference_has_no_lag() -> None:
    found = of([([], 3.0, 3), ([1.0], 0.0, 1), ([1.0], 3.0, 0), ([1.0], 3.0, -1)])
    assert np.isnan(found.al).tolist() == [True, True, True, True]
    # A reference without a word has the words of the hypothesis.
    assert np.isnan(found.laal).tolist() == [True, True, False, True]
    assert np.isnan(found.dal).tolist() == [True, True, False, False]
    assert laggings(np.zeros(0), np.zeros(0, int), np.zeros(0), np.zeros(0, int)).al.size == 0


@given(STREAMS)
def test_many_streams_at_once_are_as_each_by_itself(streams: list[tuple[list[float], float, int]]) -> None:
    found = of(streams)
    for index, (delays, audio_s, words) in enumerate(streams):
        longer = max(words, len(delays))
        expected = [
            None if words < 0 else lagging(delays, audio_s, words),
            None if words < 0 else lagging(delays, audio_s, longer),
            differentiable(delays, audio_s),
        ]
        values = [float(column[index]) for column in found]
        assert [None if math.isnan(value) else value for value in values] == expected


@given(st.lists(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 3)), max_size=9), max_size=9))
def test_backlogs_of_many_streams_are_as_each_by_itself(streams: list[list[tuple[float, float]]]) -> None:
    each = [([due for due, _ in sorted(chunks)], [queue for _, queue in sorted(chunks)]) for chunks in streams]
    due_s, queue_s = (np.array([value for own in each for value in own[column]], float) for column in (0, 1))
    found = backlog_slopes(due_s, queue_s, np.array([len(due) for due, _ in each], int)).tolist()
    for slope, (due, queue) in zip(found, each, strict=True):
        expected = backlog(due, queue)
        assert (None if math.isnan(slope) else slope) == (None if expected is None else pytest.approx(expected))
