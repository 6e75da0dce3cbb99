"""Logs as meters and tools write them: powerstat, powertop, Shelly and Tasmota; told by content, with their unit."""

import os
import time
from datetime import datetime
from pathlib import Path

import pytest

from stopwav import StopwavError
from stopwav.measure.meter_log import read_meter_log

POWERSTAT = """Running for 60.0 seconds (30 samples at 2.0 second intervals).
Power measurements will start in 0 seconds time.

  Time    User  Nice   Sys  Idle    IO  Run Ctxt/s  IRQ/s  Watts uncore   core
23:59:57   3.4   0.0   2.0  94.6   0.0    2   6236   1144   5.28   0.21   2.86
23:59:59   2.5   0.0   2.5  94.8   0.1    1   6171   1134   5.10   0.18   2.72
           --- Skipped samples(s) because of low CPU idle ---
00:00:01   3.5   0.0   2.2  94.1   0.1    1   5988   1079   5.17   0.24   2.73
00:00:03   2.8   0.0   2.8  94.4   0.0    2   6028   1089   4.92E  0.12   2.60
00:00:05   2.8   0.0   2.0  95.1   0.1    1   6344   1156   5.66   0.38   3.05
-------- ----- ----- ----- ----- ----- ---- ------ ------ ------ ------ ------
 Average   3.0   0.0   2.3  94.6   0.0  1.4 6153.4 1120.4   5.23   0.23   2.79
"""

POWERTOP_OLD = """PowerTOP
*  *  *   System Information   *  *  *

PowerTOP Version;v2.14 ran at Tue Jan  2 10:00:00 2024

The battery reports a discharge rate of:   5.80 W;
The energy consumed was :   116 J;
The system baseline power is estimated at:   4.1 W;
"""
POWERTOP_NEW = """PowerTOP

# System Information

PowerTOP Version,v2.16 ran at Tue Jan  2 10:00:20 2024
The battery reports a discharge rate of: ,  850 mW
The energy consumed was : , 17.0 J
"""

SHELLY_3EM = (
    "timestamp,a_total_act_energy,a_fund_act_energy,a_total_act_ret_energy,a_max_act_power,"
    "b_total_act_energy,b_total_act_ret_energy,c_total_act_energy,n_avg_current\n"
    "1771180620,0.2134,0.2001,0.0000,127.4,0.0600,0.0000,0.0266,0.975\n"
    "1771180680,0.1000,0.1000,0.0000,127.4,0.0000,0.0000,0.0000,0.975\n"
)
SHELLY_EM = (
    "timestamp,total_act_energy,total_act_ret_energy,lag_react_energy,max_act_power,min_act_power,avg_voltage\n"
    "1654494480,0.5,0.0000,0.0000,31.7,29.6,210.800\n"
    "1654494540,0.25,0.0000,0.0000,16.7,14.6,210.800\n"
)


def read(tmp_path: Path, text: str) -> tuple[list[tuple[float, float]], str]:
    path = tmp_path / "meter.log"
    path.write_text(text)
    log = read_meter_log(path)
    return list(zip(log.times_s, log.watts, strict=True)), log.source


def test_powerstat_past_midnight_is_of_the_day_on_which_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "powerstat.log"
    path.write_text(POWERSTAT)
    written_s = datetime(2024, 3, 5, 0, 0, 6).timestamp()
    os.utime(path, (written_s, written_s))
    log = read_meter_log(path)
    # What powerstat estimated itself (E) is no reading.
    assert log.watts == (5.28, 5.10, 5.17, 5.66)
    assert [time_s - written_s for time_s in log.times_s] == [-9, -7, -5, -1]
    assert log.source.startswith("powerstat, column Watts in W")
    # The last line of a day, written on the next.
    path.write_text("\n".join(POWERSTAT.splitlines()[:6]) + "\n")
    os.utime(path, (written_s, written_s))
    assert [time_s - written_s for time_s in read_meter_log(path).times_s] == [-9, -7]


def test_reports_of_powertop_are_one_reading_each_at_the_middle(tmp_path: Path) -> None:
    """5.8 W and 116 J are 20 s: at 10:00:10. 0.85 W and 17 J are 20 s too."""
    (tmp_path / "power-20240102-100000.csv").write_text(POWERTOP_OLD)
    (tmp_path / "power-20240102-100020.csv").write_text(POWERTOP_NEW)
    (tmp_path / "power-other.csv").write_text("not a report")
    log = read_meter_log(tmp_path / "power.csv")
    start_s = datetime(2024, 1, 2, 10).timestamp()
    assert [time_s - start_s for time_s in log.times_s] == pytest.approx([10, 30])
    assert log.watts == pytest.approx([5.8, 0.85])
    assert log.source == "powertop, discharge rate in W"


