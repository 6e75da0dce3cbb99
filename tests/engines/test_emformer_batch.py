"""Many streams advanced together give what each gives alone, token for token."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stopwav.engines.emformer_rnnt import EmformerRnnt
from stopwav.engines.protocol import BatchingEngine
from stopwav.engines.registry import make
from stopwav.errors import StopwavError
from stopwav.models.step_graphs import StepGraphs
from stopwav.speech.audio import load
from stopwav.speech.corpus import load_corpus
from stopwav.speech.events import Hypothesis

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
    return [samples[begin:end] for begin, end in itertools.pairwise(ends) if begin < len(samples)]


def test_it_is_a_batching_engine(engine: EmformerRnnt) -> None:
    assert isinstance(engine, BatchingEngine)


def test_streams_of_other_lengths_and_starts_give_what_each_gives_alone(
    engine: EmformerRnnt, speech: list[Samples]
) -> None:
    lengths = (60_003, 32_000, 14_777, 81_920, 2_560, 0, 41_100)
    streams = [cut(speech[k % 4][:length], [CHUNK] * 40) for k, length in enumerate(lengths)]
    expected = [alone(engine, pushes) for pushes in streams]
    assert sum(bool(texts) for each in expected for texts in each) > 20
    assert together(engine, streams, [0, 3, 1, 0, 7, 2, 5]) == expected


@settings(max_examples=5, deadline=None)
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


@pytest.mark.parametrize("search", ["search=greedy", "beam=3"])
def test_batches_that_are_filled_up_for_graphs_give_the_same(
    small_emformer: None, speech: list[Samples], search: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a GPU: a graph is recorded by calling its function over padding, and replayed by calling it again."""

    def rehearse(_: StepGraphs, function: Callable[[], object]) -> Callable[[], object]:
        for _repetition in range(3):
            function()
        return function

    monkeypatch.setattr(StepGraphs, "_capture", rehearse)
    engine = make(f"emformer-rnnt,streams=2,{search}")
    assert isinstance(engine, EmformerRnnt)
    monkeypatch.setattr(engine, "_graphs", True)
    streams = [cut(speech[k % 4][: 9_000 + 7_001 * k], [CHUNK] * 40) for k in range(5)]
    assert together(engine, streams, [0, 1, 2, 0, 4]) == [alone(engine, pushes) for pushes in streams]


def test_a_stream_that_is_dropped_frees_its_slot(engine: EmformerRnnt, speech: list[Samples]) -> None:
    for _ in range(40):
        engine.advance_all([(engine.open(), speech[0][:CHUNK]) for _ in range(5)])
    assert len(engine.stream_batch()._free) <= 32


def test_a_session_goes_on_as_it_began(engine: EmformerRnnt, speech: list[Samples]) -> None:
    """Alone and then together, together and then alone."""
    pushes = cut(speech[1][:40_000], [CHUNK] * 20)
    expected = alone(engine, pushes)
    first, second = engine.open(), engine.open()
    texts: list[list[list[str]]] = [[], []]
    for number, push in enumerate([*pushes, None]):
        for which, session in enumerate((first, second)):
            if (number + which) % 2:
                result: Sequence[Hypothesis] = session.finish() if push is None else session.push(push)
            else:
                result = engine.advance_all([(session, push)])[0]
            texts[which].append([hypothesis.text for hypothesis in result])
    assert texts == [expected, expected]


def test_a_session_is_in_a_batch_once(engine: EmformerRnnt, speech: list[Samples]) -> None:
    session = engine.open()
    with pytest.raises(StopwavError, match="each once"):
        engine.advance_all([(session, speech[0][:CHUNK]), (session, None)])
    assert engine.advance_all([]) == []


@pytest.mark.usefixtures("small_emformer")
def test_sessions_of_another_engine_and_streams_that_ended_are_refused(speech: list[Samples]) -> None:
    engine, other = (make("emformer-rnnt,streams=2,search=greedy") for _ in range(2))
    assert isinstance(engine, EmformerRnnt)
    assert isinstance(other, EmformerRnnt)
    with pytest.raises(StopwavError, match="of this engine"):
        engine.advance_all([(other.open(), speech[0][:CHUNK])])
    session = engine.open()
    engine.advance_all([(session, speech[0][:CHUNK])])
    engine.advance_all([(session, None)])
    # Its slot may be another stream's by now.
    with pytest.raises(StopwavError, match="has ended"):
        engine.advance_all([(session, speech[0][:CHUNK])])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("search", ["search=greedy", "beam=3", "beam=10"])
def test_on_a_gpu_streams_give_together_what_each_gives_alone(
    small_emformer: None, speech: list[Samples], search: str
) -> None:
    engine = make(f"emformer-rnnt,streams=4,device=cuda,features=cuda,{search}")
    assert isinstance(engine, EmformerRnnt)
    streams = [cut(speech[k % 4][: 9_000 + 7_001 * k], [CHUNK] * 40) for k in range(9)]
    assert together(engine, streams, [0, 1, 2, 0, 4, 1, 2, 3, 0]) == [alone(engine, pushes) for pushes in streams]
