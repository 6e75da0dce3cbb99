"""Where a level shifts: planted shifts are found, noise is left alone. Run with -s to see the figures."""

import importlib.util
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from stopwav.stats.change_points import FEWEST_VALUES, LEVEL, Split, best_splits, change_points

SD, SHIFT = 0.02, 0.05
STORED = Path(__file__).parent / "otava-splits.json"


def noise(seed, length):
    return np.random.default_rng(seed).normal(1.0, SD, length)


def planted(seed, length, position, shift=SHIFT):
    values = noise(seed, length)
    values[position:] += shift
    return values


def positions(values, **settings):
    return [point.position for point in change_points(values, **settings)]


def splits_of(values):
    return best_splits(np.abs(np.subtract.outer(values, values)).astype(float))


def plain_statistic(first, second):
    """The energy statistic as the paper defines it, a term for each pair."""
    n, m = len(first), len(second)
    between = sum(abs(x - y) for x in first for y in second) * 2 / (n * m)
    within = [
        sum(abs(side[i] - side[j]) for i in range(len(side)) for j in range(i)) / (len(side) * (len(side) - 1) / 2)
        for side in (first, second)
    ]
    return n * m / (n + m) * (between - sum(within))


def test_fifty_series_with_a_shift_and_fifty_without():
    lengths, places = (30, 40, 60), np.random.default_rng(0)
    near, marked = 0, 0
    for seed in range(50):
        length = lengths[seed % 3]
        position = int(places.integers(length // 4, 3 * length // 4))
        shift = SHIFT if seed % 2 else -SHIFT
        near += any(abs(place - position) <= 2 for place in positions(planted(seed, length, position, shift)))
        marked += bool(positions(noise(1000 + seed, length)))
    print(f"5 % at sd 2 %: {near} of 50 within two runs; without a shift: {marked} of 50 marked")
    assert near >= 45
    assert marked <= 3


@pytest.mark.soak
@pytest.mark.parametrize("length", [12, 15, 20, 30, 60, 120])
def test_shifts_at_several_places_and_series_without(length):
    count = 100 if length > 100 else 400
    rows = {}
    for what, position in [("middle", length // 2), ("last quarter", 3 * length // 4), ("last 5", length - 5)]:
        found = [positions(planted(seed, length, position)) for seed in range(count)]
        near = sum(any(abs(place - position) <= 2 for place in places) for places in found)
        rows[what] = near / count
    quiet = sum(bool(positions(noise(10_000 + seed, length))) for seed in range(5 * count)) / (5 * count)
    figures = ", ".join(f"{what} {100 * share:.0f} %" for what, share in rows.items())
    print(f"{length} runs, shift within two runs: {figures}; none planted, marked: {100 * quiet:.1f} %")
    # Beyond the level by no more than chance has it, once in a thousand.
    assert quiet <= LEVEL + 3.1 * np.sqrt(LEVEL * (1 - LEVEL) / (5 * count))
    assert length < 30 or rows["middle"] >= 0.9


@pytest.mark.soak
def test_a_level_that_came_and_went():
    found = 0
    for seed in range(200):
        values = noise(seed, 40)
        values[20:28] += SHIFT
        found += any(abs(place - 20) <= 2 or abs(place - 28) <= 2 for place in positions(values))
    print(f"5 % for 8 of 40 runs: an end of it found within two runs in {found / 2:.0f} %")
    assert found >= 150


@pytest.mark.parametrize("spikes", [1, 2])
def test_what_lasts_for_less_than_three_runs_is_no_level(spikes):
    marked = 0
    for seed in range(20):
        values = noise(seed, 30)
        values[15 : 15 + spikes] *= 2
        marked += bool({15, 15 + spikes} & set(positions(values)))
    assert marked == 0


def test_two_shifts_are_both_found():
    values = np.concatenate([planted(1, 40, 20, 0.1), 0.1 + planted(2, 20, 0, 0.1)])
    assert positions(values) == [20, 40]


def test_worked_by_hand():
    # Three zeros and three ones: nm/(n + m)·(2·1 − 0 − 0) = 9/6·2.
    assert splits_of([0, 0, 0, 1, 1, 1]) == (Split(3, 3.0), Split(3, 3.0))
    # Back to zero afterwards: the first six values are still the clearest split of a part and what follows.
    assert splits_of([0, 0, 0, 1, 1, 1, 0, 0, 0])[1] == Split(3, 3.0)
    assert splits_of([0, 0, 1, 1, 1]) == (Split(), Split())


@given(some.lists(some.floats(-5, 5), min_size=6, max_size=12))
def test_the_statistic_is_that_of_the_paper(values):
    to_end, to_anywhere = splits_of(values)
    smallest, length = FEWEST_VALUES, len(values)
    sizes = [(n, k) for n in range(smallest, length) for k in range(n + smallest, length + 1)]
    plain = {(n, k): plain_statistic(values[:n], values[n:k]) for n, k in sizes}
    assert to_anywhere.statistic == pytest.approx(max(plain.values()), abs=1e-9)
    assert to_end.statistic == pytest.approx(max(plain[n, k] for n, k in sizes if k == length), abs=1e-9)


def test_splits_are_those_of_another_implementation():
    stored = json.loads(STORED.read_text())["series"]
    assert len(stored) >= 40
    for row in stored:
        split = splits_of(row["values"])[1]
        assert (split.position, split.statistic) == (row["position"], pytest.approx(row["statistic"], abs=1e-6))


@pytest.mark.soak
def test_the_stored_splits_are_still_those_of_the_other_implementation(tmp_path):
    """Of the package as it is installed today, into a folder of its own: it asks for other versions than ours."""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(tmp_path)]
    if subprocess.run([*install, "apache-otava==0.8.0"], check=False).returncode:
        pytest.skip("apache-otava cannot be installed here")
    script = importlib.util.find_spec("otava_splits").origin
    printed = subprocess.run(
        [sys.executable, script], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert json.loads(printed.stdout) == json.loads(STORED.read_text())


@given(some.integers(0, 50), some.floats(0.001, 1000), some.floats(-100, 100))
def test_units_and_offsets_do_not_matter(seed, scale, offset):
    values = planted(seed % 5, 24, 12, 0.1)
    assert positions(scale * values + offset) == positions(values)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0, 1.0, 2.0], [5.0] * 40, [1e-300] * 12, [1e300] * 12])
def test_nothing_to_split(values):
    assert positions(values) == []


def test_a_constant_with_a_step_is_split_where_it_steps():
    assert positions([7.0] * 10 + [8.0] * 6) == [10]


def test_the_same_series_gives_the_same_points_and_the_level_is_kept():
    values = planted(3, 40, 25)
    found = change_points(values)
    assert found == change_points(values)
    assert all(0 < point.p_value <= LEVEL for point in found)
    assert all(b - a >= FEWEST_VALUES for a, b in pairwise([0, *(point.position for point in found), 40]))
    assert positions(values, level=0.0) == []


def test_a_value_that_is_not_finite_is_an_error():
    with pytest.raises(ValueError, match="finite"):
        change_points([1.0, float("nan"), 2.0])
