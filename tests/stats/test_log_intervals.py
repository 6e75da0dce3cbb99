"""Intervals of positive quantities on the log scale, and which intervals are rough."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stopwav.stats import (
    Estimate,
    cluster_mean,
    cluster_percentiles,
    cluster_ratio,
    fit_growth,
    inverse,
    scaled,
    side_of,
    summarise_rounds,
)
from stopwav.stats.change import ask_errors, ask_ratio

# Seconds of compute and of audio of the utterances of a run, each once in each of `rounds` rounds.
utterances = st.lists(st.tuples(st.floats(0.01, 10), st.floats(0.5, 30)), min_size=2, max_size=8)


@settings(max_examples=40, deadline=None)
@given(utterances, st.sampled_from([1, 3]))
def test_a_positive_interval_is_above_zero_and_that_of_the_inverse_is_its_inverse(
    pairs: list[tuple[float, float]], rounds: int
) -> None:
    compute = [seconds * (1 + 0.1 * index) for index in range(rounds) for seconds, _ in pairs]
    audio = [seconds for _ in range(rounds) for _, seconds in pairs]
    labels = [*range(len(pairs))] * rounds, [index for index in range(rounds) for _ in pairs]
    rtf = cluster_ratio(compute, audio, *labels, positive=True)
    rtfx = cluster_ratio(audio, compute, *labels, positive=True)
    assert rtf.value == pytest.approx(sum(compute) / sum(audio))
    if rtf.low is None or rtf.high is None:
        assert "differ too much" in rtf.note
        return
    assert 0 < rtf.low <= rtf.value * (1 + 1e-9)
    assert rtf.value <= rtf.high * (1 + 1e-9)
    derived = inverse(rtf)
    assert (derived.value, derived.low, derived.high) == (1 / rtf.value, 1 / rtf.high, 1 / rtf.low)
    # The quantiles of the log replicates are mirrored too: either may be derived from the other.
    assert (rtfx.value, rtfx.low, rtfx.high) == pytest.approx((derived.value, derived.low, derived.high))
    assert derived.rough == rtf.rough == (len(pairs) < 5)


def test_few_long_utterances_do_not_reach_zero() -> None:
    """Latencies of 2, 3 and 20 s: on a linear scale the interval of their mean would be 0 to 31 s."""
    seconds = [2.0, 3.0, 20.0]
    linear, positive = (cluster_mean(seconds, range(3), positive=positive) for positive in (False, True))
    assert linear.low == 0
    assert positive.value == linear.value
    assert positive.low is not None
    assert 0 < positive.low < 2


def test_zeros_leave_the_linear_scale_and_its_limit() -> None:
    nothing = cluster_ratio([0.0, 0.0, 1.0], [1.0, 1.0, 1.0], range(3), positive=True)
    assert nothing == cluster_ratio([0.0, 0.0, 1.0], [1.0, 1.0, 1.0], range(3))
    assert nothing.low == 0
    # Net energy, or a word that is shown before it ends: below zero by nature, and not cut.
    assert (cluster_mean([-1.0, 0.5, 2.0, -3.0, 1.0, 0.2], range(6)).low or 0.0) < 0


def test_two_samples_that_differ_much_have_no_interval() -> None:
    apart = cluster_mean([1.0, 9.0], ["a", "b"], positive=True)
    assert (apart.value, apart.low) == (5, None)
    assert apart.note == "no interval: 2 independent samples differ too much for one"
    assert not apart.rough


@pytest.mark.parametrize("runs", [80, pytest.param(600, marks=pytest.mark.soak)])
def test_coverage_is_no_worse_than_on_the_linear_scale(runs: int) -> None:
    """Utterances of 2 to 15 s whose RTF is log-normal: how often the interval holds the true ratio of sums."""
    shares: dict[bool, list[float]] = {False: [], True: []}
    for count, spread in ((3, 0.5), (3, 1.0), (5, 0.2), (10, 0.5)):
        hits = {False: 0, True: 0}
        for seed in range(runs):
            draw = np.random.default_rng(seed)
            audio, rtf = draw.uniform(2, 15, count), 0.5 * np.exp(draw.normal(0, spread, count) - spread**2 / 2)
            for positive in hits:
                estimate = cluster_ratio(rtf * audio, audio, range(count), seed=seed, positive=positive)
                # What has no interval because it would be too wide excludes nothing.
                hits[positive] += estimate.low is None or estimate.low <= 0.5 <= estimate.high  # type: ignore[operator]
        print(f"{count} utterances, sd {spread}: linear {hits[False] / runs:.1%}, log scale {hits[True] / runs:.1%}")
        for positive, hit in hits.items():
            shares[positive].append(hit / runs)
    assert min(on_log - linear for linear, on_log in zip(*shares.values(), strict=True)) > -0.03
    assert np.mean(shares[True]) >= np.mean(shares[False])
    assert shares[True][2] > 0.87


def test_one_rule_says_which_intervals_are_rough() -> None:
    for units, rough in ((3, True), (4, True), (5, False)):
        values = 1 + 0.1 * np.arange(units)
        assert cluster_mean(values, range(units)).rough == rough
        assert cluster_mean(values, range(units), positive=True).rough == rough
        many = np.random.default_rng(0).normal(1, 0.1, 200 * units)
        assert cluster_percentiles(many, [*range(units)] * 200, (0.5,))[0.5].rough == rough
        assert summarise_rounds([[value] * 7 for value in values]).rough == rough
        assert fit_growth(1 + np.arange(units), values).predict(2.0).rough == rough
        ratio = ask_ratio("rtf", "", "time", values, values * 1.1**values, 0.01).answer(0.95)
        assert ratio.rough == ratio.to_json()["rough"] == rough
        assert ask_errors("wer", [*range(units)], [1] * units, [9] * units, 0.01).answer(0.95).rough == rough
    for rounds in ([[1.0, 1.1, 1.2, 1.3, 1.4, 1.5]], [[1.0, 1.1, 1.2, 1.3], [1.0, 1.1, 1.2, 1.3]]):
        assert summarise_rounds(rounds).rough  # within one process, and within two
    assert not Estimate(1.0, rough=True).rough  # no interval that could be
    rough = Estimate(2.0, 1.0, 4.0, 3, "s", rough=True)
    assert scaled(rough, 0.5).rough
    assert inverse(rough) == Estimate(0.5, 0.25, 1.0, 3, rough=True)


def test_a_prediction_stays_above_zero() -> None:
    fit = fit_growth([1, 2, 4], [0.1, 0.21, 0.4])
    prediction = fit.predict(5)
    assert prediction.low is not None
    assert prediction.high is not None
    assert prediction.value is not None
    assert 0 < prediction.low < prediction.value
    assert prediction.low * prediction.high == pytest.approx(prediction.value**2)
    # Far out the straight line says nothing any more.
    far = fit_growth([1, 2, 4], [0.1, 0.35, 0.4]).predict(60)
    assert far.value is not None
    assert far.low is None
    assert "no interval: too uncertain there; measure it" in far.note


def test_sides_of_a_limit_by_hand() -> None:
    assert side_of(Estimate(0.5, 0.4, 0.9), 1.0) == "below"
    assert side_of(Estimate(1.5, 1.1, 2.0), 1.0) == "above"
    assert side_of(Estimate(0.82, 0.34, 1.16), 1.0) == "undecided"
    assert side_of(Estimate(0.9, 0.8, 1.0), 1.0) == "undecided"
    assert side_of(Estimate(0.1), 1.0) == "undecided"
    assert math.isclose(inverse(Estimate(0.82, 0.34, 1.16)).low or 0.0, 1 / 1.16)
