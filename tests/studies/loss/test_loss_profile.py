"""Traces of losses are bounded: no loss writes gigabytes, and steps that would are left out and said."""

from collections.abc import Callable
from pathlib import Path

import pytest
from loss_runs import own

from stopwav import StopwavError
from stopwav.piece import Piece
from stopwav.profiling.schedule import Schedule
from stopwav.speech.batches import Batch
from stopwav.studies.loss import traces
from stopwav.studies.loss.loss_step import LossSetup
from stopwav.studies.loss.spec import LOSS_PLAN
from stopwav.studies.loss.traces import ProfiledSteps, count_operators, recorded_text

torch = pytest.importorskip("torch")

SCHEDULE = Schedule(wait=0, warmup=1, active=20, repeat=1)
BATCH = Batch((6, 4), (2, 1))


def repeated(times: int) -> Callable[[], None]:
    def step() -> None:
        leaf = torch.ones(2, requires_grad=True)
        total = leaf
        for _ in range(times):
            total = total * 2
        total.sum().backward()

    return step


def test_operators_are_counted_backward_too() -> None:
    few, more = count_operators(repeated(5), 1000), count_operators(repeated(15), 1000)
    # Ten more multiplications, each with its gradient.
    assert more - few == 20


def test_counting_stops_where_there_are_too_many() -> None:
    assert count_operators(repeated(10**9), 50) == 51


def test_an_error_of_the_step_is_not_taken_for_too_many() -> None:
    with pytest.raises(ZeroDivisionError):
        count_operators(lambda: 1 / 0, 50)


@pytest.fixture
def profiled(tmp_path: Path) -> ProfiledSteps:
    return ProfiledSteps(LossSetup(own(tmp_path, "right"), 8, 4, 0, "float32", "cpu"), LOSS_PLAN)


def test_a_trace_has_as_many_steps_as_fit(
    profiled: ProfiledSteps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = profiled.run((BATCH,), (0,), tmp_path / "whole", SCHEDULE)
    assert whole["active"] == 20
    assert whole["operators"]
    assert whole["memory"]["device"] == "cpu"
    monkeypatch.setattr(traces, "MOST_OPERATORS", 3 * count_operators(profiled._runner.step(BATCH, 0), 10**6))
    bounded = profiled.run((BATCH,), (0,), tmp_path / "bounded", SCHEDULE)
    assert (bounded["active"], bounded["asked"]) == (3, 20)
    text = recorded_text(Piece(key=["trace"], status="ok", data=bounded))
    assert text.startswith("1 trace of 3 steps, not 20: a trace has at most")
    files = [tmp_path / name / data["files"][0] for name, data in (("whole", whole), ("bounded", bounded))]
    assert files[1].stat().st_size < files[0].stat().st_size / 4


def test_a_step_that_is_too_large_by_itself_is_refused(
    profiled: ProfiledSteps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "MOST_OPERATORS", 10)
    with pytest.raises(StopwavError, match=r"more than 10 operators, .* smaller batches"):
        profiled.run((BATCH,), (0,), tmp_path / "traces", SCHEDULE)
    assert not list(tmp_path.glob("traces/*"))
