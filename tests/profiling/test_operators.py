"""Operators and kernels of a trace: calls, own and total times are those of torch.profiler's own table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stopwav

TRACES = Path(__file__).parent.parent / "data" / "traces"


@pytest.mark.parametrize("stacks", [False, True])
def test_a_real_trace_has_exactly_the_profilers_own_numbers(tmp_path: Path, stacks: bool) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    inputs = torch.randn(16, 64)
    with torch.profiler.profile(profile_memory=True, with_stack=stacks, record_shapes=stacks) as profiler:
        for _ in range(3):
            with torch.profiler.record_function("forward"):
                loss = model(inputs).square().sum()
            loss.backward()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    analysis = stopwav.analyse(tmp_path, report=False)
    ours = {row.name: (row.calls, us(row.self_s), us(row.total_s)) for row in analysis.operators}
    theirs = {
        row.key: (row.count, round(row.self_cpu_time_total, 3), round(row.cpu_time_total, 3))
        for row in profiler.key_averages()
        if row.key != "[memory]"  # releases outside any operator
    }
    assert {"aten::addmm", "aten::sum", "forward"} <= set(ours)
    if stacks:  # Python functions are rows of their table too, and take from the own time of the labels
        assert {row.name for row in analysis.functions} == set(theirs) - set(ours)
        theirs = {name: theirs[name] for name in ours if name != "forward"}
        del ours["forward"]
    assert ours == theirs
    (timeline,) = analysis.memory
    # At the peak at least the first layer's output, 16 × 64 floats, is there.
    assert timeline.device == "cpu"
    assert timeline.peak_bytes >= 16 * 64 * 4


def test_a_cuda_trace_has_exactly_the_profilers_own_numbers() -> None:
    """Recorded on an H200 with torch 2.11: two training steps, and what `key_averages()` said of them."""
    analysis = stopwav.analyse(TRACES / "cuda.json.gz", report=False)
    theirs = json.loads((TRACES / "cuda-key-averages.json").read_text())
    on_host = {row.name: row for row in analysis.operators}
    on_device = {row.name: row for row in analysis.launches}
    kernels = {row.name: row for row in analysis.kernels}
    compared = 0
    for row in theirs:
        name = row["name"].replace("ProfilerStep*", "ProfilerStep")
        if row["device"] == "CUDA":
            # Labels are drawn over the kernels, and are no work.
            if name not in on_host:
                assert (kernels[name].calls, us(kernels[name].total_s)) == (row["count"], row["self_device_us"])
            continue
        host, device = on_host[name], on_device.get(name)
        assert (host.calls, us(host.self_s), us(host.total_s)) == (row["count"], row["self_cpu_us"], row["cpu_us"])
        times = (us(device.self_s), us(device.total_s)) if device else (0, 0)
        assert times == (row["self_device_us"], row["device_us"])
        assert host.host_bytes == row["self_cpu_bytes"]
        if name != "ProfilerStep":  # theirs has what other threads allocated meanwhile, the backward pass
            assert host.device_bytes == row["self_device_bytes"]
        compared += 1
    assert compared == len(on_host) == 54
    assert analysis.steps == 2
    assert 0.9 < (analysis.idle_share or 0) < 1


def us(seconds: float) -> float:
    return round(1e6 * seconds, 3)
