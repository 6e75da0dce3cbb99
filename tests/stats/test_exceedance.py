"""Claims about a share of events: how often they are false when looked at after every event, and how soon they come."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betainc, betaincc, betaln

from stopwav.stats.exceedance import ALPHA, Share, clustered_share, log_evidence

LIMITS = (0.01, 0.05, 0.1)


def counts(short, long):
    """Parametrise a test by its number of events: some hundreds in every run, thousands in `make soak`."""
    return pytest.mark.parametrize("most", [short, pytest.param(long, marks=pytest.mark.soak)])


@functools.cache
def claims(limit, most):
    """For each number of events, the most that may exceed the limit for `below`, and the fewest for `above`."""
    below, above, edges = -1, 1, []
    for events in range(1, most + 1):
        # With one event more, one more may exceed; both edges only rise.
        while log_evidence(Share(below + 1, events), limit, "below") >= -math.log(ALPHA):
            below += 1
        while above <= events and log_evidence(Share(above, events), limit, "above") < -math.log(ALPHA):
            above += 1
        edges.append((below, above))
    return edges


def chances(limit, share, most):
    """The chance of each claim at any look, where one looks after every event: exact, by all the ways to get there."""
    # The chance of each count of exceeding events with no claim so far.
    open_, claimed = np.array([1.0]), {"below": 0.0, "above": 0.0}
    for below, above in claims(limit, most):
        open_ = np.append(open_, 0.0) * (1 - share) + np.append(0.0, open_) * share
        claimed["below"] += float(open_[: below + 1].sum())
        claimed["above"] += float(open_[above:].sum())
        open_[: below + 1] = open_[above:] = 0.0
    return claimed


@counts(300, 3000)
@pytest.mark.parametrize("limit", LIMITS)
def test_a_share_at_the_limit_is_claimed_on_either_side_in_at_most_a_fortieth(limit, most):
    claimed = chances(limit, limit, most)
    print(f"limit {limit:.0%}, looked at after each of {most} events: {claimed}")
    assert claimed["below"] <= ALPHA
    assert claimed["above"] <= ALPHA
    # Nor is the evidence weaker than it has to be: a test that never claims anything has no level to keep.
    assert claimed["above"] > ALPHA / 10


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 2])
def test_a_false_claim_of_a_share_on_the_other_side_is_rarer_still(limit, factor):
    claimed = chances(limit, limit * factor, 300)
    assert claimed["above" if factor < 1 else "below"] <= ALPHA


def test_the_power():
    # Half as many late events as are allowed: most often known after 700; three times as many: after 150.
    assert chances(0.05, 0.025, 700)["below"] > 0.7
    assert chances(0.05, 0.15, 150)["above"] > 0.85
    # None late: after 123 events in a row, where a test with a single look would need 72.
    fewest = next(n for n in range(1, 500) if Share(0, n).side_of(0.05) == "below")
    assert 72 < fewest <= 140


def exact(share, limit, side):
    """The evidence by the incomplete beta function, which is the average over shares in closed form."""
    first, second = share.exceeding + 1, share.events - share.exceeding + 1
    tail = betainc if side == "below" else betaincc
    width = limit if side == "below" else 1 - limit
    average = betaln(first, second) + math.log(tail(first, second, limit)) - math.log(width)
    return average - share.exceeding * math.log(limit) - (share.events - share.exceeding) * math.log1p(-limit)


@given(
    st.floats(0, 1),
    st.floats(0.1, 1e6),
    st.sampled_from([0.001, *LIMITS, 0.5, 0.9]),
    st.sampled_from(["below", "above"]),
)
@settings(max_examples=150)
def test_the_evidence_is_the_exact_integral(part, events, limit, side):
    share = Share(part * events, events)
    tail = betainc if side == "below" else betaincc
    if tail(share.exceeding + 1, events - share.exceeding + 1, limit) < 1e-290:
        assert log_evidence(share, limit, side) < 0  # no evidence at all, beyond what floating point holds
        return
    assert log_evidence(share, limit, side) == pytest.approx(exact(share, limit, side), abs=2e-3, rel=1e-3)


@given(st.integers(1, 2000), st.integers(0, 2000), st.sampled_from(LIMITS))
@settings(max_examples=80)
def test_one_event_more_speaks_for_its_own_side(events, exceeding, limit):
    exceeding = min(exceeding, events)
    before = Share(exceeding, events)
    late, early = Share(exceeding + 1, events + 1), Share(exceeding, events + 1)
    slack = 1e-3  # of the numeric average
    assert log_evidence(late, limit, "above") >= log_evidence(before, limit, "above") - slack
    assert log_evidence(late, limit, "below") <= log_evidence(before, limit, "below") + slack
    assert log_evidence(early, limit, "below") >= log_evidence(before, limit, "below") - slack
    assert log_evidence(early, limit, "above") <= log_evidence(before, limit, "above") + slack


@given(st.floats(0, 1), st.floats(0, 1e7), st.sampled_from(LIMITS))
@settings(max_examples=60)
def test_both_sides_are_never_claimed_and_more_of_the_same_claims_no_less(part, events, limit):
    share = Share(part * events, events)
    needed = -math.log(ALPHA)
    assert not (log_evidence(share, limit, "below") >= needed <= log_evidence(share, limit, "above"))
    doubled = Share(2 * share.exceeding, 2 * events)
    if share.side_of(limit) != "open":
        assert doubled.side_of(limit) == share.side_of(limit)


def test_the_edges():
    assert Share(0, 0).value is None
    assert Share(0, 0).side_of(0.05) == "open"
    assert Share(0, 1).side_of(0.05) == "open"
    assert Share(1, 1).side_of(0.05) == "open"
    assert Share(3, 3).side_of(0.05) == "above"  # three of three
    assert Share(200, 200).side_of(0.05) == "above"
    assert Share(0, 1e9).side_of(0.05) == "below"
    assert Share(1e9, 1e9).side_of(0.05) == "above"
    assert Share(5e7 - 5e5, 1e9).side_of(0.05) == "below"
    assert Share(5e7 + 5e5, 1e9).side_of(0.05) == "above"
    assert Share(5e7, 1e9).side_of(0.05) == "open"
    for limit in (0, 1, -0.1, 1.5, math.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            Share(1, 2).side_of(limit)


def test_words_of_a_session_that_are_all_late_together_are_worth_one_event():
    late = np.zeros(100)
    late[:10] = 20
    share = clustered_share(late, np.full(100, 20))
    assert share.value == pytest.approx(0.1)
    # As many as sessions, and not 2,000 words.
    assert share.events == pytest.approx(100, rel=0.02)


def test_words_that_are_late_one_by_one_are_worth_what_they_are():
    generator = np.random.default_rng(0)
    sizes = generator.integers(10, 30, 2000)
    share = clustered_share(generator.binomial(sizes, 0.1), sizes)
    assert share.events == pytest.approx(sizes.sum(), rel=0.2)


def test_the_edges_of_clusters():
    assert clustered_share([], []) == Share(0.0, 0.0)
    assert clustered_share([0, 0], [0, 0]) == Share(0.0, 0.0)
    # Nothing shows how alike the words of a session are: each session counts once.
    assert clustered_share([0, 0, 0], [20, 20, 20]) == Share(0.0, 3.0)
    # One that has nearly all of the words is nearly all that is known.
    assert clustered_share([0, 0, 0], [1, 1, 40]).events == pytest.approx(1.1, abs=0.01)
    assert clustered_share([20, 20], [20, 20]) == Share(2.0, 2.0)
    assert 1 <= clustered_share([3], [10]).events < 3
    # An event per session: all of them count.
    assert clustered_share([0, 1, 0, 1], [1, 1, 1, 1]) == Share(2.0, 4.0)
    # A session without words says nothing.
    assert clustered_share([1, 0, 0], [10, 0, 10]) == clustered_share([1, 0], [10, 10])


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40))
@settings(max_examples=200)
def test_clusters_are_never_worth_more_than_their_events(pairs):
    sizes = [max(pair) for pair in pairs]
    late = [min(pair) for pair in pairs]
    share = clustered_share(late, sizes)
    assert 0 <= share.events <= sum(sizes) + 1e-9
    assert 0 <= share.exceeding <= share.events + 1e-9
    if sum(sizes) and share.events:
        assert share.value == pytest.approx(sum(late) / sum(sizes))


def first_claim(late, sizes, limit, every):
    """The first claim, looking after so many more sessions each time."""
    for sessions in range(every, len(sizes) + 1, every):
        side = clustered_share(late[:sessions], sizes[:sessions]).side_of(limit)
        if side != "open":
            return side
    return "open"


@pytest.mark.parametrize("runs", [60, pytest.param(1000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("together", [0.1, 0.5, 1.0, None])
def test_sessions_whose_words_are_late_together_are_claimed_no_more_often(together, runs):
    """The share of late words is at the limit; sessions differ, so that most of these are of a few sessions."""
    limit, sessions, claimed = 0.05, 120, []
    for seed in range(runs):
        generator = np.random.default_rng(seed)
        sizes = generator.integers(5, 40, sessions)
        if together is None:
            shares = generator.beta(3 * limit, 3 * (1 - limit), sessions)
        else:
            shares = np.where(generator.random(sessions) < limit / together, together, 0.0)
        claimed.append(first_claim(generator.binomial(sizes, shares), sizes, limit, every=20))
    for side in ("below", "above"):
        # At most the level; a few simulations may exceed it by chance.
        noise = 3 * math.sqrt(ALPHA * (1 - ALPHA) / runs)
        print(f"together {together}, {runs} runs: {claimed.count(side) / runs:.2%} {side}")
        assert claimed.count(side) / runs <= ALPHA + noise
