"""Beam and greedy search against a search that is written for reading, and that they release what they use."""

import gc
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_search import Network, beam_search, greedy
from torch import Tensor

from stopwav.models.checkpoint import DenseLinear
from stopwav.models.search import FIRST_SLOTS, BeamSearch, GreedySearch, Prefix, Scorer
from stopwav.models.transducer import Joiner, JoinerStep, Predictor, PredictorStep

SYMBOLS, ENCODING, SEGMENT = 13, 8, 4
BLANK = SYMBOLS - 1
ALL_SLOTS = FIRST_SLOTS - 2


def network(seed: int, blank_bias: float = 1.0, sharpness: float = 2.0) -> Network:
    torch.manual_seed(seed)
    predictor, joiner = Predictor(SYMBOLS, ENCODING, width=12, layers=2).eval(), Joiner(ENCODING, SYMBOLS).eval()
    with torch.no_grad():
        # Untrained scores are nearly uniform; sharper ones make texts differ.
        joiner.linear.weight *= sharpness
        joiner.linear.bias[BLANK] = blank_bias
    return Network(predictor.requires_grad_(False), joiner.requires_grad_(False))


def scorer_of(tiny: Network, beam: int) -> Scorer:
    return Scorer(PredictorStep(tiny.predictor, DenseLinear), JoinerStep(tiny.joiner, DenseLinear), beam, SEGMENT)


def random_encodings(seed: int, frames: int) -> Tensor:
    return 2 * torch.randn(frames, ENCODING, generator=torch.Generator().manual_seed(seed))


def run(search: BeamSearch | GreedySearch, encodings: Tensor, cut: int = SEGMENT) -> None:
    for part in encodings.split(cut):
        search.advance(part)


def symbols_of(search: BeamSearch) -> list[tuple[int, ...]]:
    return [tuple(text.symbols()) for text in search.texts]


def check(tiny: Network, encodings: Tensor, beam: int, limit: int, cut: int = SEGMENT) -> None:
    """The texts, their order and their scores are those of the plain search."""
    search = BeamSearch(scorer_of(tiny, beam), BLANK, beam, limit)
    run(search, encodings, cut)
    expected = beam_search(tiny, encodings, beam, limit)
    assert symbols_of(search) == [text for text, _ in expected]
    assert search.scores.tolist() == pytest.approx([score for _, score in expected], rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("beam", [1, 5, 10])
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), blank_bias=st.floats(-1, 4), frames=st.integers(1, 10), limit=st.integers(1, 4))
def test_the_beam_is_that_of_a_plain_search(beam: int, seed: int, blank_bias: float, frames: int, limit: int) -> None:
    check(network(seed, blank_bias), random_encodings(seed, frames), beam, limit)


@pytest.mark.parametrize(("seed", "beam", "blank_bias"), [(2, 10, 1), (21, 10, 0), (26, 5, 0)])
def test_a_text_that_left_the_beam_and_comes_back_has_its_own_prediction(
    seed: int, beam: int, blank_bias: float
) -> None:
    # In each of these a text once released its slot in one frame of a segment and was extended in a later one.
    check(network(seed, blank_bias), random_encodings(seed, 14), beam, 4)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000), cut=st.integers(1, SEGMENT))
def test_where_the_frames_are_cut_does_not_matter(seed: int, cut: int) -> None:
    check(network(seed), random_encodings(seed, 9), 4, 2, cut)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), blank_bias=st.floats(-1, 3), limit=st.integers(1, 4), cut=st.integers(1, SEGMENT))
def test_greedy_is_that_of_a_plain_loop(seed: int, blank_bias: float, limit: int, cut: int) -> None:
    tiny = network(seed, blank_bias)
    encodings = random_encodings(seed, 12)
    search = GreedySearch(scorer_of(tiny, 1), BLANK, limit)
    run(search, encodings, cut)
    assert tuple(search.best()) == greedy(tiny, encodings, limit)


