"""The searches over many streams against those over one: the same texts, in the same order, with the same scores."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_search import Network
from test_search import BLANK, ENCODING, SEGMENT, network, random_encodings, scorer_of
from torch import Tensor

from stopwav.models.batched_beam import BatchedBeam
from stopwav.models.batched_greedy import BatchedGreedy, Rows
from stopwav.models.checkpoint import DenseLinear
from stopwav.models.search import BeamSearch, GreedySearch, SymbolRate
from stopwav.models.step_graphs import StepGraphs
from stopwav.models.transducer import JoinerStep, PredictorStep

STREAMS = 7
RATE = SymbolRate(0.4)


class RehearsedGraphs(StepGraphs):
    """Graphs without a GPU: batches are filled up, and functions are called over padding before they are needed."""

    def __init__(self) -> None:
        super().__init__(enabled=True)

    def _capture(self, function: Callable[[], object]) -> Callable[[], object]:
        for _ in range(3):
            function()
        return function


def make_rows(streams: int) -> Rows:
    whole = torch.zeros(streams + 1, dtype=torch.long)
    return Rows(whole, whole.clone(), whole.clone(), torch.zeros(streams + 1, SEGMENT, ENCODING))


class Batch:
    """Streams whose segments are advanced together; stream k is in slot k + 1."""

    def __init__(self, tiny: Network, beam: int, limit: int, graphs: StepGraphs, rate: SymbolRate | None) -> None:
        self.rows, self.graphs = make_rows(STREAMS), graphs
        steps = PredictorStep(tiny.predictor, DenseLinear), JoinerStep(tiny.joiner, DenseLinear)
        slots, rows = STREAMS + 1, self.rows
        self.search: BatchedBeam | BatchedGreedy = (
            BatchedBeam(*steps, BLANK, beam, slots, rows, graphs, limit, rate)
            if beam
            else BatchedGreedy(*steps, BLANK, slots, rows, graphs, limit, rate)
        )
        self.search.reset(torch.arange(1, STREAMS + 1))
        self.frames = torch.zeros(STREAMS + 1, dtype=torch.long)
        self.texts: list[list[int]] = [[] for _ in range(STREAMS)]

    def advance(self, segments: dict[int, Tensor]) -> None:
        size = self.graphs.size(len(segments), STREAMS)
        if self.graphs.enabled:
            self.rows.slots.zero_()
            self.rows.new.zero_()
            self.search.record(size)
        for row, (stream, segment) in enumerate(segments.items()):
            self.rows.slots[row], self.rows.new[row] = stream + 1, len(segment)
            self.rows.before[row] = self.frames[stream]
            self.rows.encodings[row, : len(segment)] = segment
            self.frames[stream] += len(segment)
        streams = list(segments)
        for new in self.search.advance(len(segments), max(map(len, segments.values()))):
            text = self.texts[streams[new.row]]
            if new.kept >= 0:
                del text[new.kept :]
            text += new.symbols


def check(seed: int, blank_bias: float, beam: int, limit: int, graphs: StepGraphs, rate: SymbolRate | None) -> Batch:
    """Streams of different lengths, in batches of different streams, as each alone."""
    tiny = network(seed, blank_bias)
    batch = Batch(tiny, beam, limit, graphs, rate)
    scorer = scorer_of(tiny, max(1, beam))
    alone = [
        BeamSearch(scorer, BLANK, beam, limit, rate) if beam else GreedySearch(scorer, BLANK, limit, rate)
        for _ in range(STREAMS)
    ]
    segments = [list(random_encodings(seed + k, 5 + 3 * k).split(SEGMENT)) for k in range(STREAMS)]
    for step in range(2 * max(map(len, segments))):
        due = {k: segments[k].pop(0) for k in range(STREAMS) if segments[k] and (step + k) % 3}
        if due:
            batch.advance(due)
        for k, segment in due.items():
            alone[k].advance(segment)
            assert batch.texts[k] == alone[k].best()
    assert not any(segments)
    for k, search in enumerate(alone):
        if isinstance(search, BeamSearch):
            same_beam(batch.search, k + 1, search)
    return batch


def same_beam(batched: object, slot: int, alone: BeamSearch) -> None:
    assert isinstance(batched, BatchedBeam)
    texts, scores = batched.beam_of(slot)
    assert texts == [text.symbols() for text in alone.texts]
    assert scores == pytest.approx(alone.scores.tolist(), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("rate", [None, RATE])
@pytest.mark.parametrize("graphs", [lambda: StepGraphs(enabled=False), RehearsedGraphs])
@pytest.mark.parametrize("beam", [0, 1, 4, 10])
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10_000), blank_bias=st.floats(-1, 4), limit=st.integers(1, 4))
def test_every_stream_gives_what_it_gives_alone(
    beam: int, graphs: Callable[[], StepGraphs], rate: SymbolRate | None, seed: int, blank_bias: float, limit: int
) -> None:
    check(seed, blank_bias, beam, limit, graphs(), rate)


@pytest.mark.parametrize("graphs", [lambda: StepGraphs(enabled=False), RehearsedGraphs])
@pytest.mark.parametrize("beam", [0, 3])
def test_texts_longer_than_there_was_room_for(
    beam: int, graphs: Callable[[], StepGraphs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stopwav.models.batched_beam.FIRST_LENGTH", 32)
    batch = check(1, -4.0, beam, 20, graphs(), None)
    assert max(map(len, batch.texts)) > 200


def test_a_slot_begins_anew() -> None:
    tiny, encodings = network(4, 0.5), random_encodings(9, SEGMENT)
    for beam in (0, 4):
        batch = Batch(tiny, beam, 3, StepGraphs(enabled=False), None)
        batch.advance({2: encodings})
        first = list(batch.texts[2])
        batch.advance({2: random_encodings(5, SEGMENT)})
        batch.search.reset(torch.tensor([3]))
        batch.texts[2], batch.frames[2] = [], 0
        batch.advance({2: encodings})
        assert batch.texts[2] == first
