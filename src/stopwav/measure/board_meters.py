"""Power sensors of small boards: INA chips through hwmon and IIO (Jetson), and the Raspberry Pi 5's PMIC.

They report power and count no energy: it is sampled while the work goes on, and integrated.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from stopwav.measure.machine import read_text
from stopwav.measure.meter import SAMPLE_S, Counter, Meter, NoMeter

# The rail of a Jetson through which all of its power comes, by generation. Other rails are inside it, so they are
# reported separately and never added to it. Boards without such a rail (AGX) have no total.
TOTAL_RAILS = ("VDD_IN", "POM_5V_IN")
# A reading starts a process, some milliseconds on the board: four a second take a few percent of one of its cores.
PMIC_SAMPLE_S = 0.25
# A reading takes milliseconds; one that takes seconds will not come.
_PMIC_TIMEOUT_S = 5.0
_VCGENCMD = ("usr/bin/vcgencmd", "opt/vc/bin/vcgencmd")
# What `vcgencmd pmic_read_adc` prints: `VDD_CORE_A current(7)=1.42880000A` and `VDD_CORE_V volt(15)=0.90659250V`.
_ADC = re.compile(r"(\w+)_([AV]) (?:current|volt)\(\d+\)=([\d.]+)[AV]")
# In hwmon an INA3221 has three channels; what has higher numbers are shunt voltages and sums over channels.
_CHANNELS = range(1, 4)


def ina_meter(root: Path = Path("/")) -> Meter | NoMeter:
    """Return the power sensors of the INA family (INA219, INA226, INA3221, …), as Linux shows them in hwmon or IIO."""
    source, sensors, reason = "INA", dict[str, Counter](), "no INA power sensor in hwmon or IIO"
    for part, read_w in [*_hwmon_sensors(root), *_iio_sensors(root)]:
        try:
            read_w()
        except (OSError, ValueError) as error:
            reason = f"{part} cannot be read ({error})"
            continue
        name = part if part not in sensors else f"{part} {len(sensors) + 1}"
        sensors[name] = Counter(name, None, read_w=read_w)
    return Meter(source, tuple(sensors.values()), SAMPLE_S) if sensors else NoMeter(reason, source)


def pmic_meter(root: Path = Path("/")) -> Meter | NoMeter:
    """Return the Raspberry Pi 5's own measurement of its rails: Σ volts · amps of those that its PMIC feeds.

    It leaves out what the 5 V input feeds directly (USB devices, HATs, the fan) and the loss of the regulators.
    """
    source = "PMIC"
    command = next((root / path for path in _VCGENCMD if (root / path).exists()), None)
    if command is None:
        return NoMeter("no vcgencmd: not a Raspberry Pi, or raspi-utils is not installed", source)
    try:
        _pmic_w(command)
    except (OSError, ValueError) as error:
        return NoMeter(f"{command} pmic_read_adc gives no rails ({error}): it needs a Raspberry Pi 5", source)
    counter = Counter("pmic rails", None, read_w=lambda: _pmic_w(command))
    return Meter(source, (counter,), PMIC_SAMPLE_S, sample_s=PMIC_SAMPLE_S)


def pmic_watts(text: str) -> float:
    """Return the sum of volts · amps over the rails that `vcgencmd pmic_read_adc` prints both of."""
    read: dict[str, dict[str, float]] = {"A": {}, "V": {}}
    for rail, unit, number in _ADC.findall(text):
        read[unit][rail] = float(number)
    rails = read["A"].keys() & read["V"].keys()
    if not rails:
        raise ValueError(f"it printed {text.strip()[:60]!r}")
    return sum(read["A"][rail] * read["V"][rail] for rail in sorted(rails))


def _pmic_w(command: Path) -> float:
    try:
        done = subprocess.run(
            [str(command), "pmic_read_adc"], capture_output=True, text=True, timeout=_PMIC_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise OSError(f"no answer in {_PMIC_TIMEOUT_S:g} s") from None
    return pmic_watts(done.stdout or done.stderr)


def _folders(root: Path, *patterns: str) -> list[Path]:
    """The folders that match, each once: the same sensor is linked from several places."""
    folders = (path for pattern in patterns for path in root.glob(pattern) if path.is_dir())
    return sorted({path.resolve() for path in folders})


def _hwmon_sensors(root: Path) -> Iterator[tuple[str, Callable[[], float]]]:
    """Each channel's name and a reader of its watts: power in µW where there is one, else mV · mA."""
    for folder in _folders(root, "sys/class/hwmon/hwmon*", "sys/bus/i2c/drivers/ina3221/*/hwmon/hwmon*"):
        chip = read_text(folder / "name")
        if not chip.startswith("ina"):
            continue
        for channel in _CHANNELS:
            label = read_text(folder / f"in{channel}_label")
            volts, amps, power = (folder / f"{kind}{channel}_input" for kind in ("in", "curr", "power"))
            # NC: not connected. A channel that is switched off has no data.
            if label == "NC" or read_text(folder / f"in{channel}_enable") == "0":
                continue
            part = label or (chip if channel == 1 else f"{chip} channel {channel}")
            if power.exists():
                yield part, _reader(power, 1e-6)
            elif volts.exists() and amps.exists():
                yield part, _product(volts, amps, 1e-6)


def _iio_sensors(root: Path) -> Iterator[tuple[str, Callable[[], float]]]:
    """Each channel's name and a reader of its watts; IIO's power is in mW, by itself or as raw · scale."""
    patterns = ("sys/bus/iio/devices/iio:device*", "sys/bus/i2c/drivers/ina3221x/*/iio:device*")
    for folder in _folders(root, *patterns):
        chip = read_text(folder / "name")
        if not chip.startswith("ina"):
            continue
        for path in sorted([*folder.glob("in_power*_input"), *folder.glob("in_power*_raw")]):
            number = path.name.removeprefix("in_power").partition("_")[0]
            part = read_text(folder / f"rail_name_{number}") or chip
            if path.name.endswith("_input"):
                yield part, _reader(path, 1e-3)
            else:
                yield part, _product(path, folder / f"in_power{number}_scale", 1e-3)


def _reader(path: Path, watts: float) -> Callable[[], float]:
    return lambda: float(path.read_text()) * watts


def _product(first: Path, second: Path, watts: float) -> Callable[[], float]:
    return lambda: float(first.read_text()) * float(second.read_text()) * watts
