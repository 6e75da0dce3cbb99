"""Power sensors of boards on trees with the names and units that Linux gives them, and on what vcgencmd prints."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fake_machine import Bench, tree

from stopwav.measure import energy_series, sampled_power
from stopwav.measure.board_meters import PMIC_SAMPLE_S, ina_meter, pmic_meter, pmic_watts
from stopwav.measure.energy import measure_energy
from stopwav.measure.energy_series import idle_window, work_windows
from stopwav.measure.health import list_sensors
from stopwav.measure.meter import Meter, NoMeter
from stopwav.measure.meters import find_meters
from stopwav.measure.nvml import NoNvml

NO_NVML = NoNvml("no module")
PMIC = """ 3V7_WL_SW_A current(0)=0.10000000A
  VDD_CORE_A current(7)=2.00000000A
   3V3_DAC_A current(17)=0.00006105A
      HDMI_A current(22)=0.02000000A
 3V7_WL_SW_V volt(8)=3.70000000V
  VDD_CORE_V volt(15)=0.90000000V
      HDMI_V volt(23)=5.00000000V
     EXT5V_V volt(24)=5.05716000V
      BATT_V volt(25)=0.00000000V
"""


def orin(folder: str = "sys/class/hwmon/hwmon3") -> dict[str, object]:
    """The INA3221 of a Jetson Orin NX: mV and mA by channel, then shunt voltages and sums."""
    channels = [("VDD_IN", 5000, 1160), ("VDD_CPU_GPU_CV", 5000, 400), ("VDD_SOC", 4960, 250)]
    files: dict[str, object] = {f"{folder}/name": "ina3221"}
    for number, (label, millivolts, milliamps) in enumerate(channels, start=1):
        files |= {f"{folder}/in{number}_label": label, f"{folder}/in{number}_enable": 1}
        files |= {f"{folder}/in{number}_input": millivolts, f"{folder}/curr{number}_input": milliamps}
        files[f"{folder}/in{number + 3}_input"] = 7
    return {
        **files,
        f"{folder}/in7_label": "sum of shunt voltages",
        f"{folder}/in7_input": 21,
        f"{folder}/curr4_input": 9,
    }


def jetson_nano() -> dict[str, object]:
    """The same chip by the older driver: rails by name, power in mW."""
    folder = "sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0"
    files: dict[str, object] = {f"{folder}/name": "ina3221x"}
    for number, (rail, milliwatts) in enumerate([("POM_5V_IN", 2500), ("POM_5V_GPU", 40), ("POM_5V_CPU", 700)]):
        files |= {f"{folder}/rail_name_{number}": rail, f"{folder}/in_power{number}_input": milliwatts}
        files |= {f"{folder}/in_voltage{number}_input": 5000, f"{folder}/in_current{number}_input": milliwatts // 5}
    return files


def watts(meter: Meter | NoMeter) -> dict[str, float]:
    assert isinstance(meter, Meter), meter
    assert all(counter.read_uj is None for counter in meter.counters)
    return {counter.part: counter.read_w() for counter in meter.counters if counter.read_w}


def test_the_rails_of_an_orin_are_apart_and_its_input_alone_is_the_total(tmp_path: Path) -> None:
    root = tree(tmp_path, orin())
    rails = {"VDD_IN": pytest.approx(5.8), "VDD_CPU_GPU_CV": pytest.approx(2.0), "VDD_SOC": pytest.approx(1.24)}
    assert watts(ina_meter(root)) == rails
    # Linked from the driver's folder too: the same sensor, not another.
    driver = root / "sys/bus/i2c/drivers/ina3221/1-0040/hwmon"
    driver.mkdir(parents=True)
    (driver / "hwmon3").symlink_to(root / "sys/class/hwmon/hwmon3")
    assert watts(ina_meter(root)) == rails
    meters = find_meters(root, NO_NVML)
    assert meters.whole == ("VDD_IN",)
    assert [meter.source for meter in meters.found] == ["INA"]


def test_the_rails_of_a_nano_by_iio_in_milliwatts(tmp_path: Path) -> None:
    root = tree(tmp_path, jetson_nano())
    assert watts(ina_meter(root)) == pytest.approx({"POM_5V_IN": 2.5, "POM_5V_GPU": 0.04, "POM_5V_CPU": 0.7})
    assert find_meters(root, NO_NVML).whole == ("POM_5V_IN",)


def test_an_ina219_in_microwatts_and_one_by_iio_as_raw_and_scale(tmp_path: Path) -> None:
    hwmon, iio = "sys/class/hwmon/hwmon0", "sys/bus/iio/devices/iio:device1"
    other, adc = "sys/class/hwmon/hwmon1", "sys/bus/iio/devices/iio:device0"
    files = {f"{hwmon}/name": "ina219", f"{hwmon}/in1_input": 5100, f"{hwmon}/curr1_input": 1137}
    files |= {f"{hwmon}/in0_input": 11, f"{hwmon}/power1_input": 5_800_000, f"{hwmon}/shunt_resistor": 10000}
    files |= {f"{iio}/name": "ina226", f"{iio}/in_power2_raw": 232, f"{iio}/in_power2_scale": "25.000000000"}
    # A temperature sensor, a processor that reports power but is no INA, and a converter.
    files |= {f"{other}/name": "amdgpu", f"{other}/power1_input": 9_000_000, f"{adc}/name": "ads1015"}
    root = tree(tmp_path, files)
    assert watts(ina_meter(root)) == {"ina219": pytest.approx(5.8), "ina226": pytest.approx(5.8)}
    # Wherever it is wired: nobody knows whether that is the whole machine.
    assert find_meters(root, NO_NVML).whole == ("cpu package", "dram")


def test_channels_without_a_wire_or_a_value_are_left_out(tmp_path: Path) -> None:
    folder = "sys/class/hwmon/hwmon3"
    files = {**orin(), f"{folder}/in1_label": "NC", f"{folder}/in2_enable": 0}
    root = tree(tmp_path, files)
    assert watts(ina_meter(root)) == {"VDD_SOC": pytest.approx(1.24)}
    (root / folder / "curr3_input").write_text("")
    broken = ina_meter(root)
    assert isinstance(broken, NoMeter)
    assert broken.reason.startswith("VDD_SOC cannot be read")


def test_the_pmics_rails_by_hand(tmp_path: Path) -> None:
    """0.1 · 3.7 + 2 · 0.9 + 0.02 · 5 W; a current without its voltage, and a voltage without current, are no power."""
    assert pmic_watts(PMIC) == pytest.approx(0.37 + 1.8 + 0.1)
    root = vcgencmd(tmp_path, f"cat <<'END'\n{PMIC}END")
    meter = pmic_meter(root)
    assert watts(meter) == {"pmic rails": pytest.approx(2.27)}
    assert isinstance(meter, Meter)
    assert meter.sample_s == PMIC_SAMPLE_S
    assert find_meters(root, NO_NVML).whole == ("cpu package", "dram")  # it leaves out what the 5 V feed directly


def test_no_sensor_is_said_with_the_reason(tmp_path: Path) -> None:
    for meter, reason in ((ina_meter(tmp_path), "no INA power sensor"), (pmic_meter(tmp_path), "no vcgencmd")):
        assert isinstance(meter, NoMeter)
        assert reason in meter.reason
    older = pmic_meter(vcgencmd(tmp_path, """echo 'error=1 error_msg="Command not registered"'"""))
    assert isinstance(older, NoMeter)
    assert "Command not registered" in older.reason
    assert "Raspberry Pi 5" in older.reason


def test_doctor_lists_the_sensors_that_are_there_and_those_that_are_not(tmp_path: Path) -> None:
    sensors = {sensor.name: sensor for sensor in list_sensors(tree(tmp_path, orin()), NO_NVML)}
    assert sensors["energy: INA"].available
    assert sensors["energy: INA"].detail == "VDD_IN, VDD_CPU_GPU_CV, VDD_SOC, by sampled power"
    assert not sensors["energy: PMIC"].available


def test_the_energy_of_a_board_is_the_integral_of_its_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """5.8 W while it works, whenever it is sampled; the total is the input, to which nothing is added."""
    monkeypatch.setattr(sampled_power, "LONGEST_GAP_S", 600.0)
    meters = find_meters(tree(tmp_path, orin()), NO_NVML)
    reading = measure_energy(lambda: time.sleep(0.02), meters, min_window_s=0.1, idle_s=0.1)
    assert reading.gross_j == pytest.approx(5.8 * reading.window_s)
    assert reading.net_j == pytest.approx(0, abs=1e-6)
    assert reading.parts["VDD_SOC"].gross_j == pytest.approx(1.24 * reading.window_s)
    monkeypatch.setattr(energy_series, "MIN_WINDOW_S", 0.15)
    meter = meters.joined()
    assert isinstance(meter, Meter)
    for window in work_windows(lambda: time.sleep(0.02), meter, time_s=0.3):
        assert window.joules["VDD_IN"] == pytest.approx(5.8 * window.seconds)
        assert window.samples >= 1
        assert window.longest_gap_s is not None
        assert set(window.unsampled) == set(meter.parts)  # there is no counter to check


def test_work_that_blocks_the_sampling_of_a_board_has_no_energy(tmp_path: Path) -> None:
    root, bench = tree(tmp_path, orin()), Bench()
    meter = ina_meter(root)
    assert isinstance(meter, Meter)
    # A fake clock: its windows pass at once, so that only their ends are sampled.
    window = idle_window(meter, clock=bench)
    assert window.joules == {}
    assert "not read for" in window.missing["VDD_IN"]


def vcgencmd(root: Path, script: str) -> Path:
    path = tree(root, {"usr/bin/vcgencmd": f"#!/bin/sh\n{script}"}) / "usr/bin/vcgencmd"
    path.chmod(0o755)
    return root
