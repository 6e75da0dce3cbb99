"""Traces of `profile_steps` and `profile`: their details, their names, their stages, and stacks for FlameGraph."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

import stopwav
from fake_clock import FakeClock
from stopwav.errors import StopwavError
from stopwav.profiling.schedule import Tracer

torch = pytest.importorskip("torch")


class Net(torch.nn.Module):  # type: ignore[name-defined, misc]
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())

    def forward(self, x: Any) -> Any:
        return self.layers(x)


def events(path: Path) -> list[dict[str, Any]]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    found: list[dict[str, Any]] = json.loads(content)["traceEvents"]
    return found


def operators(path: Path, name: str) -> list[dict[str, Any]]:
    return [event for event in events(path) if event["name"] == name and event.get("cat") == "cpu_op"]


def shown(profile: stopwav.Profile) -> str:
    """Its table, however wide the terminal is."""
    return " ".join(str(profile).split())


def loop(folder: Path, active: int = 1, **options: Any) -> stopwav.Steps:
    """A loop with one measured and one traced cycle, of a linear layer from 8 to 4 over 2 rows."""
    net, x = Net(), torch.ones(2, 8)
    schedule = stopwav.Schedule(wait=0, warmup=1, active=active, repeat=1)
    with stopwav.profile_steps(schedule, trace=folder, report=False, **options) as steps:
        for _ in steps.over(range(schedule.steps_of(2))):
            with stopwav.stage("forward"), stopwav.stage("encoder"):
                net(x)
            with stopwav.stage("loss"):
                x.sum()
    return steps


def test_a_trace_is_plain_unless_asked(tmp_path: Path) -> None:
    (trace,) = loop(tmp_path).traces
    (product,) = operators(trace, "aten::addmm")
    assert not {"Input Dims", "flops"} & product["args"].keys()
    assert not any(event.get("cat") == "python_function" or "nn.Module" in event["name"] for event in events(trace))
    assert list(tmp_path.iterdir()) == [trace]


def test_shapes_flops_and_modules_are_in_the_trace_on_request(tmp_path: Path) -> None:
    steps = loop(tmp_path, record_shapes=True, with_flops=True, with_modules=True)
    (trace,) = steps.traces
    (product,) = operators(trace, "aten::addmm")
    assert product["args"]["Input Dims"][:3] == [[4], [2, 8], [8, 4]]
    assert product["args"]["flops"] == 2 * 2 * 8 * 4  # a multiplication and an addition for each of 2 · 8 · 4
    spans = {event["name"]: event for event in events(trace) if event["name"].startswith("nn.Module")}
    assert list(spans) == [
        "nn.Module: Net",
        "nn.Module: Net.layers (Sequential)",
        "nn.Module: Net.layers.0 (Linear)",
        "nn.Module: Net.layers.1 (ReLU)",
    ]
    linear = spans["nn.Module: Net.layers.0 (Linear)"]
    assert linear["ts"] <= product["ts"] <= product["ts"] + product["dur"] <= linear["ts"] + linear["dur"] + 0.01
    # Nothing stays behind on the modules of the program.
    assert not torch.nn.modules.module._global_forward_hooks


def test_stacks_are_in_the_trace_and_beside_it_for_flamegraph(tmp_path: Path) -> None:
    steps = loop(tmp_path, with_stack=True)
    (trace,), (stacks,) = steps.traces, steps.stacks
    assert any(event.get("cat") == "python_function" for event in events(trace))
    assert stacks.name == trace.name.replace(".pt.trace.json", ".self_cpu_time_total.stacks.txt")
    lines = stacks.read_text().splitlines()
    assert all(re.fullmatch(r"[^ ]+ [1-9]\d*", line) for line in lines)
    (product,) = [line for line in lines if line.rpartition(" ")[0].endswith("aten::addmm")]
    frames = product.rpartition(" ")[0].split(";")
    assert any("test_traces_of_code.py" in frame and frame.endswith("_loop") for frame in frames)
    assert frames.index("nn.Module:_Net_0") < frames.index("aten::linear") < frames.index("aten::addmm")


def test_stages_of_active_steps_appear_in_the_trace(tmp_path: Path) -> None:
    (trace,) = loop(tmp_path, active=2).traces
    stages = [event for event in events(trace) if event.get("cat") == "stage"]
    assert {event["tid"] for event in stages} == {"stages"}
    assert [event["args"]["path"] for event in stages] == ["data", "forward", "forward/encoder", "loss"] * 2
    found = stopwav.analyse(trace, report=False)
    assert {stage.name: stage.calls for stage in found.stages} == {"data": 2, "forward": 2, "encoder": 2, "loss": 2}
    forward, encoder = stages[1], stages[2]
    assert forward["ts"] <= encoder["ts"]
    assert encoder["ts"] + encoder["dur"] <= forward["ts"] + forward["dur"]
    # Two clocks of the time of day: they agree to a fraction of a millisecond, unless the machine is busy.
    product = operators(trace, "aten::addmm")[0]
    assert forward["ts"] - 50_000 <= product["ts"] <= forward["ts"] + forward["dur"] + 50_000


def test_a_step_that_ends_inside_a_stage_is_an_error_while_tracing_too(tmp_path: Path) -> None:
    with stopwav.profile_steps(wait=0, warmup=1, active=1, repeat=1, trace=tmp_path, report=False) as steps:
        for _ in range(3):
            steps.step()
        assert (steps.phase, steps.tracing) == ("active", True)
        with stopwav.stage("open"), pytest.raises(StopwavError, match="inside stage 'open'"):
            steps.step()


def test_files_are_named_by_the_worker_and_compressed_on_request(tmp_path: Path) -> None:
    (trace,) = loop(tmp_path, worker_name="rank3", use_gzip=True).traces
    assert re.fullmatch(r"rank3\.\d+\.pt\.trace\.json\.gz", trace.name)
    assert operators(trace, "aten::addmm")
    assert stopwav.analyse(tmp_path, report=False).stages  # added to a compressed file too


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trace": None, "with_stack": True}, "with_stack= says how to trace; give trace= too"),
        ({"worker_name": "a/b"}, "worker name 'a/b' is not a file name"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    options = {"trace": tmp_path, **options}
    with pytest.raises(StopwavError, match=message):
        stopwav.profile_steps(wait=0, warmup=1, active=1, repeat=1, **options)
    with pytest.raises(StopwavError, match=message):
        stopwav.profile("x", **options)


def test_a_profiled_function_is_traced_in_its_second_call_which_is_in_no_number(tmp_path: Path) -> None:
    clock = FakeClock()

    @stopwav.profile(report=False, clock=clock, trace=tmp_path, record_shapes=True, worker_name="w")
    def decode(seconds: float) -> float:
        with stopwav.stage("product"):
            torch.ones(2, 3) @ torch.ones(3, 4)
        clock.advance(seconds)
        return seconds

    assert [decode(second) for second in (100, 1000, 1, 2)] == [100, 1000, 1, 2]
    found: stopwav.Profile = decode.profile  # type: ignore[attr-defined]
    assert (found.walls_s, found.traced_calls, found.stages["product"].calls) == ((1, 2), 2, 2)
    (trace,) = found.traces
    assert trace.name.startswith("w.")
    (product,) = operators(trace, "aten::matmul")
    assert product["args"]["Input Dims"] == [[2, 3], [3, 4]]
    assert [event["name"] for event in events(trace) if event.get("cat") == "stage"] == ["product"]
    assert "2 under torch.profiler, not included" in shown(found)
    assert f"trace: {trace}" in shown(found)


def test_a_schedule_says_which_calls_are_traced(tmp_path: Path) -> None:
    schedule = stopwav.Schedule(wait=2, warmup=1, active=2, repeat=1)
    seen = []

    @stopwav.profile(report=False, trace=tmp_path, schedule=schedule)
    def call() -> None:
        seen.append(Tracer.current is not None)

    for _ in range(4):
        call()
    found: stopwav.Profile = call.profile  # type: ignore[attr-defined]
    assert "1 of 2 traces; by its schedule the last is of complete call 5" in shown(found)
    call()
    call()
    assert seen == [False, False, True, True, True, False]
    assert (found.calls, found.traced_calls, len(found.traces)) == (3, 3, 2)


def test_a_call_that_raises_leaves_no_trace_and_the_next_one_does(tmp_path: Path) -> None:
    @stopwav.profile(report=False, trace=tmp_path)
    def call(good: bool) -> None:
        if not good:
            raise ValueError("mine")

    call(True)
    with pytest.raises(ValueError, match="mine"):
        call(False)
    assert list(tmp_path.iterdir()) == []
    call(True)
    assert len(call.profile.traces) == 1  # type: ignore[attr-defined]


def test_one_profiler_at_a_time_and_what_runs_under_it_is_in_no_number(tmp_path: Path) -> None:
    clock = FakeClock()

    @stopwav.profile(report=False, clock=clock, trace=tmp_path / "logs")
    class Pipeline:
        def outer(self) -> None:
            self.inner()

        def inner(self) -> None:
            clock.advance(1)

    pipeline = Pipeline()
    for _ in range(3):
        pipeline.outer()
    outer: stopwav.Profile = Pipeline.outer.profile  # type: ignore[attr-defined]
    inner: stopwav.Profile = Pipeline.inner.profile  # type: ignore[attr-defined]
    assert (outer.calls, outer.traced_calls, len(outer.traces)) == (1, 2, 1)
    # Within the two traced calls it was slowed down too; in the third its own turn began.
    assert (inner.calls, inner.traced_calls, len(inner.traces)) == (0, 3, 0)
    with torch.profiler.profile():  # the user's own: a turn waits until it has ended
        pipeline.inner()
    assert (inner.calls, inner.traced_calls, len(inner.traces)) == (1, 3, 0)
    with stopwav.profile_steps(wait=0, warmup=1, active=1, repeat=1, trace=tmp_path, report=False) as steps:
        steps.step()
        with torch.profiler.profile(), pytest.raises(StopwavError, match=r"torch\.profiler runs already"):
            steps.step()
