"""`stopwav.diff` of every study, A against A and with a planted slow-down: a table with `-m soak -s`."""

from pathlib import Path

import pytest
from scipy import stats as scipy_stats
from simulated_pairs import SIMULATED, is_found

import stopwav
from stopwav.record import Record
from stopwav.stats.change import WORDS

CLAIMS = {word for words in WORDS.values() for word in words}
ROUNDS = 10


def pair(study: str, folder: Path, seed: int, slowdown: float = 0.0) -> tuple[Record, Record]:
    runs = []
    for side, planted in ((0, 0.0), (1, slowdown)):
        place = folder / f"{study}-{seed}-{side}"
        place.mkdir()
        runs.append(SIMULATED[study](place, 2 * seed + side, planted, ROUNDS))
    return runs[0], runs[1]


def claims(a: Record, b: Record, threshold: float) -> int:
    """How many changes are claimed, of wholes and parts."""
    compared = stopwav.diff(a, b, threshold=threshold)
    return sum(change.verdict in CLAIMS for item in compared.items for change in item.changes)


@pytest.mark.parametrize("study", SIMULATED)
def test_a_planted_slowdown_is_found_and_none_where_there_is_none(study: str, tmp_path: Path) -> None:
    assert is_found(study, stopwav.diff(*pair(study, tmp_path, 0, 0.05)))
    assert claims(*pair(study, tmp_path, 1), threshold=0.01) == 0


@pytest.mark.soak
@pytest.mark.parametrize("study", SIMULATED)
def test_levels(study: str, tmp_path: Path) -> None:
    """10 rounds a side, rounds differing by 1.3 %: A against A 200 times, and a slow-down of 5 % 100 times."""
    pairs, planted = 200, 100
    strict = usual = found = 0
    for seed in range(pairs):
        a, b = pair(study, tmp_path, seed)
        strict += claims(a, b, threshold=0) > 0
        usual += claims(a, b, threshold=0.01) > 0
    for seed in range(pairs, pairs + planted):
        found += is_found(study, stopwav.diff(*pair(study, tmp_path, seed, 0.05)))
    tests = sum(change.p_value is not None for item in stopwav.diff(a, b).items for change in item.changes)
    print(f"| {study} | {tests} | {strict / pairs:.1%} | {usual / pairs:.1%} | {found / planted:.0%} |")
    assert scipy_stats.binomtest(strict, pairs, 0.05, alternative="greater").pvalue > 0.001
    assert usual / pairs <= 0.05
    assert found / planted >= 0.95
