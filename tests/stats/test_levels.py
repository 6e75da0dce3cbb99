"""A against A, and a planted change: do verdicts come as often as they should? Run with -s to see the figures."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from stopwav.stats import decide, paired_log_ratio, paired_verdict, unpaired_log_ratio
from stopwav.stats.change import answer_all, ask_ratio

# A process is a little fast or slow as a whole (1.3 %), values within it differ less (0.4 %), and the machine's other
# work moves both sides of a pair (2 %).
BETWEEN, WITHIN, SHARED = 0.013, 0.004, 0.02
CLAIMS = ("faster", "slower")


def counts(short, long):
    """Parametrise a test by its number of simulations: a few in every run, the full number in `make soak`."""
    return pytest.mark.parametrize("runs", [short, pytest.param(long, marks=pytest.mark.soak)])


def times(seed, slowdown=0.0, rounds=10, values=5):
    """Two sides of `rounds` × `values` times, b slower than a by the log ratio `slowdown`."""
    generator = np.random.default_rng(seed)
    shared = generator.normal(0, SHARED, (rounds, 1))
    return tuple(
        np.exp(
            shift + shared + generator.normal(0, BETWEEN, (rounds, 1)) + generator.normal(0, WITHIN, (rounds, values))
        )
        for shift in (0.0, slowdown)
    )


def medians(*args, **settings):
    """The round medians of two sides of times."""
    return tuple(np.median(side, axis=1) for side in times(*args, **settings))


def at_its_level(count, runs, level=0.05):
    """Whether a share is compatible with `level`, at one false alarm in a thousand."""
    return scipy_stats.binomtest(int(count), runs, level).pvalue > 0.001


@counts(200, 1500)
@pytest.mark.parametrize(("rounds", "values"), [(3, 5), (5, 5), (10, 20), (30, 5)])
def test_a_against_a_keeps_its_level(rounds, values, runs):
    pairs = (medians(seed, rounds=rounds, values=values) for seed in range(runs))
    claims = sum(paired_verdict(*pair, threshold=0).kind in CLAIMS for pair in pairs)
    print(f"A against A, {rounds} rounds: {100 * claims / runs:.1f} %")
    assert at_its_level(claims, runs)


@counts(100, 1500)
def test_separate_runs_keep_their_level_too(runs):
    logs = np.random.default_rng(9).normal(0, BETWEEN, (runs, 2, 10))
    claims = sum(decide(unpaired_log_ratio(*np.exp(sides)), threshold=0).kind in CLAIMS for sides in logs)
    print(f"A against A in two separate runs, Welch: {100 * claims / runs:.1f} %")
    assert at_its_level(claims, runs)


@counts(100, 1000)
def test_a_planted_change_of_three_percent_is_detected(runs):
    pairs = [medians(seed, np.log(1.03)) for seed in range(runs)]
    slower, beyond = (
        sum(paired_verdict(*pair, threshold=limit).kind == "slower" for pair in pairs) for limit in (0, 0.01)
    )
    print(f"planted 3 %: slower in {100 * slower / runs:.1f} %, by more than 1 % in {100 * beyond / runs:.1f} %")
    assert slower / runs >= 0.95


@counts(100, 1000)
def test_at_the_default_threshold_equal_things_are_hardly_ever_called_different(runs):
    claims = sum(paired_verdict(*medians(seed)).kind in CLAIMS for seed in range(runs))
    print(f"A against A at ±1 %: {100 * claims / runs:.1f} %")
    assert claims / runs < 0.01


@counts(60, 600)
def test_eight_metrics_together_keep_the_level_of_one(runs):
    corrected = raw = 0
    for seed in range(runs):
        pairs = [medians(1000 * seed + metric) for metric in range(8)]
        changes = answer_all([ask_ratio("m", "s", "time", *pair, threshold=0, paired=True) for pair in pairs])
        corrected += any(change.verdict in CLAIMS for change in changes)
        raw += any(decide(paired_log_ratio(*pair), threshold=0).kind in CLAIMS for pair in pairs)
    print(f"8 metrics, A against A: {100 * corrected / runs:.1f} % with Holm, {100 * raw / runs:.1f} % without")
    assert at_its_level(corrected, runs)
    assert raw / runs > 0.2


@counts(100, 600)
def test_the_suggested_rounds_usually_decide(runs):
    undecided = decided = 0
    for seed in range(runs):
        first = paired_verdict(*medians(seed, np.log(1.03), rounds=5))
        if first.kind == "undecided" and first.more_rounds is not None:
            undecided += 1
            again = medians(seed + 10_000, np.log(1.03), rounds=5 + first.more_rounds)
            decided += paired_verdict(*again).kind != "undecided"
    share = decided / undecided
    print(f"undecided after 5 rounds {undecided} times; decided after the suggested rounds in {100 * share:.0f} %")
    assert undecided > runs / 6
    assert share > 0.7


@pytest.mark.soak
def test_a_pooled_test_does_not_keep_its_level():
    """Why rounds are compared, and not all values together."""
    runs, pooled, single = 300, 0, 0
    for seed in range(runs):
        a, b = times(seed, values=20)
        pooled += scipy_stats.mannwhitneyu(a.ravel(), b.ravel()).pvalue < 0.05
        single += scipy_stats.mannwhitneyu(a[0], b[0]).pvalue < 0.05
    print(f"pooled Mann-Whitney {pooled / 3:.0f} % over 10 processes per side, {single / 3:.0f} % over one")
    assert pooled / runs > 0.25
    assert single / runs > 0.5


@pytest.mark.soak
def test_stopping_when_significant_would_raise_false_alarms():
    """Why the number of rounds is chosen before any number is seen."""
    runs, alarms = 300, 0
    for seed in range(runs):
        a, b = medians(seed, rounds=30)
        alarms += any(paired_verdict(a[:n], b[:n], threshold=0).kind in CLAIMS for n in range(3, 31, 3))
    print(f"looking after every 3 of 30 rounds: {100 * alarms / runs:.1f} % false alarms")
    assert alarms / runs > 0.12
