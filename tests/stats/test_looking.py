"""Looked at after every round and stopped at the first verdict: how often is it false? Run with -s to see the figures.

The noise is as measured on shared machines: a process is a little fast or slow as a whole (1.3 %), the machine drifts
from one process to the next (a random walk of 0.5 %, and a trend of 0.2 % either way), and on a busy one some
processes are held up.
"""

import numpy as np
import pytest

from stopwav.stats import decide, paired_verdict, summarise_rounds, unpaired_log_ratio
from stopwav.stats.change import answer_all, ask_ratio

PROCESS, WALK, TREND = 0.013, 0.005, 0.002
HELD_UP = 0.1  # the mean delay of one process in twenty, on a busy machine
MOST = 60
CLAIMS = ("faster", "slower")


def counts(short, long):
    """Parametrise a test by its number of simulations: a few in every run, the full number in `make soak`."""
    return pytest.mark.parametrize("runs", [short, pytest.param(long, marks=pytest.mark.soak)])


def rounds_in_turn(seed, slowdown=0.0, rounds=MOST, busy=False):
    """Round medians of a and b in the order AB BA …, b slower by the share `slowdown`."""
    generator = np.random.default_rng(seed)
    slots = np.cumsum(generator.normal(0, WALK, 2 * rounds)) + generator.normal(0, TREND) * np.arange(2 * rounds)
    slots += generator.normal(0, PROCESS, 2 * rounds)
    if busy:
        slots += np.where(generator.random(2 * rounds) < 0.05, generator.exponential(HELD_UP, 2 * rounds), 0)
    pairs = slots.reshape(rounds, 2)
    pairs[1::2] = pairs[1::2, ::-1]
    return np.exp(pairs[:, 0]), np.exp(pairs[:, 1]) * (1 + slowdown)


def first_verdict(a, b, most=MOST, **settings):
    """The first verdict that is not `undecided`, or the last one, looking after every round from the second."""
    for n in range(2, most + 1):
        verdict = paired_verdict(a[:n], b[:n], rule="anytime", **settings)
        if verdict.kind != "undecided":
            break
    return verdict


@counts(100, 2000)
@pytest.mark.parametrize("busy", [False, True])
def test_a_against_a_stopped_at_the_first_verdict(busy, runs):
    alarms = {}
    for threshold in (0, 0.01):
        verdicts = [first_verdict(*rounds_in_turn(seed, busy=busy), threshold=threshold) for seed in range(runs)]
        alarms[threshold] = sum(verdict.kind in CLAIMS for verdict in verdicts) / runs
        same = [verdict.n for verdict in verdicts if verdict.kind in ("same", "small difference")]
        print(
            f"A against A{', busy' * busy}, threshold {threshold:.0%}, at most {MOST} rounds: "
            f"{alarms[threshold]:.2%} false, {len(same) / runs:.0%} same"
        )
    # At most the level; a few simulations may exceed it by chance.
    assert alarms[0] <= (0.05 if runs >= 2000 else 0.1)
    assert alarms[0.01] <= (0.01 if runs >= 2000 else 0.03)


@counts(60, 1000)
@pytest.mark.parametrize("busy", [False, True])
def test_a_planted_change_is_found_early_where_it_is_large(busy, runs):
    mean_rounds = {}
    for planted in (0.03, 0.05, 0.1):
        pairs = [rounds_in_turn(seed, planted, busy=busy) for seed in range(runs)]
        verdicts = [first_verdict(a, b) for a, b in pairs]
        found = np.mean([verdict.kind == "slower" for verdict in verdicts])
        early = np.mean([verdict.kind == "slower" and verdict.n <= 10 for verdict in verdicts])
        fixed = np.mean([paired_verdict(a[:10], b[:10]).kind == "slower" for a, b in pairs])
        mean_rounds[planted] = np.mean([verdict.n for verdict in verdicts])
        print(
            f"planted {planted:.0%}{', busy' * busy}: {found:.1%} slower after {mean_rounds[planted]:.1f} rounds on "
            f"average, {early:.1%} within 10; fixed 10 rounds {fixed:.1%}"
        )
        assert found > (0.6 if busy else 0.95)
        assert not any(verdict.kind == "faster" for verdict in verdicts)
    assert mean_rounds[0.1] < mean_rounds[0.05] < mean_rounds[0.03]
    assert mean_rounds[0.1] < (8 if busy else 5)


