"""A against A, and a planted change: do verdicts come as often as they should? Run with -s to see the figures."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from stopwav.stats import decide, decide_all, paired_log_ratio, paired_verdict, unpaired_verdict

# A process is a little fast or slow as a whole (1.3 %), values within it differ less (0.4 %), and what else the
# machine does in the meantime moves both sides of a pair (2 %).
BETWEEN, WITHIN, SHARED = 0.013, 0.004, 0.02
ROUNDS, VALUES = 10, 20
CLAIMS = ("faster", "slower")


def race(seed, slowdown=0.0, rounds=ROUNDS, values=VALUES):
    """Two sides of `rounds` × `values` times, b slower than a by the log ratio `slowdown`."""
    generator = np.random.default_rng(seed)
    shared = generator.normal(0, SHARED, (rounds, 1))
    return tuple(
        np.exp(
            shift + shared + generator.normal(0, BETWEEN, (rounds, 1)) + generator.normal(0, WITHIN, (rounds, values))
        )
        for shift in (0.0, slowdown)
    )


def at_its_level(count, runs, level=0.05):
    """Whether a share is what chance would make of `level`, at one false alarm in a thousand."""
    return scipy_stats.binomtest(int(count), runs, level).pvalue > 0.001


def test_a_against_a_keeps_its_level_where_a_pooled_test_does_not():
    runs = 1500
    paired = unpaired = pooled = single = 0
    for seed in range(runs):
        a, b = race(seed)
        medians = np.median(a, axis=1), np.median(b, axis=1)
        paired += paired_verdict(*medians, threshold=0).kind in CLAIMS
        unpaired += unpaired_verdict(*medians, threshold=0).kind in CLAIMS
        if seed < 300:
            pooled += scipy_stats.mannwhitneyu(a.ravel(), b.ravel()).pvalue < 0.05
            single += scipy_stats.mannwhitneyu(a[0], b[0]).pvalue < 0.05
    print(
        f"A against A, {runs} runs: paired t {100 * paired / runs:.1f} %, Welch {100 * unpaired / runs:.1f} %; "
        f"pooled Mann-Whitney {pooled / 3:.0f} % over 10 processes a side, {single / 3:.0f} % over one"
    )
    assert at_its_level(paired, runs)
    assert unpaired / runs <= 0.05  # what pairs share is noise to it: it errs on the careful side
    assert pooled / 300 > 0.25
    assert single / 300 > 0.5


@pytest.mark.parametrize("rounds", [3, 5, 30])
def test_the_level_holds_for_any_number_of_rounds(rounds):
    runs = 1500
    races = (race(seed, rounds=rounds, values=5) for seed in range(runs))
    claims = sum(
        paired_verdict(np.median(a, axis=1), np.median(b, axis=1), threshold=0).kind in CLAIMS for a, b in races
    )
    print(f"A against A, {rounds} rounds: {100 * claims / runs:.1f} %")
    assert at_its_level(claims, runs)


def test_separate_runs_keep_their_level_too():
    runs = 1500
    generator = np.random.default_rng(9)
    logs = generator.normal(0, BETWEEN, (runs, 2, ROUNDS))
    claims = sum(unpaired_verdict(*np.exp(sides), threshold=0).kind in CLAIMS for sides in logs)
    print(f"A against A in two separate runs, Welch: {100 * claims / runs:.1f} %")
    assert at_its_level(claims, runs)


def test_a_planted_change_of_three_percent_is_found():
    runs, found, beyond = 1000, 0, 0
    for seed in range(runs):
        a, b = race(seed, slowdown=np.log(1.03), values=5)
        medians = np.median(a, axis=1), np.median(b, axis=1)
        found += paired_verdict(*medians, threshold=0).kind == "slower"
        beyond += paired_verdict(*medians, threshold=0.01).kind == "slower"
    print(f"planted 3 %: slower in {100 * found / runs:.1f} %, by more than 1 % in {100 * beyond / runs:.1f} %")
    assert found / runs >= 0.95


def test_at_the_default_threshold_equal_things_are_hardly_ever_called_different():
    runs = 1000
    claims = 0
    for seed in range(runs):
        a, b = race(seed, values=5)
        claims += paired_verdict(np.median(a, axis=1), np.median(b, axis=1)).kind in CLAIMS
    print(f"A against A at ±1 %: {100 * claims / runs:.1f} %")
    assert claims / runs < 0.01


def test_eight_metrics_together_keep_the_level_of_one():
    runs, corrected, raw = 600, 0, 0
    for seed in range(runs):
        sides = (race(1000 * seed + metric, values=5) for metric in range(8))
        ratios = [paired_log_ratio(np.median(a, axis=1), np.median(b, axis=1)) for a, b in sides]
        corrected += any(verdict.kind in CLAIMS for verdict in decide_all(ratios, threshold=0))
        raw += any(decide(ratio, threshold=0).kind in CLAIMS for ratio in ratios)
    print(f"8 metrics, A against A: {100 * corrected / runs:.1f} % with Holm, {100 * raw / runs:.1f} % without")
    assert at_its_level(corrected, runs)
    assert raw / runs > 0.25


def test_the_further_rounds_asked_for_usually_decide():
    asked = decided = 0
    for seed in range(600):
        a, b = race(seed, np.log(1.03), rounds=5, values=5)
        first = paired_verdict(np.median(a, axis=1), np.median(b, axis=1))
        if first.kind == "undecided" and first.more_rounds is not None:
            a, b = race(seed + 10_000, np.log(1.03), rounds=5 + first.more_rounds, values=5)
            asked += 1
            decided += paired_verdict(np.median(a, axis=1), np.median(b, axis=1)).kind != "undecided"
    print(
        f"undecided after 5 rounds {asked} times; decided after the rounds asked for in {100 * decided / asked:.0f} %"
    )
    assert asked > 100
    assert decided / asked > 0.7


def test_stopping_when_significant_would_raise_false_alarms():
    """Why the number of rounds is chosen before any number is seen."""
    runs, alarms = 300, 0
    for seed in range(runs):
        a, b = race(seed, rounds=30, values=5)
        a, b = np.median(a, axis=1), np.median(b, axis=1)
        alarms += any(paired_verdict(a[:n], b[:n], threshold=0).kind in CLAIMS for n in range(3, 31, 3))
    print(f"looking after every 3 of 30 rounds: {100 * alarms / runs:.1f} % false alarms")
    assert alarms / runs > 0.12
