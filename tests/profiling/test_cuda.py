"""Device time, allocator peaks and idle shares, where there is a CUDA device."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import stopwav


def has_cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not has_cuda(), reason="no CUDA device here")]
MIB = 2**20


@pytest.fixture
def weights() -> Any:
    import torch

    return torch.randn(4096, 4096, device="cuda")


def test_a_profiled_function_waits_for_the_device(weights: Any) -> None:
    @stopwav.profile(report=False)
    def products() -> None:
        with stopwav.stage("product"):
            for _ in range(20):
                weights @ weights

    for _ in range(4):
        products()
    found: stopwav.Profile = products.profile  # type: ignore[attr-defined]
    assert found.device_s is not None
    # 20 products of 4096³ take over a millisecond on any device; their launch alone takes a tenth of that.
    assert found.device_s / found.calls > 1e-3
    assert found.device_s <= found.total_s * 1.05
    assert found.stages["product"].total_s == pytest.approx(found.total_s, rel=0.2)


def test_allocator_peaks_are_exact_also_when_calls_nest(weights: Any) -> None:
    import torch

    @stopwav.profile(report=False)
    def inner() -> None:
        torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")

    @stopwav.profile(report=False)
    def outer() -> None:
        torch.empty(96 * MIB, dtype=torch.uint8, device="cuda")
        inner()

    outer()
    for function, size in ((inner, 64), (outer, 96)):
        allocated = function.profile.allocated  # type: ignore[attr-defined]
        assert (allocated.over_baseline_bytes, allocated.exact) == (size * MIB, True)


def test_steps_have_device_time_and_their_traces_show_an_idle_device(weights: Any, tmp_path: Path) -> None:
    with stopwav.profile_steps(wait=0, warmup=1, active=3, repeat=1, trace=tmp_path, report=False) as steps:
        for _ in steps.over(range(8)):
            weights @ weights
            weights.sum().item()
            time.sleep(0.01)
    assert all(one.sample.device_s is not None for one in steps.active)
    found = stopwav.analyse(tmp_path, report=False)
    assert found.kernels
    # Two products of at most a few milliseconds, 10 ms of sleep between them.
    assert found.idle_share is not None
    assert 0.5 < found.idle_share < 1
    assert any(one.device.startswith("cuda") for one in found.memory)
