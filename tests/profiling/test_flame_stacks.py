"""Stacks for FlameGraph, against traces worked out by hand and any nesting of spans."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopwav.profiling.flame_stacks import flame_stacks, write_stacks


def span(name: str, start: float, length: float, cat: str = "cpu_op", tid: int = 1, **arguments: Any) -> dict[str, Any]:
    return {
        "ph": "X", "name": name, "cat": cat, "ts": start, "dur": length, "pid": 1, "tid": tid, "args": arguments,
    }  # fmt: skip


TRACE = {
    "traceEvents": [
        span("run.py(3): main", 0, 100, "python_function"),
        span("aten::linear", 10, 50),
        span("cudaLaunchKernel", 20, 5, "cuda_runtime", correlation=7),
        span("aten::relu", 70, 10),
        span("other thread", 0, 30, tid=2),
        span("gemm", 40, 200, "kernel", tid=7, correlation=7),
        span("lost", 300, 9, "kernel", tid=7, correlation=8),
        span("ProfilerStep#1", 0, 100, "gpu_user_annotation"),
        {"ph": "i", "name": "[memory]", "ts": 5},
    ]
}


def test_own_times_of_the_host_and_kernels_below_their_launch() -> None:
    stacks = flame_stacks(TRACE)
    main = "run.py(3): main"
    assert stacks.cpu_us == {
        (main,): 100 - 50 - 10,
        (main, "aten::linear"): 50 - 5,
        (main, "aten::linear", "cudaLaunchKernel"): 5,
        (main, "aten::relu"): 10,
        ("other thread",): 30,
    }
    assert stacks.cuda_us == {(main, "aten::linear", "cudaLaunchKernel", "gemm"): 200, ("lost",): 9}


def test_they_are_written_in_the_format_of_export_stacks(tmp_path: Path) -> None:
    cpu, cuda = write_stacks(tmp_path / "w.1.pt.trace.json.gz", TRACE)
    assert (cpu.name, cuda.name) == ("w.1.self_cpu_time_total.stacks.txt", "w.1.self_cuda_time_total.stacks.txt")
    assert "run.py(3):_main;aten::linear 45" in cpu.read_text().splitlines()
    assert cuda.read_text() == "run.py(3):_main;aten::linear;cudaLaunchKernel;gemm 200\nlost 9\n"


@given(
    st.recursive(st.just([]), lambda inner: st.lists(st.tuples(st.integers(0, 9), inner), max_size=4), max_leaves=20)
)
def test_own_times_add_up_to_the_time_of_the_outermost_spans(tree: list[Any]) -> None:
    events: list[dict[str, Any]] = []

    def place(children: list[Any], start: float, depth: int) -> float:
        for own, inner in children:
            end = place(inner, start, depth + 1) + own + 1
            events.append(span(f"depth {depth}", start, end - start))
            start = end
        return start

    total = place(tree, 0, 0)
    stacks = flame_stacks({"traceEvents": events})
    assert sum(stacks.cpu_us.values()) == pytest.approx(total)
    assert all(stack == tuple(f"depth {depth}" for depth in range(len(stack))) for stack in stacks.cpu_us)
