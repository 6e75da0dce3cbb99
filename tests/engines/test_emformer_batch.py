"""Many streams advanced together give what each gives alone, token for token."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stopwav.engines.emformer_rnnt import EmformerRnnt
from stopwav.engines.protocol import BatchingEngine
from stopwav.engines.registry import make
from stopwav.speech.audio import load
from stopwav.speech.corpus import load_corpus

pytestmark = pytest.mark.usefixtures("one_thread")
CHUNK = 2560
SEARCHES = (
    "search=greedy",
    "beam=1",
    "beam=3",
    "beam=3,segment=8,right_context=0",
    "search=greedy,segment=4,right_context=8",
)
Samples = NDArray[np.float32]


@pytest.fixture(scope="module", params=SEARCHES)
def engine(request: pytest.FixtureRequest, small_emformer: None) -> EmformerRnnt:
    engine = make(f"emformer-rnnt,streams=2,{request.param}")
    assert isinstance(engine, EmformerRnnt)
    return engine


@pytest.fixture(scope="module")
def speech() -> list[Samples]:
    return [load(utterance.path, 16_000).samples for utterance in load_corpus("bundled").utterances[:4]]


def alone(engine: EmformerRnnt, pushes: Sequence[Samples]) -> list[list[str]]:
    """The texts of each push, and of the end."""
    session = engine.open()
    return [[hypothesis.text for hypothesis in session.push(push)] for push in pushes] + [
        [hypothesis.text for hypothesis in session.finish()]
    ]


def together(
    engine: EmformerRnnt, streams: Sequence[Sequence[Samples]], starts: Sequence[int]
) -> list[list[list[str]]]:
    """The same, of streams that begin in the given steps and push in every step."""
    sessions = [engine.open() for _ in streams]
    texts: list[list[list[str]]] = [[] for _ in streams]
    for step in range(max(start + len(pushes) + 1 for start, pushes in zip(starts, streams, strict=True))):
        calls, numbers = [], []
        for number, (start, pushes) in enumerate(zip(starts, streams, strict=True)):
            if 0 <= step - start <= len(pushes):
                calls.append((sessions[number], pushes[step - start] if step - start < len(pushes) else None))
                numbers.append(number)
        for number, result in zip(numbers, engine.advance_all(calls), strict=True):
            texts[number].append([hypothesis.text for hypothesis in result])
    return texts


def cut(samples: Samples, sizes: Sequence[int]) -> list[Samples]:
    ends = np.cumsum([0, *sizes])
    return [samples[begin:end] for begin, end in zip(ends[:-1], ends[1:], strict=True) if begin < len(samples)]


def test_it_is_a_batching_engine(engine: EmformerRnnt) -> None:
    assert isinstance(engine, BatchingEngine)


def test_streams_of_other_lengths_and_starts_give_what_each_gives_alone(
    engine: EmformerRnnt, speech: list[Samples]
) -> None:
    lengths = (60_003, 32_000, 14_777, 81_920, 2_560, 0, 41_100)
    streams = [cut(speech[k % 4][:length], [CHUNK] * 40) for k, length in enumerate(lengths)]
    expected = [alone(engine, pushes) for pushes in streams]
    assert sum(map(bool, sum(expected, []))) > 20
    assert together(engine, streams, [0, 3, 1, 0, 7, 2, 5]) == expected


@settings(max_examples=8, deadline=None)
@given(
    sizes=st.lists(
        st.lists(st.sampled_from([1, 160, 400, 1600, 2559, 2560, 2561, 5120, 9000]), max_size=8), min_size=1, max_size=5
    ),
    starts=st.lists(st.integers(0, 4), min_size=5, max_size=5),
)
def test_how_each_is_cut_does_not_matter(
    engine: EmformerRnnt, speech: list[Samples], sizes: list[list[int]], starts: list[int]
) -> None:
    streams = [cut(speech[k % 4][8000:], each) for k, each in enumerate(sizes)]
    assert together(engine, streams, starts[: len(streams)]) == [alone(engine, pushes) for pushes in streams]
