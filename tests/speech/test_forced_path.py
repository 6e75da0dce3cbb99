"""The forced path against every path there is, against torchaudio, and on lattices whose best path is plain."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stopwav.errors import StopwavError
from stopwav.speech import ctc
from stopwav.speech.ctc import forced_path, spans

BLANK = 0


def log_probs(seed: int, frames: int, symbols: int) -> NDArray[np.float32]:
    scores = np.random.default_rng(seed).normal(size=(frames, symbols)).astype(np.float32)
    return (scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)).astype(np.float32)


def collapsed(symbols: tuple[int, ...]) -> list[int]:
    """What CTC reads in a path: repeats once, blanks not at all."""
    kept = [symbol for place, symbol in enumerate(symbols) if place == 0 or symbol != symbols[place - 1]]
    return [symbol for symbol in kept if symbol != BLANK]


def symbols_of(path: NDArray[np.int64], labels: list[int]) -> tuple[int, ...]:
    return tuple(BLANK if place < 0 else labels[place] for place in path.tolist())


def score(lattice: NDArray[np.float32], symbols: tuple[int, ...]) -> float:
    return float(sum(lattice[frame, symbol] for frame, symbol in enumerate(symbols)))


@given(st.integers(0, 10**6), st.integers(0, 6), st.lists(st.integers(1, 2), max_size=4))
@settings(max_examples=200)
def test_no_path_that_spells_the_labels_is_better(seed: int, frames: int, labels: list[int]) -> None:
    lattice = log_probs(seed, frames, 3)
    spelling = [path for path in product(range(3), repeat=frames) if collapsed(path) == labels]
    path = forced_path(lattice, labels, BLANK)
    if not spelling or not frames:
        assert path is None
        return
    assert path is not None
    scores = {
        symbols: sum(float(lattice[frame, symbol]) for frame, symbol in enumerate(symbols)) for symbols in spelling
    }
    found = symbols_of(path, labels)
    assert collapsed(found) == labels
    assert scores[found] == pytest.approx(max(scores.values()), abs=1e-5)
    own = spans(path, len(labels))
    assert [set(path[first:after].tolist()) - {-1} for first, after in own] == [{place} for place in range(len(labels))]
    assert all(before[1] <= after[0] for before, after in pairwise(own))


@given(st.integers(0, 10**6), st.integers(1, 60), st.lists(st.integers(1, 5), min_size=1, max_size=20))
@settings(max_examples=50)
@pytest.mark.torchaudio
def test_it_is_that_of_torchaudio(seed: int, frames: int, labels: list[int]) -> None:
    torch, functional = pytest.importorskip("torch"), pytest.importorskip("torchaudio.functional")
    lattice = log_probs(seed, frames, 6)
    path = forced_path(lattice, labels, BLANK)
    if path is None:
        return
    aligned, scores = functional.forced_align(torch.from_numpy(lattice)[None], torch.tensor([labels]), blank=BLANK)
    assert score(lattice, symbols_of(path, labels)) == pytest.approx(float(scores.sum()), abs=1e-3)
    assert aligned[0].tolist() == list(symbols_of(path, labels))


def test_a_plain_lattice_by_hand() -> None:
    #                     -     a     a     -     a     b     -
    best = [0, 1, 1, 0, 1, 2, 0]
    lattice = np.log(np.full((7, 3), 0.05, dtype=np.float32))
    lattice[np.arange(7), best] = np.log(0.9)
    path = forced_path(lattice, [1, 1, 2], BLANK)
    assert path is not None
    assert path.tolist() == [-1, 0, 0, -1, 1, 2, -1]
    assert spans(path, 3) == [(1, 3), (4, 5), (5, 6)]


def test_repeats_need_a_blank_between_them() -> None:
    lattice = log_probs(0, 3, 2)
    assert symbols_of(forced_path(lattice, [1, 1], BLANK), [1, 1]) == (1, 0, 1)  # type: ignore[arg-type]
    assert forced_path(lattice[:2], [1, 1], BLANK) is None
    assert forced_path(lattice[:0], [1], BLANK) is None


def test_an_hour_at_once_is_refused_before_it_takes_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctc, "MOST_CELLS", 50)
    with pytest.raises(StopwavError, match="10 frames and 3 labels are too many to be aligned at once; cut"):
        forced_path(log_probs(0, 10, 3), [1, 2, 1], BLANK)
