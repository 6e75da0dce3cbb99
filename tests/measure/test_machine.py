"""The machine's description, limits, sensors and throttle counts against fake /proc and /sys trees."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_machine import FakeNvml, cgroup_v2, tree

from stopwav.measure.health import list_sensors
from stopwav.measure.machine import clock_step_s, cpu_quota, describe, memory_limit_bytes, throttle_count, usable_cores
from stopwav.measure.nvml import Gpu, NoNvml

NO_NVML = NoNvml("not asked for")
SRC = str(Path(__file__).resolve().parents[2] / "src")


def test_this_machine_is_described_without_naming_it() -> None:
    machine = describe()
    text = json.dumps(machine.as_dict())
    assert machine.cpu
    assert 0 < machine.usable_cores <= machine.logical_cores
    assert machine.memory_bytes > 2**28
    assert machine.python.endswith(platform.python_version())
    assert machine.packages["numpy"]
    assert len(platform.node()) < 4 or platform.node() not in text
    assert str(Path.home()) not in text


def test_a_description_is_plain_json_and_comes_back_equal() -> None:
    plain = describe(nvml=FakeNvml(0)).as_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["gpus"] == [{"name": "Example GPU", "memory_bytes": 16 * 2**30, "driver": "580.1"}]


def test_describing_imports_nothing_heavy_and_is_quick() -> None:
    code = (
        "import sys, time; from stopwav.measure.machine import describe; from stopwav.measure.health import health\n"
        "start = time.process_time(); describe(); health(); took = time.process_time() - start\n"
        "assert not {'torch', 'onnxruntime', 'pocketsphinx', 'moonshine_voice'} & set(sys.modules)\n"
        "print(took)"
    )
    path = os.pathsep.join([SRC, *filter(None, sys.path)])
    environ = {**os.environ, "PYTHONPATH": path}

    def processor_s() -> float:
        return float(subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, check=True).stdout)

    # One of three attempts: the machine may be busy.
    assert any(processor_s() < 0.3 for _ in range(3))


def test_the_fingerprint_follows_the_hardware_and_nothing_else() -> None:
    machine = describe(nvml=NO_NVML)
    same = dataclasses.replace(
        machine, system="other", python="other", packages={}, threads={}, memory_bytes=machine.memory_bytes + 4096
    )
    assert same.fingerprint == machine.fingerprint
    for change in (
        {"cpu": "another"},
        {"usable_cores": 0.5},
        {"memory_bytes": 2 * machine.memory_bytes},
        {"memory_limit_bytes": 2**32},
        {"gpus": (Gpu("Example GPU", 2**34, "580.1"),)},
    ):
        assert dataclasses.replace(machine, **change).fingerprint != machine.fingerprint
    driver = [dataclasses.replace(machine, gpus=(Gpu("Example GPU", 2**34, version),)) for version in ("1", "2")]
    assert driver[0].fingerprint == driver[1].fingerprint


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        (
            "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n\nprocessor\t: 1\nmodel name\t: Some CPU @ 3 GHz",
            "Some CPU @ 3 GHz",
        ),
        ("processor\t: 0\nBogoMIPS\t: 108.00\n\nModel\t\t: Raspberry Pi 5", "Raspberry Pi 5"),
    ],
)
def test_the_cpu_names_itself(tmp_path: Path, cpuinfo: str, model: str) -> None:
    assert describe(tree(tmp_path, {"proc/cpuinfo": cpuinfo}), NO_NVML).cpu == model


def test_a_bare_tree_still_gives_a_cpu_and_no_hints(tmp_path: Path) -> None:
    machine = describe(tmp_path, NO_NVML)
    assert machine.cpu
    assert (machine.virtual_machine, machine.container, machine.gpus) == (None, None, ())


def test_virtual_machines_and_containers_give_themselves_away(tmp_path: Path) -> None:
    files = {
        "proc/cpuinfo": "flags\t\t: fpu hypervisor sse2",
        "sys/class/dmi/id/sys_vendor": "QEMU",
        ".dockerenv": "",
    }
    machine = describe(tree(tmp_path, files), NO_NVML)
    assert machine.virtual_machine == "the CPU reports a hypervisor (QEMU)"
    assert machine.container == "docker"


def test_the_clock_steps_finely() -> None:
    assert 0 < clock_step_s() < 1e-4


# --- control groups ---


def test_the_tightest_group_above_this_process_counts(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            **cgroup_v2("/a/b", cpu_max="max 100000", memory_max="max"),
            "sys/fs/cgroup/a/cpu.max": "150000 100000",
            "sys/fs/cgroup/a/memory.max": 2**30,
        },
    )
    assert cpu_quota(root) == 1.5
    assert memory_limit_bytes(root) == 2**30
    assert usable_cores(root) == min(1.5, usable_cores())


def test_version_1_groups_are_read_too(tmp_path: Path) -> None:
    groups = "sys/fs/cgroup"
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "5:memory:/only/on/the/host\n4:cpu,cpuacct:/\n0::/",
            f"{groups}/cpu,cpuacct/cgroup.procs": "",
            f"{groups}/cpu,cpuacct/cpu.cfs_quota_us": 50_000,
            f"{groups}/cpu,cpuacct/cpu.cfs_period_us": 100_000,
            f"{groups}/cpu,cpuacct/cpu.stat": "nr_periods 9\nnr_throttled 4\nthrottled_time 7",
            f"{groups}/memory/cgroup.procs": "",
            f"{groups}/memory/memory.limit_in_bytes": 2**31,
        },
    )
    assert cpu_quota(root) == 0.5
    assert memory_limit_bytes(root) == 2**31
    assert throttle_count(root) == 4


def test_no_limit_is_none_in_both_versions(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None
    root = tree(tmp_path / "two", cgroup_v2("/", cpu_max="max 100000", memory_max="max"))
    assert (cpu_quota(root), memory_limit_bytes(root)) == (None, None)
    root = tree(
        tmp_path / "one",
        {
            "proc/self/cgroup": "2:cpu:/\n1:memory:/",
            "sys/fs/cgroup/cpu/cgroup.procs": "",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": -1,
            "sys/fs/cgroup/memory/cgroup.procs": "",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": 9223372036854771712,
        },
    )
    assert (cpu_quota(root), memory_limit_bytes(root)) == (None, None)


# --- throttling ---


def test_the_throttle_count_adds_heat_and_quota(tmp_path: Path) -> None:
    assert throttle_count(tmp_path) is None
    files = {
        **cgroup_v2("/job", cpu_stat="usage_usec 5\nnr_periods 10\nnr_throttled 3\nthrottled_usec 9"),
        "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count": 10,
        "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": 20,
    }
    root = tree(tmp_path, files)
    assert throttle_count(root) == 33
    tree(root, {"sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count": 21})
    assert throttle_count(root) == 34


def test_the_throttle_count_is_cheap_enough_for_every_round() -> None:
    start = time.process_time()
    for _ in range(20):
        throttle_count()
    assert (time.process_time() - start) / 20 < 0.02


# --- sensors ---


def test_every_missing_sensor_has_its_reason(tmp_path: Path) -> None:
    sensors = {sensor.name: sensor for sensor in list_sensors(tmp_path, NO_NVML)}
    assert set(sensors) == {
        "clock",
        "host peak memory",
        "throttling",
        "energy: INA",
        "energy: NVML",
        "energy: PMIC",
        "energy: RAPL",
        "energy: battery",
    }
    assert sensors["energy: NVML"].detail == "not asked for"
    assert [name for name, sensor in sensors.items() if sensor.available] == ["clock", "host peak memory"]
    assert all(sensor.detail for sensor in sensors.values())


def test_the_packages_of_every_engine_and_loss_are_recorded() -> None:
    from stopwav.engines.registry import BUILT_IN as ENGINES
    from stopwav.losses.registry import BUILT_IN as LOSSES
    from stopwav.measure.machine import PACKAGES

    needed = {entry.package for entry in ENGINES} | {package for loss in LOSSES for package in loss.packages}
    assert needed <= set(PACKAGES)
    assert len(set(PACKAGES)) == len(PACKAGES)
