"""Order statistics of many values: those of the sorted values, whatever the values are."""

import numpy as np
import pytest
from numpy.typing import NDArray

from stopwav.stats import order
from stopwav.stats.order import order_statistics

COUNT = 5000
RANDOM = np.random.default_rng(0)
SAMPLES = {
    "normal": RANDOM.normal(size=COUNT),
    "mostly zeros": np.where(RANDOM.random(COUNT) < 0.9, 0.0, RANDOM.random(COUNT)),
    "few values": RANDOM.integers(0, 3, COUNT).astype(float),
    "all equal": np.full(COUNT, 0.1),
    "rising": np.arange(COUNT, dtype=float),
    "mostly ones": np.where(RANDOM.random(COUNT) < 0.9, 1.0, RANDOM.random(COUNT)),
    "one far away": np.append(np.zeros(COUNT - 1), 1e300),
}


@pytest.fixture(autouse=True)
def large_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for values by a sample, where otherwise only millions of them are."""
    monkeypatch.setattr(order, "LARGE", 100)
    monkeypatch.setattr(order, "_SAMPLE", 256)
    monkeypatch.setattr(order, "_MARGIN", 48)
    monkeypatch.setattr(order, "_BLOCK", 300)


@pytest.mark.parametrize("values", SAMPLES.values(), ids=SAMPLES)
def test_they_are_those_of_the_sorted_values(values: NDArray[np.float64]) -> None:
    places = [0, 1, 7, COUNT // 2, COUNT * 9 // 10, COUNT - 2, COUNT - 1]
    before = values.copy()
    assert order_statistics(values, places) == np.sort(values)[places].tolist()
    assert np.array_equal(values, before)
    assert order_statistics(values, []) == []


def test_a_sample_that_misleads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without a margin, a place lies between two neighbours in the sample only by chance.
    monkeypatch.setattr(order, "_MARGIN", 0)
    values = SAMPLES["normal"]
    places = list(range(0, COUNT, 97))
    assert order_statistics(values, places) == np.sort(values)[places].tolist()
