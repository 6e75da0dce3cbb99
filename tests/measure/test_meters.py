"""Meters on fake sysfs trees and a fake NVML: exact joules where there is a counter, a reason where there is none."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fake_machine import Bench, FakeNvml, tree

from stopwav.measure.energy import measure_energy
from stopwav.measure.meter import Meter, Meters, NoMeter
from stopwav.measure.meters import battery_meter, find_meters, nvml_meter, rapl_meter
from stopwav.measure.nvml import NoNvml, start_nvml

RANGE_UJ = 262_143_328_850  # what a real package reports
NOBODY = 65534


def zone(path: str, name: str, energy_uj: int, range_uj: int = RANGE_UJ) -> dict[str, object]:
    """The files of one RAPL zone."""
    folder = f"sys/class/powercap/{path}"
    return {f"{folder}/name": name, f"{folder}/energy_uj": energy_uj, f"{folder}/max_energy_range_uj": range_uj}


def battery(status: str, energy_uwh: int | None = 40_000_000, name: str = "BAT0") -> dict[str, object]:
    """The files of one battery."""
    folder = f"sys/class/power_supply/{name}"
    files: dict[str, object] = {f"{folder}/type": "Battery", f"{folder}/status": status}
    return files if energy_uwh is None else {**files, f"{folder}/energy_now": energy_uwh}


def found(meter: Meter | NoMeter) -> Meter:
    """The meter, which must be there."""
    assert isinstance(meter, Meter), meter
    return meter


def reason(meter: Meter | NoMeter) -> str:
    """Why there is no meter, which there must not be."""
    assert isinstance(meter, NoMeter), meter
    return meter.reason


# --- RAPL ---


def test_rapl_joules_are_exact_across_a_wrap_and_zones_inside_others_are_not_added(tmp_path: Path) -> None:
    files = {
        "sys/class/powercap/intel-rapl/enabled": 1,  # the control type itself, not a zone
        **zone("intel-rapl:0", "package-0", RANGE_UJ - 30_000_000),
        **zone("intel-rapl:0:0", "core", 0),
        **zone("intel-rapl:0:1", "dram", 5),
        **zone("intel-rapl:1", "package-1", 1_000),
        **zone("intel-rapl:1:0", "dram", 500),
        **zone("intel-rapl:2", "psys", 0),
        **zone("intel-rapl-mmio:0", "package-0", 77),  # the first package again, by another way
    }
    root, bench = tree(tmp_path, files), Bench()
    watts = {"intel-rapl:0": 20, "intel-rapl:0:0": 15, "intel-rapl:0:1": 3, "intel-rapl:1": 10, "intel-rapl:1:0": 2}
    watts["intel-rapl:2"] = 60

    def refresh() -> None:
        for name, power in watts.items():
            start = int(str(files[f"sys/class/powercap/{name}/energy_uj"]))
            now = (start + round(power * bench.now_s * 1e6)) % RANGE_UJ
            (root / f"sys/class/powercap/{name}/energy_uj").write_text(f"{now}\n")

    bench.on_advance.append(refresh)
    meter = found(rapl_meter(root))
    assert set(meter.parts) == {"cpu package", "cpu core", "dram", "platform"}
    reading = measure_energy(bench.work(0.5), meter, whole=["cpu package", "dram"], clock=bench)
    assert reading.window_s == pytest.approx(2)
    assert {name: part.gross_j for name, part in reading.parts.items()} == {
        "cpu package": pytest.approx(60, abs=1e-5),
        "cpu core": pytest.approx(30, abs=1e-5),
        "dram": pytest.approx(10, abs=1e-5),
        "platform": pytest.approx(120, abs=1e-5),
    }
    assert reading.gross_j == pytest.approx(70, abs=1e-5)


def test_rapl_that_is_not_there_says_so(tmp_path: Path) -> None:
    assert "virtual machine" in reason(rapl_meter(tmp_path))
    (tmp_path / "sys/class/powercap").mkdir(parents=True)
    assert "no RAPL zone" in reason(rapl_meter(tmp_path))


@contextmanager
def as_nobody() -> Iterator[None]:
    """Give up root for a while, since root may read every file."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_rapl_that_only_root_may_read_says_so_and_what_to_do() -> None:
    with tempfile.TemporaryDirectory() as folder:  # not pytest's own, which is closed to all but its owner
        root = tree(Path(folder), zone("intel-rapl:0", "package-0", 5))
        root.chmod(0o755)
        counter = root / "sys/class/powercap/intel-rapl:0/energy_uj"
        counter.chmod(0o400 if os.geteuid() == 0 else 0)
        with as_nobody():
            why = reason(rapl_meter(root))
    assert "Permission denied" in why
    assert f"sudo chmod a+r {counter}" in why


def test_rapl_that_fails_to_read_is_no_meter(tmp_path: Path) -> None:
    root = tree(tmp_path, zone("intel-rapl:0", "package-0", 5))
    counter = root / "sys/class/powercap/intel-rapl:0/energy_uj"
    counter.write_text("not a number")
    assert "cannot be read" in reason(rapl_meter(root))
    counter.unlink()
    counter.mkdir()
    assert "Is a directory" in reason(rapl_meter(root))


# --- battery ---


