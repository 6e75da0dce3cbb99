import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from stopwav.stats import (
    Estimate,
    LogRatio,
    Verdict,
    decide,
    paired_verdict,
    unpaired_log_ratio,
)
from stopwav.stats.change import answer_all, ask_estimates, ask_ratio

MEDIANS = st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=12)


def made(mean, standard_error, n=10):
    """A paired log ratio with the given mean and standard error."""
    return LogRatio(mean, standard_error, n - 1, standard_error * math.sqrt(n), n, True)


def asked(mean, standard_error=0.01, threshold=0.01, n=10):
    """A question about n paired rounds whose log ratios have the given mean and standard error."""
    logs = np.linspace(-1, 1, n)
    logs *= standard_error * math.sqrt(n) / logs.std(ddof=1)
    return ask_ratio("m", "s", "time", np.ones(n), np.exp(mean + logs), threshold, paired=True)


def unpaired_verdict(a, b, **settings):
    return decide(unpaired_log_ratio(a, b), **settings)


# t(9) = 2.262; the threshold is log(1.01) = 0.00995
@pytest.mark.parametrize(
    ("mean", "standard_error", "kind"),
    [
        (0.030, 0.005, "slower"),  # 0.0187 … 0.0413
        (-0.030, 0.005, "faster"),
        (0.000, 0.002, "same"),  # ±0.0045
        (0.002, 0.002, "same"),
        (0.005, 0.002, "small difference"),  # 0.0005 … 0.0095
        (-0.005, 0.002, "small difference"),
        (0.020, 0.005, "undecided"),  # 0.0087 … 0.0313
        (0.000, 0.005, "undecided"),
        (0.008, 0.002, "undecided"),  # 0.0035 … 0.0125: a difference of unknown size
    ],
)
def test_the_five_verdicts(mean, standard_error, kind):
    verdict = decide(made(mean, standard_error))
    assert verdict.kind == kind
    assert verdict.ratio == pytest.approx(math.exp(mean))
    assert verdict.low == pytest.approx(math.exp(mean - 2.262157 * standard_error))
    assert verdict.high == pytest.approx(math.exp(mean + 2.262157 * standard_error))
    assert (verdict.more_rounds is None) == (kind != "undecided")


def test_paired_is_students_t_on_log_ratios():
    generator = np.random.default_rng(0)
    a, b = generator.lognormal(0, 0.1, 10), generator.lognormal(0.02, 0.1, 10)
    verdict, theirs = paired_verdict(a, b), scipy_stats.ttest_rel(np.log(b), np.log(a))
    interval = theirs.confidence_interval(0.95)
    assert verdict.p_value == pytest.approx(theirs.pvalue, rel=1e-9)
    assert (verdict.low, verdict.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)), rel=1e-9)
    assert (verdict.n, verdict.paired, verdict.threshold, verdict.confidence) == (10, True, 0.01, 0.95)


def test_unpaired_is_welchs_t_on_logs():
    generator = np.random.default_rng(1)
    a, b = generator.lognormal(0, 0.05, 7), generator.lognormal(0.02, 0.2, 12)
    verdict, theirs = unpaired_verdict(a, b), scipy_stats.ttest_ind(np.log(b), np.log(a), equal_var=False)
    interval = theirs.confidence_interval(0.95)
    assert verdict.p_value == pytest.approx(theirs.pvalue, rel=1e-9)
    assert (verdict.low, verdict.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)), rel=1e-9)
    assert (verdict.n, verdict.paired) == (7, False)
    assert str(verdict).endswith("unpaired)")


def test_one_round_per_side_gives_no_verdict():
    for judge in (paired_verdict, unpaired_verdict):
        verdict = judge([1.0], [2.0])
        assert (verdict.kind, verdict.more_rounds, verdict.ratio, verdict.low) == ("undecided", 9, 2.0, None)
        assert verdict.p_value is None
        assert verdict.note == "needs at least 2 rounds per side"
    assert str(paired_verdict([1.0], [2.0])) == "undecided (9 more rounds)"
    assert unpaired_verdict([1.0], [2.0, 2.1, 2.2]).kind == "undecided"


