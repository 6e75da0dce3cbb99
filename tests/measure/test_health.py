"""Cautions against fake /proc and /sys trees, each with its value and the next step; steadiness against known times."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib.util import cache_from_source
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from fake_machine import FakeNvml, cgroup_v2, tree

from fake_clock import FakeClock
from stopwav.measure.health import Steadiness, health, steadiness
from stopwav.measure.nvml import NoNvml

NO_NVML = NoNvml("not asked for")
CORES = os.cpu_count() or 1


def cautions(root: Path, nvml: object = NO_NVML, other_cores: float | None = 0.0, **environ: str) -> dict[str, str]:
    """The messages of all cautions by their codes."""
    return {caution.code: caution.message for caution in health(root, nvml, environ, lambda: other_cores)}


def test_a_quiet_machine_has_no_cautions(tmp_path: Path) -> None:
    files = {
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance",
        "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": 0,
        "sys/class/power_supply/BAT0/type": "Battery",
        "sys/class/power_supply/BAT0/status": "Full",
        **cgroup_v2("/", cpu_max="max 100000", cpu_stat="nr_throttled 0"),
    }
    assert cautions(tree(tmp_path, files), FakeNvml(0, pids=(os.getpid(),)), OMP_NUM_THREADS="1") == {}


def test_others_are_a_caution_above_a_quarter_of_the_cores_and_not_at_it(tmp_path: Path) -> None:
    quarter = CORES / 4
    assert cautions(tmp_path, other_cores=quarter) == cautions(tmp_path, other_cores=None) == {}
    message = cautions(tmp_path, other_cores=quarter + 0.1)["busy-machine"]
    assert message == (
        f"other processes used {quarter + 0.1:.1f} of {CORES} cores just now: stop other processes (see top), or wait"
    )


@pytest.mark.parametrize(
    ("files", "code", "cause", "step"),
    [
        (
            {"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave"},
            "cpu-governor",
            "powersave",
            "cpupower frequency-set -g performance",
        ),
        (
            {"sys/class/power_supply/BAT0/type": "Battery", "sys/class/power_supply/BAT0/status": "Discharging"},
            "on-battery",
            "BAT0 is discharging",
            "plug in",
        ),
        (
            {"sys/devices/system/cpu/cpu3/thermal_throttle/core_throttle_count": 12},
            "cpu-throttled",
            "12 times",
            "cool",
        ),
        (cgroup_v2("/", cpu_stat="nr_throttled 8"), "cpu-quota-exhausted", "8 times", "raise the quota"),
        (cgroup_v2("/", cpu_max="50000 100000"), "quota-below-cores", "may use 0.5 of", "OMP_NUM_THREADS=1"),
    ],
)
def test_each_trouble_is_named_with_its_value_and_the_next_step(
    tmp_path: Path, files: dict[str, object], code: str, cause: str, step: str
) -> None:
    found = cautions(tree(tmp_path, files))
    assert set(found) == {code}
    assert cause in found[code]
    assert step in found[code]


def test_other_processes_on_the_gpu_are_named_and_our_own_are_not(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        ours = (os.getpid(), child.pid)
        assert cautions(tmp_path, FakeNvml(0, pids=ours)) == {}
        message = cautions(tmp_path, FakeNvml(0, pids=(*ours, 2**22 + 1)))["gpu-shared"]
        child.communicate(b"\n")
    assert "1 other process computes on GPU 0" in message
    assert str(2**22 + 1) in message


@pytest.mark.parametrize(("reasons", "slowed"), [(0, False), (0x1, False), (0x20, True), (0x8 | 0x1, True)])
def test_a_gpu_slowed_by_heat_is_a_caution_and_an_idle_one_is_not(tmp_path: Path, reasons: int, slowed: bool) -> None:
    assert ("gpu-throttled" in cautions(tmp_path, FakeNvml(0, reasons=reasons))) is slowed


@pytest.mark.parametrize(("asked", "warned"), [("1", False), ("999999", True), ("999999,2", True), ("auto", False)])
def test_more_threads_than_cores_is_a_caution(tmp_path: Path, asked: str, warned: bool) -> None:
    found = cautions(tmp_path, OMP_NUM_THREADS=asked)
    assert ("more-threads-than-cores" in found) is warned


def test_packages_that_every_process_compiles_anew_are_a_caution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if nothing was ever compiled: bytecode would lie in this folder, which is empty.
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    assert "compileall" in cautions(tmp_path, PYTHONDONTWRITEBYTECODE="1")["no-bytecode"]
    assert cautions(tmp_path) == cautions(tmp_path, PYTHONDONTWRITEBYTECODE="") == {}
    compiled = Path(cache_from_source(np.__file__))
    compiled.parent.mkdir(parents=True)
    compiled.touch()
    assert cautions(tmp_path, PYTHONDONTWRITEBYTECODE="1") == {}


def test_codes_are_kebab_case_and_health_is_quick() -> None:
    found, took_s = [], []
    for _ in range(5):
        start = time.process_time()
        found = health()
        took_s.append(time.process_time() - start)
    assert min(took_s) < 0.1
    assert all(caution.code == caution.code.lower().replace("_", "-").replace(" ", "-") for caution in found)


# --- steadiness ---


def of_work(*takes_s: float) -> Steadiness:
    """The steadiness of a core on which the work takes each of these times in turn."""
    clock, durations = FakeClock(), cycle(takes_s)
    return steadiness(lambda: clock.advance(next(durations)), clock.now_ns)


def test_a_steady_core_is_no_caution() -> None:
    found = of_work(0.00100, 0.00109)
    assert found.p10_s == pytest.approx(0.00100)
    assert found.p90_s == pytest.approx(0.00109)
    assert found.cautions() == []
    # Two seconds of it, and no more.
    assert found.values == pytest.approx(2 / 0.001045, abs=1)


def test_a_core_that_a_stranger_slows_for_half_of_the_time_is_one_with_its_ratio() -> None:
    found = of_work(*[0.001] * 50, *[0.0019] * 50)
    [caution] = found.cautions()
    assert caution.code == "unsteady-core"
    assert "1.90 times" in caution.message
    assert str(found).startswith("1.00 to 1.90 ms")


def test_one_slow_moment_in_twenty_is_not() -> None:
    assert of_work(*[0.001] * 19, 0.050).cautions() == []


def test_slow_work_is_done_as_often_as_its_percentiles_need() -> None:
    assert of_work(5.0) == Steadiness(36, 5.0, 5.0, 5.0)