def test_a_battery_in_use_counts_everything_and_takes_a_minute(tmp_path: Path) -> None:
    root, bench = tree(tmp_path, battery("Discharging")), Bench()

    energy_now, steps = root / "sys/class/power_supply/BAT0/energy_now", [0]

    def refresh() -> None:  # 18 W, reported in steps of 10 mWh
        step = int(18 * bench.now_s / 3600 * 1e6) // 10_000
        if step > steps[-1]:
            steps.append(step)
            energy_now.write_text(str(40_000_000 - 10_000 * step))

    bench.on_advance.append(refresh)
    reading = measure_energy(bench.work(1), found(battery_meter(root)), clock=bench)
    assert reading.window_s >= 60
    assert reading.gross_j == pytest.approx(18 * reading.window_s, abs=36)
    assert reading.total == reading.parts["battery"]


def test_a_battery_plugged_in_midway_gives_no_value(tmp_path: Path) -> None:
    root, bench = tree(tmp_path, battery("Discharging")), Bench()

    folder, seconds = root / "sys/class/power_supply/BAT0", [0]

    def refresh() -> None:
        if int(bench.now_s) > seconds[-1]:
            seconds.append(int(bench.now_s))
            (folder / "energy_now").write_text(str(40_000_000 - 5000 * seconds[-1]))
            if bench.now_s > 100:
                (folder / "status").write_text("Charging")

    bench.on_advance.append(refresh)
    reading = measure_energy(bench.work(1), found(battery_meter(root)), clock=bench)
    assert reading.parts == {}
    assert "BAT0 is charging" in (reading.note or "")


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "no battery"),
        (battery("Full"), "on mains (BAT0 is full)"),
        (battery("Discharging", energy_uwh=None), "does not report energy_now"),
        ({**battery("Discharging", name="mouse"), "sys/class/power_supply/mouse/scope": "Device"}, "no battery"),
        ({"sys/class/power_supply/AC/type": "Mains", "sys/class/power_supply/AC/online": 1}, "no battery"),
    ],
)
def test_a_battery_that_cannot_be_used_says_why(tmp_path: Path, files: dict[str, object], why: str) -> None:
    assert why in reason(battery_meter(tree(tmp_path, files)))


# --- NVML ---


def test_nvml_counts_millijoules() -> None:
    nvml, bench = FakeNvml(1_000_000), Bench()

    def refresh() -> None:
        nvml.energy_mj[0] = 1_000_000 + round(250 * bench.now_s * 1000)

    bench.on_advance.append(refresh)
    reading = measure_energy(bench.work(0.5), found(nvml_meter(nvml)), whole=["gpu"], clock=bench)
    assert reading.window_s == pytest.approx(2)
    assert reading.gross_j == pytest.approx(500, abs=0.01)
    assert reading.source == "NVML"


def test_several_gpus_are_named_apart_and_one_without_a_counter_is_left_out() -> None:
    assert found(nvml_meter(FakeNvml(1, 2))).parts == ("gpu 0", "gpu 1")
    assert found(nvml_meter(FakeNvml(None, 2))).parts == ("gpu 1",)
    assert "gpu has no energy counter (Not Supported)" in reason(nvml_meter(FakeNvml(None)))


def test_nvml_that_does_not_start_or_finds_nothing_says_so() -> None:
    class Broken(FakeNvml):
        def nvmlInit(self) -> None:
            raise self.NVMLError("Driver Not Loaded")

    for nvml, why in [(Broken(1), "Driver Not Loaded"), (FakeNvml(), "no NVIDIA GPU")]:
        started = start_nvml(nvml)
        assert isinstance(started, NoNvml)
        assert why in started.reason
        assert reason(nvml_meter(started)) == started.reason


# --- all of them ---


def test_a_machine_with_nothing_gives_a_reason_for_each(tmp_path: Path) -> None:
    meters = find_meters(tmp_path, NoNvml("nvidia-ml-py is not installed"))
    assert meters.found == ()
    assert [missing.source for missing in meters.missing] == ["NVML", "RAPL", "INA", "PMIC", "battery"]
    note = measure_energy(lambda: None, meters).note or ""
    assert all(missing.reason in note for missing in meters.missing)


def test_cpu_and_gpu_are_read_in_one_window_and_the_battery_is_not_added_to_them(tmp_path: Path) -> None:
    files = {**zone("intel-rapl:0", "package-0", 0), **zone("intel-rapl:0:0", "dram", 0), **battery("Discharging")}
    meters = find_meters(tree(tmp_path, files), FakeNvml(0))
    assert [meter.source for meter in meters.found] == ["NVML", "RAPL", "battery"]
    assert meters.joined().parts == ("gpu", "cpu package", "dram")
    assert meters.joined().source == "NVML + RAPL"
    assert meters.whole == ("gpu", "cpu package", "dram")
    assert Meters(meters.found[2:], (), ()).joined().parts == ("battery",)


@pytest.mark.parametrize(("vendor", "whole"), [("0x10de", True), ("0x1002", True), ("0x8086", False)])
def test_a_gpu_that_nobody_meters_forbids_a_total(tmp_path: Path, vendor: str, whole: bool) -> None:
    device = "sys/bus/pci/devices/0000:01:00.0"
    root = tree(tmp_path, {f"{device}/vendor": vendor, f"{device}/class": "0x030000"})
    assert ("gpu" in find_meters(root, NoNvml("no module")).whole) is whole
