"""One worker in virtual time, whose calls take what a test says: queueing theory, order, batches, errors, the cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queues import KINDS, assert_as_theory, jobs, waits

from fake_clock import FakeClock
from stopwav import Hypothesis
from stopwav.measure.clock import Timing
from stopwav.studies.load.virtual_line import Batching, LineStream, run_line

LOADS = (0.5, 0.7, 0.9)


class Worker:
    """The engine and the clock at once: each call takes what is next in the script, and nobody waits."""

    def __init__(self, services, then=1.0):
        self._services, self._then, self.calls = iter(services), then, []

    def time(self, call):
        result = call()
        return Timing(next(self._services, self._then), None, (), result)

    def open(self, name="", fails_at=None):
        return Session(self, name, fails_at)

    def advance(self, calls):
        self.calls.append([(session.name, samples is None) for session, samples in calls])
        return [session.answer() for session, _ in calls]


class Session:
    def __init__(self, worker, name, fails_at):
        self._worker, self.name, self._left = worker, name, fails_at

    def answer(self):
        if self._left == 0:
            return ValueError("the script says so")
        self._left = None if self._left is None else self._left - 1
        return [Hypothesis("a")]

    def push(self, samples):
        self._worker.calls.append(self.name)
        answer = self.answer()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def finish(self):
        return self.push(None)


def stream(worker, name, begin_s, dues_s, fails_at=None):
    """A stream with a call at each of these times after its begin; the last one ends it."""
    chunks = [np.zeros(1, np.float32)] * (len(dues_s) - 1) + [None]
    return LineStream(begin_s, dues_s, chunks, lambda: worker.open(name, fails_at))


def single_calls(arrivals, services):
    """Run jobs of one call each, and return the wait of each."""
    worker = Worker(services)
    streams = [LineStream(begin_s, (0.0,), (None,), worker.open) for begin_s in arrivals.tolist()]
    run_line(streams, worker, float("inf"))
    traces = [stream.trace.trace(0.0, 0.1, 0.0) for stream in streams]
    return np.array([trace.start_s[0] - trace.due_s[0] for trace in traces])


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_waits_are_those_of_a_queue_with_one_server(kind, load):
    """Job by job they are Lindley's, and Lindley's are, over ten million jobs, those of theory."""
    arrivals, services = jobs(kind, load, 4000, seed=1)
    np.testing.assert_allclose(single_calls(arrivals, services), waits(arrivals, services), atol=1e-7)
    assert_as_theory(kind, load, waits(*jobs(kind, load, 5_000_000, seed=2)), tolerance=0.03)


@pytest.mark.parametrize("kind", KINDS)
def test_the_line_itself_agrees_with_theory(kind):
    assert_as_theory(kind, 0.5, single_calls(*jobs(kind, 0.5, 60_000, seed=0)))


@pytest.mark.soak
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_line_itself_agrees_with_theory_at_any_load(kind, load):
    measured = [single_calls(*jobs(kind, load, 100_000, seed=seed)) for seed in range({0.5: 3, 0.7: 8, 0.9: 40}[load])]
    assert_as_theory(kind, load, np.concatenate(measured))


@pytest.mark.parametrize("load", [*LOADS, 1.2])
def test_a_closed_loop_client_sees_no_wait_at_any_load(load):
    """It sends the next job after the answer to the last: a server that is late is offered less."""
    arrivals, services = jobs("M/D/1", load, 3000, seed=3)
    free_s, seen = 0.0, []
    for arrival_s, service_s in zip(arrivals.tolist(), services.tolist(), strict=True):
        sent_s = max(arrival_s, free_s)
        worker = Worker([service_s])
        one = LineStream(sent_s, (0.0,), (None,), worker.open)
        free_s = run_line([one], worker, float("inf"))
        seen.append(free_s - service_s - sent_s)
    assert max(seen) < 1e-6
    open_s = single_calls(arrivals, services)
    assert open_s.mean() > 0.3
    if load > 1:
        # Behind by a sixth of all the work at the end, and nothing of it is seen.
        assert open_s[-1] > 300


def test_calls_are_made_in_the_order_in_which_they_fall_due():
    worker = Worker([0.35])
    first = stream(worker, "first", 0.0, (0.1, 0.2, 0.3))
    second = stream(worker, "second", 0.05, (0.1, 0.2))
    run_line([first, second], worker, 100)
    assert worker.calls == ["first", "second", "first", "second", "first"]
    assert first.over
    assert second.over
    trace = first.trace.trace(0.3, 0.1, 0.0)
    assert trace.due_s.tolist() == [0.1, 0.2, 0.3]
    # The first starts when it is due, for 0.35 s; each after it takes a second.
    np.testing.assert_allclose(trace.start_s, [0.1, 1.45, 3.45])
    np.testing.assert_allclose(trace.done_s, [0.45, 2.45, 4.45])


times = st.lists(st.floats(0.01, 3), min_size=1, max_size=6).map(sorted)


@given(st.lists(st.tuples(st.floats(0, 5), times), min_size=1, max_size=6), st.lists(st.floats(0, 2), max_size=30))
@settings(max_examples=150)
def test_one_worker_is_never_idle_while_a_call_is_due_and_never_does_two_things(streams, services):
    worker = Worker(services, then=0.1)
    line = [stream(worker, number, begin_s, dues_s) for number, (begin_s, dues_s) in enumerate(streams)]
    ended_s = run_line(line, worker, float("inf"))
    calls = {}
    for number, one in enumerate(line):
        trace = one.trace.trace(1.0, 0.1, 0.0)
        assert one.over
        calls[number] = zip(*(one.begin_s + times for times in (trace.start_s, trace.due_s, trace.done_s)), strict=True)
    free_s = 0.0
    for start_s, due_s, done_s in (next(calls[number]) for number in worker.calls):
        assert start_s >= free_s - 1e-9
        assert start_s >= due_s - 1e-9
        # It starts when it is due, or when the worker is free, or with a call of the same stream that was due before.
        assert min(abs(start_s - due_s), abs(start_s - free_s)) < 1e-9
        free_s = done_s
    assert ended_s == pytest.approx(free_s)


def batched(worker, streams, most, wait_s=0.0):
    run_line(streams, worker, 100, Batching(worker.advance, most, wait_s))


def test_a_batch_takes_what_is_due_when_the_worker_is_free():
    worker = Worker([1.0])
    streams = [stream(worker, name, begin_s, (0.0,)) for name, begin_s in zip("abcd", (0, 0.2, 0.9, 1.5), strict=True)]
    batched(worker, streams, 8)
    assert [[name for name, _ in call] for call in worker.calls] == [["a"], ["b", "c"], ["d"]]
    starts = [float(one.trace.trace(0, 0, 0).start_s[0] + one.begin_s) for one in streams]
    assert starts == pytest.approx([0.0, 1.0, 1.0, 2.0])


def test_a_batch_has_no_more_streams_than_are_allowed_and_the_oldest_first():
    worker = Worker([1.0])
    streams = [
        stream(worker, name, begin_s, (0.0,)) for name, begin_s in zip("abcde", (0, 0.5, 0.4, 0.3, 0.2), strict=True)
    ]
    batched(worker, streams, 3)
    assert [[name for name, _ in call] for call in worker.calls] == [["a"], ["e", "d", "c"], ["b"]]


def test_a_batch_waits_for_more_but_not_once_it_is_full():
    worker = Worker([], then=0.01)
    streams = [stream(worker, name, begin_s, (0.0,)) for name, begin_s in zip("abcd", (0, 0.2, 0.3, 1.0), strict=True)]
    batched(worker, streams, 2, wait_s=0.5)
    assert [[name for name, _ in call] for call in worker.calls] == [["a", "b"], ["c"], ["d"]]
    starts = [float(one.trace.trace(0, 0, 0).start_s[0] + one.begin_s) for one in streams]
    # Full at 0.2; the third waits half a second for a partner, which does not come; so does the fourth.
    assert starts == pytest.approx([0.2, 0.2, 0.8, 1.5])


def test_a_stream_is_in_a_batch_once():
    worker = Worker([], then=1.0)
    batched(worker, [stream(worker, "a", 0.0, (0.1, 0.2, 0.3)), stream(worker, "b", 0.0, (0.1, 0.2))], 8)
    assert all(len({name for name, _ in call}) == len(call) for call in worker.calls)
    assert [name for call in worker.calls for name, last in call if last] == ["b", "a"]


def test_an_error_of_one_stream_leaves_the_others_alone():
    worker = Worker([], then=0.01)
    closed = []
    streams = [stream(worker, name, 0.0, (0.1, 0.2, 0.3), 1 if name == "bad" else None) for name in ("a", "bad", "b")]
    for one in streams:
        one.close = lambda one=one: closed.append(one)
    run_line(streams, worker, 100)
    assert [one.over for one in streams] == [True, False, True]
    assert streams[1].failure == "ValueError: the script says so"
    assert len(streams[1].trace) == 1
    assert len(closed) == 3


def test_an_error_in_a_batch_is_that_of_its_stream():
    worker = Worker([], then=0.01)
    streams = [stream(worker, name, 0.0, (0.1, 0.2, 0.3), 1 if name == "bad" else None) for name in ("a", "bad", "b")]
    batched(worker, streams, 8)
    assert [one.over for one in streams] == [True, False, True]
    assert streams[1].failure == "ValueError: the script says so"


def test_a_stream_that_cannot_be_opened_leaves_the_others_of_its_batch_alone():
    worker = Worker([], then=0.01)
    streams = [stream(worker, name, 0.0, (0.1, 0.2)) for name in ("a", "bad", "b")]

    def fail():
        raise MemoryError("no decoder left")

    streams[1].open = fail
    batched(worker, streams, 8)
    assert [one.over for one in streams] == [True, False, True]
    assert streams[1].failure == "MemoryError: no decoder left"


def test_a_batch_that_fails_as_a_whole_is_a_failure_of_all_that_were_in_it():
    worker = Worker([], then=0.01)
    streams = [stream(worker, name, 0.0, (0.1,)) for name in "ab"] + [stream(worker, "later", 5.0, (0.1,))]

    def advance(calls):
        if len(calls) > 1:
            raise RuntimeError("too many")
        return worker.advance(calls)

    run_line(streams, worker, 100, Batching(advance, 8))
    assert [one.failure for one in streams] == ["RuntimeError: too many"] * 2 + [""]
    assert streams[2].over


@pytest.mark.parametrize("returned", [3, "text", [3], None])
def test_what_no_engine_may_return_is_a_failure(returned):
    worker = Worker([])
    one = LineStream(0.0, (0.1,), (None,), lambda: type("Odd", (), {"finish": lambda self: returned})())
    run_line([one], worker, 100)
    assert not one.over
    assert one.failure.startswith("StopwavError: the engine returned")


def test_the_line_is_cut_when_the_worker_is_busy_for_too_long():
    worker = Worker([], then=1.0)
    closed = []
    streams = [stream(worker, number, 0.0, (0.1, 0.2)) for number in range(10)]
    for one in streams:
        one.close = lambda one=one: closed.append(one)
    ended_s = run_line(streams, worker, 5.0)
    assert 5.0 <= ended_s < 6.2
    assert len(worker.calls) == 5
    assert not any(one.over or one.failure for one in streams)
    # Those that were opened are closed: what they hold of the engine is for the next level.
    assert len(closed) == 5


def test_the_line_ends_with_those_that_count():
    worker = Worker([], then=0.01)
    streams = [stream(worker, begin_s, begin_s, (0.1, 0.2)) for begin_s in (0.0, 1.0, 50.0)]
    ended_s = run_line(streams, worker, 100, is_awaited=lambda one: one.begin_s < 2)
    assert [one.over for one in streams] == [True, True, False]
    assert ended_s < 2


def test_the_clock_of_the_line_is_the_engines():
    """An engine that takes its time by the clock is given it: the line adds nothing of its own."""
    clock = FakeClock()

    class Slow:
        def finish(self):
            clock.advance(0.25)
            return [Hypothesis("a")]

    one = LineStream(1.0, (0.5,), (None,), Slow)
    assert run_line([one], clock, 100) == pytest.approx(1.75)
