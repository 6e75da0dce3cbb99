"""The two rules of a verdict, against scipy's distributions and against each other."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from scipy import stats as scipy_stats

from stopwav.stats import LogRatio, decide, paired_log_ratio, paired_verdict, rule_text, unpaired_log_ratio
from stopwav.stats.change import ask_count, ask_errors, ask_ratio
from stopwav.stats.rule import PRIOR_ROUNDS, fewest_rounds, interval_reach

RULES = ("fixed", "anytime")
rules = pytest.mark.parametrize("rule", RULES)


def made(mean, standard_error, n=10):
    """A paired log ratio with the given mean and standard error."""
    return LogRatio(mean, standard_error, n - 1, standard_error * math.sqrt(n), n, True)


@pytest.mark.parametrize(("n", "t"), [(2, 30.0), (3, 8.0), (5, 4.0), (10, 3.0), (10, 6.0), (40, 2.5)])
def test_the_p_value_is_one_over_the_likelihood_ratio_of_the_mixture(n, t):
    """The ratio of the noncentral t, averaged over the effects of the mixture, to the central t."""
    effects = scipy_stats.norm(0, 1 / math.sqrt(PRIOR_ROUNDS))
    mixed, _ = integrate.quad(
        lambda effect: scipy_stats.nct.pdf(t, n - 1, effect * math.sqrt(n)) * effects.pdf(effect),
        *(-12, 40),
        points=[t / math.sqrt(n)],
        limit=500,
    )
    expected = scipy_stats.t.pdf(t, n - 1) / mixed
    assert made(0.01 * t, 0.01, n).p_value(rule="anytime") == pytest.approx(min(1, expected), rel=1e-4)


@rules
@given(
    n=st.integers(2, 200),
    confidence=st.floats(0.5, 0.9999),
    mean=st.floats(-0.5, 0.5),
    threshold=st.sampled_from([0, 0.01, 0.1]),
)
def test_interval_and_p_value_agree(rule, n, confidence, mean, threshold):
    """A log ratio at the end of its interval from the edge has the p value 1 - confidence, at any confidence."""
    reach = interval_reach(rule, confidence, n - 1, n, n)
    if math.isinf(reach):
        assert n < fewest_rounds(rule, confidence)
        verdict = decide(made(mean, 0.01, n), threshold, confidence, rule)
        assert (verdict.kind, verdict.low) == ("undecided", None)
        assert verdict.note == f"needs at least {fewest_rounds(rule, confidence)} rounds per side"
        return
    edge = math.log1p(threshold)
    at_the_end = made(math.copysign(edge + 0.001 * reach, mean), 0.001, n)
    assert at_the_end.p_value(edge, rule) == pytest.approx(1 - confidence, rel=1e-6)
    for factor, claims in ((0.999, False), (1.001, True)):
        ratio = made(math.copysign(edge + factor * 0.001 * reach, mean), 0.001, n)
        assert (decide(ratio, threshold, confidence, rule).kind in ("faster", "slower")) is claims


@given(st.integers(3, 300), st.floats(0.8, 0.9999))
def test_more_rounds_always_reach_less_far_and_looking_costs_something(n, confidence):
    reach = [interval_reach("anytime", confidence, m - 1, m, m) / math.sqrt(m) for m in (n, n + 1)]
    assert reach[1] < reach[0] or math.isinf(reach[1])
    assert reach[0] > interval_reach("fixed", confidence, n - 1, n, n) / math.sqrt(n)


def test_two_rounds_are_too_few_to_look_at_and_three_are_not():
    assert paired_verdict([1.0, 1.0], [2.0, 2.001]).kind == "slower"
    early = paired_verdict([1.0, 1.0], [2.0, 2.001], rule="anytime")
    assert (early.kind, early.low, early.note) == ("undecided", None, "needs at least 3 rounds per side")
    assert early.more_rounds == 1
    assert paired_verdict([1.0] * 3, [2.0, 2.001, 1.999], rule="anytime").kind == "slower"
    # At the confidence of one metric of 24, after Holm.
    assert fewest_rounds("anytime", 1 - 0.05 / 24) == 5
    one = paired_verdict([1.0], [2.0], rule="anytime")
    assert (one.kind, one.p_value, one.note) == ("undecided", None, "needs at least 2 rounds per side")


@rules
def test_a_verdict_says_by_which_rule_it_was_made(rule):
    a, b = [1.0, 1.1, 0.9, 1.0], [1.2, 1.31, 1.08, 1.21]
    assert paired_verdict(a, b, rule=rule).rule == rule
    assert decide(unpaired_log_ratio(a, b), rule=rule).rule == rule
    assert paired_verdict([1.0], [1.0], rule=rule).rule == rule
    change = ask_ratio("rtf", "", "time", a, b, 0.01, paired=True, rule=rule).answer(0.975)
    assert change.rule == change.to_json()["rule"] == rule
    assert change.rule_text == rule_text(rule, 0.975)
    assert change.rule_text.startswith("97.5 % ")
    assert rule_text(rule, 0.95).endswith(rule_text(rule))
    assert rule_text("fixed") != rule_text("anytime")


def test_what_is_not_decided_by_rounds_names_no_rule_of_rounds():
    count = ask_count("parameters", 1, 2).answer(0.95)
    assert (count.rule, count.to_json()["rule"], count.rule_text) == (None, None, "")
    errors = ask_errors("wer", [1, 0, 2, 1], [1, 1, 2, 2], [9, 9, 9, 9], 0.01).answer(0.95)
    assert (errors.rule, errors.rule_text) == (None, "95 % paired bootstrap over samples")


@given(st.integers(3, 12), st.floats(0.001, 0.2), st.floats(-0.3, 0.3))
def test_what_may_be_looked_at_claims_nothing_that_a_fixed_plan_would_not(n, spread, mean):
    logs = mean + spread * np.sin(1.7 * np.arange(n))
    fixed, anytime = (decide(paired_log_ratio(np.ones(n), np.exp(logs)), 0.01, 0.95, rule) for rule in RULES)
    assert anytime.kind in (fixed.kind, "undecided") or fixed.kind == "small difference"
    assert anytime.p_value >= fixed.p_value
    if anytime.low is not None:
        assert anytime.low <= fixed.low <= fixed.high <= anytime.high


def test_counts_need_no_rule():
    for judge in (paired_log_ratio, unpaired_log_ratio):
        verdict = decide(judge([3.0] * 2, [4.0] * 2), rule="anytime")
        assert (verdict.kind, verdict.p_value) == ("slower", 0.0)
        assert verdict.low == verdict.high == pytest.approx(4 / 3)


def test_separate_runs_count_the_rounds_of_the_smaller():
    generator = np.random.default_rng(0)
    a, b = np.exp(generator.normal(0, 0.01, 40)), np.exp(generator.normal(0.1, 0.01, 40))
    widths = []
    for rounds in (2, 3, 5, 40):
        verdict = decide(unpaired_log_ratio(a[:rounds], b), rule="anytime")
        widths.append(math.inf if verdict.low is None else math.log(verdict.high / verdict.low))
    assert widths[0] == math.inf
    assert widths[1] > widths[2] > widths[3]
