import itertools
import math
import re
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from stopwav.stats import (
    Estimate,
    cluster_mean,
    cluster_percentiles,
    cluster_ratio,
    nearest_rank,
    paired_ratio_difference,
    paired_ratio_p_value,
    percentile,
    t_interval,
)

P50_P95 = (0.5, 0.95)


def clustered(seed, clusters, each, between, within, rounds=1, between_rounds=0.0):
    """Values, cluster labels and round labels of a log-normal model with a shift per cluster and one per round."""
    generator = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(clusters), each * rounds)
    by_round = np.tile(np.repeat(np.arange(rounds), each), clusters)
    logs = (
        generator.normal(0, between, clusters)[cluster]
        + generator.normal(0, between_rounds, rounds)[by_round]
        + generator.normal(0, within, cluster.size)
    )
    return np.exp(logs), cluster, by_round


def test_the_point_is_the_ratio_of_sums_not_the_mean_of_ratios():
    estimate = cluster_ratio([1, 9], [1, 99], ["short", "long"], unit="x")
    assert estimate.value == pytest.approx(10 / 100)
    assert (estimate.n, estimate.unit) == (2, "x")
    assert cluster_mean([1, 2, 6], [0, 0, 1]).value == 3


def test_percentiles_are_those_of_all_values():
    values, clusters, _ = clustered(0, 50, 10, 0.2, 0.2)
    estimates = cluster_percentiles(values, clusters, P50_P95, unit="ms")
    for p in P50_P95:
        assert estimates[p].value == nearest_rank(values, p)
        assert estimates[p].low < estimates[p].value < estimates[p].high
        assert (estimates[p].n, estimates[p].unit) == (500, "ms")


def test_too_few_values_or_clusters_say_so():
    estimates = cluster_percentiles(np.arange(31.0), np.arange(31), (0.5, 0.95))
    assert estimates[0.5].value == 15
    assert estimates[0.95] == Estimate(None, n=31, unit="s", note="needs 72 events, has 31", code="too-few")
    alone = cluster_percentiles(np.arange(100.0), ["u1"] * 100, (0.5,))[0.5]
    assert (alone.value, alone.low, alone.high, alone.note) == (
        49,
        None,
        None,
        "no interval: only 1 independent sample",
    )
    assert cluster_mean([1.0, 2.0], ["u1", "u1"]).note == "no interval: only 1 independent sample"
    assert cluster_mean(np.arange(8.0), np.arange(8) % 4).note == "rough interval: only 4 independent samples"


def test_repeating_values_within_clusters_adds_no_certainty():
    values = np.random.default_rng(0).lognormal(0, 0.3, 60)
    once, often = np.arange(60), np.repeat(np.arange(60), 20)
    assert percentile(values, 0.95).value is None  # 60 events
    repeated = cluster_percentiles(np.repeat(values, 20), often, (0.5, 0.95))
    assert repeated[0.95].low is None
    assert re.fullmatch(r"effective n \d+; a P95 interval needs 72", repeated[0.95].note)
    single = cluster_percentiles(values, once, (0.5,))[0.5]
    assert repeated[0.5].high - repeated[0.5].low == pytest.approx(single.high - single.low, rel=0.2)
    assert cluster_mean(np.repeat(values, 20), often).low == pytest.approx(cluster_mean(values, once).low)


def test_independent_values_get_nearly_the_binomial_and_the_t_interval():
    values = np.random.default_rng(1).lognormal(0, 0.3, 400)
    ours, binomial = cluster_percentiles(values, np.arange(400), (0.95,))[0.95], percentile(values, 0.95)
    assert ours.value == binomial.value
    assert (ours.low, ours.high) == pytest.approx((binomial.low, binomial.high), rel=0.04)
    mean = cluster_mean(values, np.arange(400))
    assert (mean.value, mean.low, mean.high) == pytest.approx(t_interval(values), rel=0.01)