def test_powertop_without_a_series_or_a_battery_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "power.csv"
    path.write_text(POWERTOP_OLD)
    with pytest.raises(StopwavError, match="--iteration"):
        read_meter_log(path)
    path.write_text("PowerTOP\n\nPowerTOP Version;v2.14\n")
    with pytest.raises(StopwavError, match="no discharge rate; it needs a battery"):
        read_meter_log(path)


def test_shellys_minutes_are_mean_power_at_their_middle(tmp_path: Path) -> None:
    """0.5 Wh in a minute are 1800 J in 60 s, 30 W; three phases add up: 0.3 Wh are 18 W."""
    readings, source = read(tmp_path, SHELLY_EM)
    assert readings == [(1654494510, pytest.approx(30)), (1654494570, pytest.approx(15))]
    assert source == "Shelly EM data, total_act_energy in Wh of the minute from each time"
    readings, source = read(tmp_path, SHELLY_3EM)
    assert readings == [(1771180650, pytest.approx(18)), (1771180710, pytest.approx(6))]
    assert "a_total_act_energy + b_total_act_energy + c_total_act_energy in Wh" in source


@pytest.mark.parametrize(
    ("text", "source"),
    [
        (
            "timestamp,output,apower,voltage\n1700000000,true,5.8,230\n1700000001,true,6,230\n",
            "CSV, column apower in W",
        ),
        ("time,ENERGY_Power\n1700000000,5.8\n1700000001,6\n", "CSV, column ENERGY_Power in W"),
        (
            '{"src":"plug","method":"NotifyStatus","params":{"ts":1700000000.0,"switch:0":{"id":0,"apower":5.8}}}\n'
            '{"src":"plug","method":"NotifyStatus","params":{"ts":1700000000.5,"wifi":{"rssi":-60}}}\n'
            '{"src":"plug","method":"NotifyStatus","params":{"ts":1700000001.0,"switch:0":{"id":0,"apower":6}}}\n',
            "Shelly, apower in W",
        ),
        (
            '1700000000.0 {"id":0,"output":true,"apower":5.8,"aenergy":{"total":5.1}}\n'
            '1700000001.0 {"id":0,"output":true,"apower":6,"aenergy":{"total":5.1}}\n',
            "Shelly, apower in W",
        ),
        (
            '1700000000 tele/42/SENSOR {"Time":"2001-01-01T00:00:00","ENERGY":{"Power":5.8,"Voltage":231}}\n'
            '1700000001 tele/42/STATE {"Time":"2001-01-01T00:00:01","POWER":"ON"}\n'
            '1700000001 tele/42/SENSOR {"Time":"2001-01-01T00:00:01","ENERGY":{"Power":6,"Voltage":231}}\n',
            "Tasmota, ENERGY.Power in W",
        ),
        (
            '1700000000 {"StatusSNS":{"Time":"2001-01-01T00:00:00","ENERGY":{"Power":5.8}}}\n'
            '1700000001 {"StatusSNS":{"Time":"2001-01-01T00:00:01","ENERGY":{"Power":6}}}\n',
            "Tasmota, ENERGY.Power in W",
        ),
    ],
)
def test_plugs_by_their_own_names_of_watts(text: str, source: str, tmp_path: Path) -> None:
    assert read(tmp_path, text) == ([(1700000000.0, 5.8), (1700000001.0, 6.0)], source)


def test_tasmotas_own_time_is_that_of_this_machines_zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        lines = [f'{{"Time":"2023-11-15T07:13:2{at}","ENERGY":{{"Power":{at}}}}}\n' for at in (0, 1)]
        assert read(tmp_path, "tele/x/SENSOR ".join(["", *lines]))[0] == [(1700000000.0, 0.0), (1700000001.0, 1.0)]
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id":0,"apower":5.8}\n', ':1: \'{"id":0,"apower":5.8}\' is not a reading (it has no time'),
        ('1700000000 {"switch:0":{"apower":5.8},"switch:1":{"apower":1}}\n', "the power of 2 outputs"),
        ('1700000000 {"ENERGY":{"Power":[5,6]}}\n', "is not a reading"),
        ('1700000000 {"ENERGY":{"Power":5}\n', "is not a reading"),
        ('{"temperature": 20}\n{"temperature": 20}\n', "readings: 0, needs 2"),
        ("apower,voltage\n5,230\n6,230\n", "no column of times"),
        (f'1700000000 {{"ENERGY":{{"Power":{"9" * 400}}}}}\n', "is not a reading (not finite)"),
        (f"timestamp,watts\n1700000000,{'9' * 400}\n", "is not a reading (not finite)"),
        ("timestamp,watts\n1700000000,1e300\n", "is not a reading (more than a power station)"),
        (f'1700000000 {{"a":{"[" * 100_000}\n', "is not a reading"),
    ],
)
def test_what_a_plug_did_not_say_is_not_made_up(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(StopwavError) as error:
        read(tmp_path, text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