@pytest.mark.parametrize("limit", [1, 3])
def test_a_frame_emits_no_more_symbols_than_the_limit(limit: int) -> None:
    tiny = network(0, blank_bias=-100)  # blank is never the likeliest
    search = GreedySearch(scorer_of(tiny, 1), BLANK, limit)
    beam = BeamSearch(scorer_of(tiny, 3), BLANK, 3, limit)
    for frames in range(1, 6):
        search.advance(random_encodings(frames, 1))
        beam.advance(random_encodings(frames, 1))
        assert len(search.best()) == frames * limit
        assert max(map(len, symbols_of(beam))) == frames * limit


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), beam=st.integers(1, 12), frames=st.integers(1, 10))
def test_the_beam_is_full_ordered_by_rank_and_holds_no_text_twice(seed: int, beam: int, frames: int) -> None:
    search = BeamSearch(scorer_of(network(seed), beam), BLANK, beam, 3)
    run(search, random_encodings(seed, frames))
    texts = symbols_of(search)
    assert len(texts) == len(set(texts)) == beam
    ranks = [score / (len(text) + 2) for text, score in zip(texts, search.scores, strict=True)]
    assert all(before >= after for before, after in itertools.pairwise(ranks))
    assert search.best() == list(texts[0])


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), blank_bias=st.floats(-1, 4))
def test_the_texts_of_a_beam_are_never_likelier_than_certain(seed: int, blank_bias: float) -> None:
    search = BeamSearch(scorer_of(network(seed, blank_bias), 5), BLANK, 5, 3)
    for encoding in random_encodings(seed, 6):
        search.advance(encoding[None])
        assert sum(math.exp(score) for score in search.scores) <= 1 + 1e-4


@pytest.mark.parametrize("kind", ["beam", "greedy"])
def test_all_slots_are_released_at_the_end(kind: str) -> None:
    scorer = scorer_of(network(3, blank_bias=2.0), 5)
    assert len(scorer.slots) == ALL_SLOTS
    searches = [BeamSearch(scorer, BLANK, 5, 2) if kind == "beam" else GreedySearch(scorer, BLANK, 5) for _ in range(6)]
    for part in random_encodings(0, 24).split(SEGMENT):
        for search in searches:
            search.advance(part)
    assert len(scorer.slots) < ALL_SLOTS
    for search in searches:
        search.close()
        search.close()  # a second time releases nothing twice
    assert len(scorer.slots) == ALL_SLOTS


def test_slots_are_added_when_there_are_more_streams() -> None:
    tiny = network(5)
    scorer = scorer_of(tiny, 10)
    searches = [BeamSearch(scorer, BLANK, 10, 2) for _ in range(60)]
    for search in searches:
        search.advance(random_encodings(0, SEGMENT))
    expected = beam_search(tiny, random_encodings(0, SEGMENT), 10, 2)
    for search in searches:
        assert symbols_of(search) == [text for text, _ in expected]
    held = 60 * 10
    assert held > ALL_SLOTS
    for search in searches:
        search.close()
    assert len(scorer.slots) >= held


def live_prefixes() -> int:
    gc.collect()
    return sum(type(value) is Prefix for value in gc.get_objects())


@pytest.mark.parametrize(("limit", "blank_bias"), [(2, -1.0), (20, 2.0)])
def test_the_tree_of_texts_holds_the_beam_and_what_was_just_scored(limit: int, blank_bias: float) -> None:
    beam, before = 5, live_prefixes()
    search = BeamSearch(scorer_of(network(1, blank_bias), beam), BLANK, beam, limit)
    texts: list[set[tuple[int, ...]]] = []
    for step in range(20):
        run(search, random_encodings(step, SEGMENT))
        texts.append({text[:end] for text in symbols_of(search) for end in range(len(text) + 1)})
    scored = SEGMENT * (limit + 1) * beam
    assert len(texts[-1]) > 2 * scored or limit > 2
    assert live_prefixes() - before <= len(texts[-2] | texts[-1]) + scored