def test_empty_and_broken_input():
    assert cluster_mean([], []).note == "no values"
    assert cluster_ratio([], [], []).value is None
    assert cluster_percentiles([], [], (0.5,))[0.5].note == "needs 6 events, has 0"
    assert cluster_mean([1.0, math.nan], [0, 1]).note == "1 of 2 values are not finite"
    assert cluster_ratio([1, 2], [0, 0], [0, 1]).note == "the denominators add up to 0"
    assert paired_ratio_difference([], [], []).value is None
    assert paired_ratio_p_value([], []) is None
    with pytest.raises(ValueError, match="needs its labels"):
        cluster_mean([1.0, 2.0], [0])
    with pytest.raises(ValueError, match="needs its labels"):
        cluster_mean([1.0, 2.0], [0, 1], rounds=[0])
    with pytest.raises(ValueError, match="as many denominators"):
        cluster_ratio([1.0], [1.0, 2.0], [0])
    with pytest.raises(ValueError, match="same samples"):
        paired_ratio_difference([1], [1, 2], [3, 4])


def test_constant_values_have_an_interval_of_no_width():
    estimate = cluster_percentiles([2.0] * 100, np.arange(100) % 20, (0.95,))[0.95]
    assert (estimate.value, estimate.low, estimate.high) == (2, 2, 2)
    mean = cluster_mean([2.0] * 100, np.arange(100) % 20)
    assert (mean.value, mean.low, mean.high) == (2, 2, 2)


def test_the_same_seed_gives_the_same_interval_and_labels_are_only_names():
    values, clusters, rounds = clustered(4, 30, 5, 0.2, 0.1, rounds=3)
    names = [f"cluster {number}" for number in clusters]
    numbered = cluster_percentiles(values, clusters, (0.5,), rounds, seed=7)
    assert numbered == cluster_percentiles(values, names, (0.5,), [f"r{number}" for number in rounds], seed=7)
    assert cluster_mean(values, clusters, seed=1) != cluster_mean(values, clusters, seed=2)


def test_rounds_are_drawn_from_three_on():
    values, clusters, rounds = clustered(5, 40, 5, 0.05, 0.05, rounds=4, between_rounds=0.3)
    without, crossed = cluster_mean(values, clusters), cluster_mean(values, clusters, rounds)
    assert crossed.high - crossed.low > 2 * (without.high - without.low)
    assert cluster_mean(values, clusters, rounds % 2) == without


def test_a_rate_of_counts_stays_positive():
    estimate = cluster_ratio([0] * 9 + [1], [10] * 10, np.arange(10))
    assert estimate.low == 0
    assert 0.01 < estimate.high < 0.1


def test_clusters_without_a_denominator_do_not_break_the_rate():
    estimate = cluster_ratio([0, 0, 1, 2, 1], [0, 0, 10, 10, 10], np.arange(5))
    assert estimate.value == pytest.approx(4 / 30)
    assert estimate.low < estimate.value < estimate.high


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-1e3, 1e3), st.integers(0, 5), st.integers(0, 3)), max_size=120),
    st.sampled_from([0.5, 0.9, 0.95]),
)
def test_any_design_gives_an_interval_around_its_value_or_a_note(rows, p):
    values, clusters, rounds = ([row[column] for row in rows] for column in range(3))
    estimates = [cluster_percentiles(values, clusters, (p,), rounds)[p], cluster_mean(values, clusters, rounds)]
    for estimate in estimates:
        if estimate.low is None:
            assert estimate.note
        else:
            slack = 1e-9 * (1 + abs(estimate.value))
            assert estimate.low - slack <= estimate.value <= estimate.high + slack


def test_paired_difference_by_hand():
    estimate = paired_ratio_difference([3, 2, 5, 0, 4, 1], [1, 1, 3, 0, 3, 1], [10, 10, 10, 10, 10, 10])
    assert estimate.value == pytest.approx((9 - 15) / 60)
    assert estimate.high < 0


def test_p_value_is_that_of_all_swaps():
    a, b = [3, 2, 5, 0, 4, 1, 7, 2], [1, 1, 3, 1, 3, 1, 3, 3]
    differences = np.subtract(b, a)
    swaps = [abs(np.dot(signs, differences)) for signs in itertools.product((-1, 1), repeat=8)]
    exact = np.mean(np.array(swaps) >= abs(differences.sum()))
    assert paired_ratio_p_value(a, b) == pytest.approx(exact, abs=0.015)
    assert paired_ratio_p_value(a, a) == 1


