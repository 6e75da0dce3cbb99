"""Batches: what is padding, which utterances share a batch, and over which lengths they are taken."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav import StopwavError
from stopwav.speech.batches import (
    Batch,
    covered_range,
    invented_pairs,
    make_batches,
    padding_efficiency,
    spread,
)
from stopwav.speech.shapes import Shapes, load_shapes


def shapes_of(pairs: list[tuple[int, int]]) -> Shapes:
    frames, tokens = np.array(pairs, np.int64).T
    return Shapes("made up", frames, tokens, "0" * 16)


def test_padding_on_paper() -> None:
    batch = Batch((4, 2), (1, 3))
    assert batch.cells == 4 * 2 + 2 * 4
    assert batch.padded_cells == 2 * 4 * 4
    assert padding_efficiency([batch]) == 16 / 32


@pytest.mark.parametrize("seed", [0, 1])
def test_librispeech_is_padded_as_published(seed: int) -> None:
    shapes = load_shapes("librispeech", seed=seed)
    unsorted = make_batches(shapes, batch_size=30, seed=seed)
    assert 1 / padding_efficiency(unsorted) == pytest.approx(1.98, abs=0.03)
    ordered = make_batches(shapes, max_frames=10_000, order="sorted")
    assert 1 / padding_efficiency(ordered) == pytest.approx(1.08, abs=0.01)
    assert all(sum(batch.frames) <= 10_000 for batch in ordered)


def test_columns_sorted_for_themselves_invent_utterances() -> None:
    """Of the real corpus 96 % of such pairs are in no utterance."""
    shapes = load_shapes("librispeech")
    assert invented_pairs(make_batches(shapes, max_frames=10_000, order="columns-independently"), shapes) > 0.9
    assert invented_pairs(make_batches(shapes, max_frames=10_000, order="sorted"), shapes) == 0


def test_batches_are_taken_over_the_whole_range() -> None:
    shapes = load_shapes("librispeech")
    ordered = make_batches(shapes, max_frames=10_000, order="sorted")
    low, high = covered_range(spread(ordered, 20), shapes)
    assert low < 0.1
    assert high > 0.95
    # The first batches of a sorted corpus are its end.
    low, high = covered_range(ordered[-20:], shapes)
    assert low > 0.9


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shapes, dict[str, Any]]:
    """Shapes read from a file such as `shape_info.pt`, and the batches that the published scripts made of that file."""
    torch = pytest.importorskip("torch")
    batches = json.loads((Path(__file__).parent / "published_batches.json").read_text())
    path = tmp_path_factory.mktemp("shapes") / "shape_info.pt"
    torch.save(torch.tensor(batches["shapes"], dtype=torch.int32), path)
    return load_shapes(path), batches


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("batch_size_30", {"order": "file", "batch_size": 30}),
        ("max_frames_10000", {"order": "columns-independently", "max_frames": 10_000}),
        ("max_frames_2000", {"order": "columns-independently", "max_frames": 2_000}),
    ],
)
def test_batches_are_those_of_the_published_scripts(
    published: tuple[Shapes, dict[str, Any]], name: str, options: dict[str, Any]
) -> None:
    shapes, batches = published
    assert [list(map(list, zip(*batch, strict=True))) for batch in batches[name]] == [
        [list(batch.frames), list(batch.tokens)] for batch in make_batches(shapes, **options)
    ]


def test_longest_first_has_the_frames_of_the_published_batches_with_their_own_tokens(
    published: tuple[Shapes, dict[str, Any]],
) -> None:
    shapes, batches = published
    made = make_batches(shapes, order="longest-first", max_frames=2_000)
    assert [list(batch.frames) for batch in made] == [[t for t, _ in batch] for batch in batches["max_frames_2000"]]
    assert invented_pairs(made, shapes) == 0


def test_buckets_are_between_random_and_sorted() -> None:
    shapes = load_shapes("librispeech")
    random, bucketed, ordered = (
        padding_efficiency(make_batches(shapes, batch_size=30, **options))
        for options in ({}, {"buckets": 20}, {"order": "sorted"})
    )
    assert random < bucketed < ordered


# The orders that keep pairs, and exclude buckets.
BY_LENGTH = ["sorted", "longest-first"]
pairs = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 20)), min_size=1, max_size=40)


@given(pairs, st.integers(1, 100), st.sampled_from(["shuffled", "file", *BY_LENGTH]), st.sampled_from([None, 3]))
def test_every_utterance_is_in_one_batch(
    listed: list[tuple[int, int]], frames: int, order: str, buckets: int | None
) -> None:
    options = {"order": order, "buckets": buckets if order not in BY_LENGTH else None}
    batches = make_batches(shapes_of(listed), max_frames=frames, **options)  # type: ignore[arg-type]
    found = [pair for batch in batches for pair in zip(batch.frames, batch.tokens, strict=True)]
    assert sorted(found) == sorted(listed)
    assert all(sum(batch.frames) <= frames or len(batch) == 1 for batch in batches)
    assert 0 < padding_efficiency(batches) <= 1


def test_a_corpus_that_fills_no_batch_is_an_error() -> None:
    with pytest.raises(StopwavError, match="too few for a batch of 2"):
        make_batches(shapes_of([(3, 1)]), batch_size=2)
    with pytest.raises(StopwavError, match="give one of them"):
        make_batches(shapes_of([(3, 1)]), order="sorted", buckets=2)
    with pytest.raises(StopwavError, match="--order 'pairs': give one of shuffled, file"):
        make_batches(shapes_of([(3, 1)]), order="pairs")