def test_nothing_to_compare():
    assert paired_verdict([], []).more_rounds == 10
    for bad in ([1.0, 0.0], [1.0, -2.0], [1.0, math.nan], [1.0, math.inf]):
        verdict = paired_verdict(bad, [1.0, 1.0])
        assert (verdict.kind, verdict.ratio, verdict.more_rounds) == ("undecided", None, None)
        assert "not a positive number" in verdict.note
    with pytest.raises(ValueError, match="come in pairs, got 2 of a and 3 of b"):
        paired_verdict([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="threshold"):
        paired_verdict([1, 2], [1, 2], threshold=-0.1)
    with pytest.raises(ValueError, match="confidence"):
        paired_verdict([1, 2], [1, 2], confidence=1.0)


@pytest.mark.parametrize("judge", [paired_verdict, unpaired_verdict])
@pytest.mark.parametrize(
    ("factor", "kind"), [(1.0, "same"), (1.005, "small difference"), (1.02, "slower"), (0.5, "faster")]
)
def test_rounds_without_spread_are_counts(judge, factor, kind):
    verdict = judge([0.3] * 4, [0.3 * factor] * 4)
    assert verdict.kind == kind
    assert verdict.low == verdict.high == pytest.approx(factor)
    assert verdict.p_value == (1.0 if factor == 1.0 else 0.0)
    assert "no spread" in verdict.note


def test_rounding_is_not_a_difference():
    a = np.array([0.1, 0.3, 0.7, 1.1])
    assert paired_verdict(a, a * 3 / 3, threshold=0).kind == "same"
    # the ratios are equal except in the last digit
    assert paired_verdict(a, a * 1.05, threshold=0).note.startswith("no spread")


@given(MEDIANS, st.data())
def test_swapping_the_sides_swaps_the_verdict(a, data):
    b = data.draw(st.lists(st.floats(1e-3, 1e3), min_size=len(a), max_size=len(a)))
    swapped = {"faster": "slower", "slower": "faster"}
    for judge in (paired_verdict, unpaired_verdict):
        forward, backward = judge(a, b), judge(b, a)
        assert forward.kind == swapped.get(backward.kind, backward.kind)
        assert forward.ratio == pytest.approx(1 / backward.ratio, rel=1e-9)
        assert forward.more_rounds == backward.more_rounds


@given(MEDIANS, st.floats(0.001, 1000))
def test_a_common_factor_does_not_matter_to_pairs(a, factor):
    b = a[::-1]
    plain, scaled = paired_verdict(a, b), paired_verdict([factor * x for x in a], [factor * x for x in b])
    assert plain.ratio == pytest.approx(scaled.ratio, rel=1e-9)


def test_a_verdict_as_text():
    common = (1.0, 0.9, 1.1, 0.95, 0.01, 10)
    assert str(Verdict("undecided", *common, more_rounds=12)) == "undecided (12 more rounds)"
    assert str(Verdict("undecided", *common, more_rounds=1)) == "undecided (1 more round)"
    assert str(Verdict("undecided", *common, more_rounds=3, paired=False)) == "undecided (3 more rounds, unpaired)"
    assert str(Verdict("slower", *common)) == "slower"
    assert str(Verdict("slower", *common, paired=False)) == "slower (unpaired)"


def test_further_rounds_shrink_with_distance_and_end_in_none_on_the_threshold():
    suggested = [decide(made(mean, 0.01)).more_rounds for mean in (0.0195, 0.0245, 0.0295)]
    assert suggested == sorted(suggested, reverse=True)
    assert suggested[-1] >= 1
    verdict = decide(made(math.log(1.01), 0.01))
    assert verdict.more_rounds is None
    assert "too close to the threshold" in verdict.note
    assert str(verdict) == "undecided"


def test_one_metric_is_no_family_and_an_untestable_one_does_not_make_the_others_stricter():
    clear, untestable = asked(0.05), ask_ratio("m", "s", "time", [1.0], [1.1], 0.01, paired=True)
    assert answer_all([clear]) == [clear.answer(0.95)]
    questions = [clear, untestable, untestable]
    assert answer_all(questions) == [question.answer(0.95) for question in questions]
    assert answer_all([]) == []


def test_holm_decides_the_clearest_at_the_strictest_confidence_and_relaxes_nothing_after_an_undecided():
    changes = answer_all([asked(0.005), asked(0.05), asked(0.0)])
    assert [change.verdict for change in changes] == ["undecided", "slower", "undecided"]
    assert [change.confidence for change in changes] == pytest.approx([1 - 0.05 / 2, 1 - 0.05 / 3, 1 - 0.05 / 2])


def test_a_question_is_decided_at_its_part_of_the_probability_of_error():
    # A whole and nine parts: with a half of it the whole is decided at 97.5 %, not 99.5 %; each part at 1 - 0.05/18.
    whole, *parts = [replace(asked(0.005), weight=weight) for weight in (1.0, *[1 / 9] * 9)]
    changes = answer_all([whole, *parts])
    assert changes[0].confidence == pytest.approx(1 - 0.05 / 2)
    assert [change.confidence for change in changes[1:]] == pytest.approx([1 - 0.05 / 18] * 9)
    # Once the whole is decided, the parts have all of it.
    decided = answer_all([replace(whole, p_value=0.0, answer=asked(0.05).answer), *parts])
    assert [change.confidence for change in decided[1:]] == pytest.approx([1 - 0.05 / 9] * 9)
    # Equal weights are none.
    equal = [replace(asked(mean), weight=7.0) for mean in (0.005, 0.05, 0.0)]
    assert answer_all(equal) == answer_all([asked(mean) for mean in (0.005, 0.05, 0.0)])


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ((5, 5, 5), (5, 5, 5), "same"),
        ((1000, 1000, 1000), (1001, 1001, 1001), "small difference"),
        ((5, 5, 5), (6, 6, 6), "more"),
        ((5, 5, 5), (0, 0, 0), "fewer"),
        ((0, 0, 0), (1, 1, 1), "more"),
        ((0, 0, 0), (0, 0, 0), "same"),
        # Intervals of a search: a claim where they do not touch.
        ((8, 7, 9), (12, 10, 15), "more"),
        ((8, 7, 9), (12, 9, 15), "undecided"),
        ((8, 7, None), (4, 3, 6), "fewer"),
        ((8, 7, None), (12, 10, None), "undecided"),
        ((8, 7, 9), (8, 7, 9), "undecided"),
    ],
)
def test_numbers_of_whole_runs_are_compared_by_their_ends(a, b, verdict):
    change = ask_estimates("capacity", "streams", "capacity", Estimate(*a), Estimate(*b), 0.01).answer(0.95)
    assert change.verdict == verdict
    assert change.p_value is None
    assert change.is_worse == (verdict == "fewer")
    assert all(end is None or math.isfinite(end) for end in (change.value, change.low, change.high))
    json.dumps(change.to_json(), allow_nan=False)


def test_each_metric_may_have_its_own_threshold():
    changes = answer_all([asked(0.03, 0.001, 0.01), asked(0.03, 0.001, 0.1)])
    assert [change.verdict for change in changes] == ["slower", "small difference"]


def test_rounds_that_differ_too_much_give_no_interval_and_no_claim() -> None:
    # One degree of freedom at a confidence after Holm over 24 questions: t is 305, and exp(305 · 12) overflows.
    verdict = paired_verdict([1.0, 1.0], [1.0, 1e10], confidence=1 - 0.05 / 24)
    assert (verdict.kind, verdict.low, verdict.high) == ("undecided", None, None)
    assert "rounds differ too much" in verdict.note
    assert verdict.ratio == pytest.approx(1e5)