@counts(40, 400)
def test_eight_metrics_looked_at_together_keep_the_level_of_one(runs):
    """Stopped as soon as any metric is called different: the worst a reader can do."""
    alarms = 0
    for seed in range(runs):
        sides = [rounds_in_turn(1000 * seed + metric, rounds=30) for metric in range(8)]
        alarms += any(
            change.verdict in CLAIMS
            for n in range(2, 31)
            for change in answer_all(
                [ask_ratio("m", "s", "time", a[:n], b[:n], 0, paired=True, rule="anytime") for a, b in sides]
            )
        )
    print(f"8 metrics, looked at after each of 30 rounds, Holm: {alarms / runs:.1%} with any false alarm")
    assert alarms / runs <= (0.05 if runs >= 400 else 0.13)


@counts(100, 2000)
@pytest.mark.parametrize(("spread_of_b", "baseline"), [(1, None), (3, None), (1, 3), (3, 10), (10, 10), (0.1, 5)])
def test_separate_runs_may_be_looked_at_too(spread_of_b, baseline, runs):
    """Both grow round by round, or b is measured until it differs from a baseline of so many rounds."""
    logs = np.random.default_rng(7).normal(0, PROCESS, (runs, 2, 30)) * np.array([[1], [spread_of_b]])
    sides = np.exp(logs)
    looks = [
        [decide(unpaired_log_ratio(a[: baseline or n], b[:n]), 0, rule="anytime") for n in range(2, 31)]
        for a, b in sides
    ]
    alarms = np.mean([any(verdict.kind in CLAIMS for verdict in verdicts) for verdicts in looks])
    print(f"separate runs, baseline {baseline or 'grows too'}, spread × {spread_of_b}: {alarms:.2%} false")
    assert alarms <= (0.05 if runs >= 2000 else 0.1)


def stopped_at_precision(generator, spread, least, most, precision=0.05):
    """Round medians that stop when the half-width of their interval is at most `precision` of them, or at a budget."""
    medians = np.exp(generator.normal(0, spread, most))
    for n in range(least, most):
        estimate = summarise_rounds([[median] for median in medians[:n]])
        if n >= 3 and estimate.high / estimate.value - 1 <= precision:
            return medians[:n]
    return medians


@pytest.mark.soak
@pytest.mark.parametrize("least", [3, 4, 5])
@pytest.mark.parametrize("spread", [0.013, 0.03, 0.06, 0.1, 0.2])
def test_intervals_of_rounds_that_stop_at_a_precision(least, spread):
    """Fewer rounds are taken where they happen to agree, so these intervals contain the truth less often."""
    generator, runs = np.random.default_rng(3), 2000
    inside = welch = rounds = 0
    for _ in range(runs):
        a, b = (stopped_at_precision(generator, spread, least, 12) for _ in range(2))
        estimate = summarise_rounds([[median] for median in a])
        inside += estimate.low <= 1 <= estimate.high
        rounds += len(a)
        welch += decide(unpaired_log_ratio(a, b), 0).kind in CLAIMS
    print(
        f"at least {least}, at most 12 rounds, spread {spread:.1%}: {inside / runs:.1%} contain the truth, "
        f"{rounds / runs:.1f} rounds; Welch on two such runs {welch / runs:.1%} false"
    )
    assert inside / runs > 0.89


@pytest.mark.parametrize("rounds", [3, 12])
def test_a_budget_that_does_not_look_at_the_numbers_costs_no_coverage(rounds):
    generator, runs = np.random.default_rng(5), 400
    estimates = [summarise_rounds([[m] for m in np.exp(generator.normal(0, PROCESS, rounds))]) for _ in range(runs)]
    inside = sum(estimate.low <= 1 <= estimate.high for estimate in estimates)
    assert 0.91 < inside / runs < 0.985