@pytest.mark.parametrize("runs", [50, pytest.param(200, marks=pytest.mark.soak)])
def test_equal_sides_differ_at_the_nominal_rate_and_pairing_narrows_the_interval(runs):
    generator = np.random.default_rng(6)
    excluded = significant = paired_width = unpaired_width = 0.0
    for seed in range(runs):
        hard = generator.beta(1, 8, 60)  # some samples are hard for both
        totals = generator.integers(5, 30, 60)
        a, b = generator.binomial(totals, hard), generator.binomial(totals, hard)
        difference = paired_ratio_difference(a, b, totals, seed)
        excluded += not difference.low <= 0 <= difference.high
        significant += paired_ratio_p_value(a, b, seed) <= 0.05
        paired_width += difference.high - difference.low
        alone = cluster_ratio(a, totals, np.arange(60), seed=seed)
        unpaired_width += math.sqrt(2) * (alone.high - alone.low)
    shares = 100 * excluded / runs, 100 * significant / runs
    print(f"equal sides: interval excludes 0 in {shares[0]:.1f} %, p ≤ 0.05 in {shares[1]:.1f} %")
    assert scipy_stats.binomtest(int(excluded), runs, 0.05).pvalue > 0.001
    assert scipy_stats.binomtest(int(significant), runs, 0.05).pvalue > 0.001
    assert paired_width < 0.8 * unpaired_width


# Clusters, values in each, sd between clusters, sd within, rounds, sd between rounds.
MODELS = {
    "24 clusters, values differ most": (24, 15, 0.1, 0.3, 1, 0.0),
    "24 clusters, 3 rounds": (24, 15, 0.1, 0.3, 3, 0.03),
    "40 clusters, clusters differ most": (40, 25, 0.3, 0.2, 1, 0.0),
}


@pytest.mark.parametrize("runs", [50, pytest.param(250, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", MODELS)
def test_coverage(name, runs):
    """Intervals contain the true value about as often as they say, where those of independent values do not."""
    clusters, each, between, within, rounds, between_rounds = MODELS[name]
    total = math.sqrt(between**2 + within**2 + between_rounds**2)
    truths = {0.5: 1.0, 0.95: math.exp(1.6448536269514722 * total), "mean": math.exp(total**2 / 2)}
    hits, given_, naive = dict.fromkeys(truths, 0), dict.fromkeys(truths, 0), 0
    for seed in range(runs):
        values, cluster, by_round = clustered(seed, clusters, each, between, within, rounds, between_rounds)
        percentiles = cluster_percentiles(values, cluster, P50_P95, by_round, seed)
        for key, estimate in {**percentiles, "mean": cluster_mean(values, cluster, by_round, seed)}.items():
            if estimate.low is not None:
                given_[key] += 1
                hits[key] += estimate.low <= truths[key] <= estimate.high
        alone = percentile(values, 0.5)
        naive += alone.low <= 1.0 <= alone.high
    share = {key: hits[key] / given_[key] for key in truths}
    print(
        f"{name}: P50 {100 * share[0.5]:.0f} %, P95 {100 * share[0.95]:.0f} % "
        f"(given in {100 * given_[0.95] / runs:.0f} %), mean {100 * share['mean']:.0f} %; "
        f"P50 as if independent {100 * naive / runs:.0f} %"
    )
    assert given_[0.5] == runs
    for key in (0.5, "mean"):
        assert scipy_stats.binomtest(hits[key], runs, 0.95).pvalue > 0.001
    assert share[0.95] >= 0.87
    assert naive / runs < 0.9


def test_a_hundred_thousand_values_take_well_under_three_seconds():
    generator = np.random.default_rng(0)
    clusters, rounds = np.repeat(np.arange(2000), 50), np.tile(np.arange(5), 20_000)
    values = generator.lognormal(0, 0.3, 2000)[clusters] * generator.lognormal(0, 0.2, 100_000)
    began = time.process_time()
    cluster_percentiles(values, clusters, (0.5, 0.95, 0.99), rounds)
    elapsed_s = time.process_time() - began
    print(f"100,000 values, 2,000 clusters, 3 percentiles: {elapsed_s:.2f} s")
    assert elapsed_s < 3
