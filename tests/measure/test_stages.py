import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import count

import pytest

import stopwav
from fake_clock import FakeClock
from stopwav.measure.clock import WallClock
from stopwav.measure.stages import collect_and_forward_marks, collect_marks


@pytest.mark.alone
def test_a_stage_nobody_measures_costs_under_a_microsecond() -> None:
    def once(context: Callable[[str], AbstractContextManager[object]], count: int = 1000) -> float:
        start = time.perf_counter()
        for _ in range(count):
            with context("x"):
                pass
        return (time.perf_counter() - start) / count

    # The best of many short ones, in turn with a context that does nothing: where that one takes longer than it does
    # on a quiet machine, everything does.
    taken = [(once(stopwav.stage), once(nullcontext)) for _ in range(200)]
    stage_s, nothing_s = (min(times) for times in zip(*taken, strict=True))
    assert stage_s < 1e-6 * max(1.0, nothing_s / 0.3e-6)


def test_stages_nest_repeat_and_add_up() -> None:
    clock = FakeClock()

    def call() -> None:
        with stopwav.stage("features"):
            clock.advance(1)
        for _ in range(2):
            with stopwav.stage("inference"):
                clock.advance(2)
                with stopwav.stage("search"):
                    clock.advance(3)
        clock.advance(4)

    timing = clock.time(call)
    assert timing.wall_s == pytest.approx(15)
    assert timing.stages == pytest.approx({"features": 1, "inference": 10, "inference/search": 6})
    assert [(span.path, span.start_s) for span in timing.spans] == [
        ("features", 0),
        ("inference", 1),
        ("inference/search", 3),
        ("inference", 6),
        ("inference/search", 8),
    ]


def test_a_stage_that_raises_is_recorded_and_does_not_swallow_the_error() -> None:
    clock = FakeClock()

    def call() -> None:
        try:
            with stopwav.stage("breaks"):
                clock.advance(1)
                raise ValueError("no")
        except ValueError:
            pass
        with stopwav.stage("after"):
            clock.advance(1)

    assert clock.time(call).stages == {"breaks": 1, "after": 1}
    with pytest.raises(ValueError, match="no"), stopwav.stage("breaks"):
        raise ValueError("no")


def test_stages_of_another_thread_are_not_mixed_in() -> None:
    def elsewhere() -> None:
        with stopwav.stage("elsewhere"):
            pass

    def call() -> None:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        with stopwav.stage("here"):
            pass

    assert set(WallClock().time(call).stages) == {"here"}


def test_concurrent_tasks_keep_their_nesting_apart() -> None:
    async def task(name: str) -> None:
        with stopwav.stage(name):
            await asyncio.sleep(0)
            with stopwav.stage("inner"):
                await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(task("a"), task("b"))

    assert set(WallClock().time(lambda: asyncio.run(both())).stages) == {"a", "a/inner", "b", "b/inner"}


def test_timing_inside_timing_keeps_to_itself() -> None:
    clock = WallClock()
    inner: list[set[str]] = []

    def call() -> None:
        with stopwav.stage("outer"):
            inner.append(set(clock.time(lambda: stopwav.stage("deep").__enter__()).stages))

    assert set(clock.time(call).stages) == {"outer"}


def test_forwarded_marks_have_the_time_of_each_collectors_own_clock() -> None:
    """Also where the outer clock returns positions, as that of a device does, and where two collectors forward."""
    places = count()
    clock = FakeClock()

    def call() -> None:
        with stopwav.stage("features"):
            clock.advance(1)

    with collect_marks(lambda: next(places)) as outer, stopwav.stage("all"):
        with collect_and_forward_marks(clock.now_ns) as middle, collect_and_forward_marks(clock.now_ns) as inner:
            call()
        # What comes later is the outer clock's alone.
        call()
    assert middle == inner == [("features", 0, 1_000_000_000)]
    assert outer == [("all/features", 1, 2), ("all/features", 3, 4), ("all", 0, 5)]


def test_a_stage_may_be_kept_and_entered_again_also_inside_itself() -> None:
    clock = FakeClock()
    layer = stopwav.stage("layer")

    def call() -> None:
        for depth in (1, 2):
            with layer:
                clock.advance(1)
                if depth == 2:
                    with layer:
                        clock.advance(1)
        with stopwav.stage("after"):
            clock.advance(1)

    assert clock.time(call).stages == {"layer": 3, "layer/layer": 1, "after": 1}


def test_a_stage_that_is_kept_belongs_to_the_thread_that_is_timed() -> None:
    clock = WallClock()
    layer, inside, over = stopwav.stage("layer"), threading.Event(), threading.Event()

    def elsewhere() -> None:
        with layer:
            inside.set()
            over.wait()

    def call() -> None:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        inside.wait()
        with layer:
            pass
        over.set()
        thread.join()

    assert [span.path for span in clock.time(call).spans] == ["layer"]


def test_a_stage_may_have_a_number_for_a_name() -> None:
    def call() -> None:
        with stopwav.stage(3), stopwav.stage(4):  # type: ignore[arg-type]
            pass

    assert set(WallClock().time(call).stages) == {"3", "3/4"}


def test_a_clock_that_fails_does_not_hide_the_users_error() -> None:
    times = iter([1])

    with pytest.raises(KeyError, match="mine"), collect_marks(lambda: next(times)), stopwav.stage("broken"):
        raise KeyError("mine")
    with pytest.raises(StopIteration), collect_marks(lambda: next(iter([]))), stopwav.stage("broken"):
        pass


def test_torch_compile_makes_one_graph_of_what_holds_a_stage() -> None:
    torch = pytest.importorskip("torch")
    graphs = []

    def keep(graph: object, inputs: object) -> object:
        graphs.append(graph)
        return graph.forward  # type: ignore[attr-defined]

    def marked(x: object) -> object:
        with stopwav.stage("product"):
            x = x @ x  # type: ignore[operator]
        return x + 1

    compiled = torch.compile(marked, backend=keep, fullgraph=True)
    x = torch.ones(2, 2)
    compiled(x)
    assert len(graphs) == 1
    # Also while somebody measures: what is timed is the graph.
    timing = WallClock().time(lambda: compiled(x))
    assert timing.stages == {}
    assert timing.result.tolist() == [[3, 3], [3, 3]]
