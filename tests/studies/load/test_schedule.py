"""When sessions begin: as many open as a level has, spread over everything, and the same ones for the same seed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stopwav.studies.load.schedule import LONGEST_GAP_S, SHORTEST_RAMP_S, schedule_level

LENGTHS_S = (2.0, 4.5, 7.0, 18.5)
MODES = ("streams", "constant", "poisson")


def open_at(schedule, lengths_s, times_s):
    """How many sessions speak at each of these times."""
    begins_s = np.array([session.begin_s for session in schedule.sessions])
    ends_s = begins_s + np.array([lengths_s[session.utterance] for session in schedule.sessions])
    return np.array([np.count_nonzero((begins_s <= at_s) & (at_s < ends_s)) for at_s in times_s])


def steady_times(schedule, count=400):
    return np.linspace(schedule.ramp_s, schedule.steady_end_s, count)


@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
@pytest.mark.parametrize("streams", [1, 12])
def test_as_many_are_open_on_average_as_the_level_has(arrivals, streams):
    """Little's law, from the first moment that counts to the last."""
    steady_s, runs = 60.0, 300
    means = []
    for seed in range(runs):
        schedule = schedule_level(streams, LENGTHS_S, steady_s, 3.0, arrivals, seed)
        means.append(open_at(schedule, LENGTHS_S, steady_times(schedule, 60)))
    by_time = np.mean(means, axis=0)
    assert by_time.mean() == pytest.approx(streams, rel=0.08)
    # No less at its beginning: the ramp lasts until the longest session of it may have ended.
    assert by_time[:10].mean() == pytest.approx(streams, rel=0.15)
    assert by_time[-10:].mean() == pytest.approx(streams, rel=0.15)


def test_constant_arrivals_come_at_one_rate_and_those_of_poisson_at_random():
    gaps_s = {}
    for arrivals in ("constant", "poisson"):
        schedule = schedule_level(10, LENGTHS_S, 400.0, 3.0, arrivals, seed=1)
        gaps_s[arrivals] = np.diff([session.begin_s for session in schedule.sessions])
        assert gaps_s[arrivals].mean() == pytest.approx(0.8, rel=0.1)
    # But for a moment, so that streams are not in step.
    assert np.abs(gaps_s["constant"] - 0.8).max() <= LONGEST_GAP_S + 1e-9
    # Of an exponential distribution the deviation is the mean.
    assert gaps_s["poisson"].std() == pytest.approx(gaps_s["poisson"].mean(), rel=0.15)


@pytest.mark.parametrize("streams", [1, 2, 7, 50])
def test_so_many_streams_are_open_at_any_time(streams):
    schedule = schedule_level(streams, LENGTHS_S, 30.0, 3.0, "streams", seed=streams)
    # Until the end of what counts and of what is waited for after it.
    times_s = np.linspace(schedule.ramp_s, schedule.steady_end_s + max(LENGTHS_S), 1000)
    counts = open_at(schedule, LENGTHS_S, times_s)
    assert counts.max() <= streams
    mean_s = sum(LENGTHS_S) / len(LENGTHS_S)
    # A caller hangs up, and a moment later there is the next.
    assert counts.mean() == pytest.approx(streams * mean_s / (mean_s + LONGEST_GAP_S / 2), rel=0.05)


@pytest.mark.parametrize("arrivals", MODES)
def test_sessions_begin_at_any_phase_of_a_chunk(arrivals):
    """A server whose streams are in step would have them all at once, and then nothing to do."""
    for chunk_s in (0.1, 0.32):
        begins_s = [
            session.begin_s
            for seed in range(20)
            for session in schedule_level(16, (3.2, 6.4), 20.0, 3.0, arrivals, seed).sessions
        ]
        phases = np.modf(np.array(begins_s) / chunk_s)[0]
        shares = np.histogram(phases, 10, (0, 1))[0] / len(phases)
        assert shares.max() < 0.15
        assert shares.min() > 0.05


@given(
    st.integers(1, 60),
    st.lists(st.floats(0.3, 30), min_size=1, max_size=8),
    st.floats(1, 60),
    st.sampled_from(MODES),
    st.integers(0, 2**40),
)
@settings(max_examples=100)
def test_any_schedule(streams, lengths_s, steady_s, arrivals, seed):
    schedule = schedule_level(streams, lengths_s, steady_s, 3.0, arrivals, seed)
    assert schedule.sessions
    assert schedule == schedule_level(streams, lengths_s, steady_s, 3.0, arrivals, seed)
    assert schedule.ramp_s >= SHORTEST_RAMP_S
    assert schedule.steady_end_s == schedule.ramp_s + steady_s
    begins_s = [session.begin_s for session in schedule.sessions]
    assert begins_s == sorted(begins_s)
    assert all(begin_s >= 0 for begin_s in begins_s)
    assert begins_s[-1] < schedule.steady_end_s + max(lengths_s) + 3.0
    for session in schedule.sessions:
        steady = schedule.ramp_s <= session.begin_s < schedule.steady_end_s
        assert (session.part == "steady") == steady
        assert (session.part == "ramp") == (session.begin_s < schedule.ramp_s)
        assert 0 <= session.utterance < len(lengths_s)
    # Each utterance comes as often as any other, but for a last round of them.
    counts = np.bincount([session.utterance for session in schedule.sessions], minlength=len(lengths_s))
    if arrivals != "streams":
        assert counts.max() - counts.min() <= 1


def test_another_seed_is_another_schedule():
    assert schedule_level(5, LENGTHS_S, 20, 3, "streams", 1) != schedule_level(5, LENGTHS_S, 20, 3, "streams", 2)
