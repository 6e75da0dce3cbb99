"""The energy meters of this machine: counters (NVML, RAPL, battery) and sensors of a board, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stopwav.measure.board_meters import TOTAL_RAILS, ina_meter, pmic_meter
from stopwav.measure.machine import read_text
from stopwav.measure.meter import Counter, Meter, Meters, NoMeter
from stopwav.measure.nvml import NoNvml, Nvml, handles, load_nvml

# RAPL's names of its zones, and ours. Core and uncore are inside the package; psys is the whole platform, package
# included. They are reported separately and never added to anything.
RAPL_PARTS = {"core": "cpu core", "uncore": "cpu uncore", "dram": "dram", "psys": "platform"}

NVML_TICK_S = 0.1  # NVML's counter advances about every 100 ms
RAPL_TICK_S = 0.001  # RAPL's about every millisecond
# A battery reports in steps of about 10 mWh (36 J) and only every few seconds: at 20 W a minute is 33 of its steps.
BATTERY_TICK_S = 5.0
BATTERY_WINDOW_S = 60.0

NVIDIA, AMD = "0x10de", "0x1002"  # PCI vendors whose GPUs draw power outside the CPU package


def find_meters(root: Path = Path("/"), nvml: Nvml | NoNvml | None = None) -> Meters:
    """Find the energy meters of this machine, with the reason for each that is missing."""
    nvml = load_nvml() if nvml is None else nvml
    meters = (nvml_meter(nvml), rapl_meter(root), ina_meter(root), pmic_meter(root), battery_meter(root))
    rails = [part for meter in meters for part in meter.parts if part in TOTAL_RAILS]
    gpus = () if isinstance(nvml, NoNvml) else tuple(_gpu_names(nvml))
    if not gpus and _has_gpu(root):
        gpus = ("gpu",)  # present, but without a meter: there is no total
    return Meters(
        found=tuple(meter for meter in meters if isinstance(meter, Meter)),
        missing=tuple(meter for meter in meters if isinstance(meter, NoMeter)),
        # A rail that feeds the whole board is its total.
        whole=tuple(rails[:1]) or (*gpus, "cpu package", "dram"),
    )


def nvml_meter(nvml: Nvml | NoNvml) -> Meter | NoMeter:
    """Return the energy counters of every NVIDIA GPU that has one."""
    source = "NVML"
    if isinstance(nvml, NoNvml):
        return NoMeter(nvml.reason, source)
    counters, reason = [], "no GPU answers"
    names = _gpu_names(nvml)
    for index, handle in handles(nvml):
        name, read_uj = names[index], _nvml_reader(nvml, handle)
        try:
            read_uj()
        except OSError as error:
            reason = f"{name} has no energy counter ({error}): this needs Volta or newer, not split into MIG or vGPU"
            continue
        counters.append(Counter(name, read_uj, read_w=_nvml_power_reader(nvml, handle)))
    return Meter(source, tuple(counters), NVML_TICK_S) if counters else NoMeter(reason, source)


def rapl_meter(root: Path = Path("/")) -> Meter | NoMeter:
    """Return the RAPL counters of every CPU package (Intel and AMD), as Linux shows them under powercap."""
    source, folder = "RAPL", root / "sys/class/powercap"
    if not folder.is_dir():
        return NoMeter(f"no {folder}: not Linux on a PC processor, or a virtual machine, which rarely has it", source)
    counters = []
    for zone, part in _rapl_zones(folder):
        try:
            int((zone / "energy_uj").read_text())
            range_uj = int((zone / "max_energy_range_uj").read_text())
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            path = zone / "energy_uj"
            return NoMeter(f"{path} cannot be read ({reason}): run as root, or sudo chmod a+r {path}", source)
        counters.append(Counter(part, _file_reader(zone / "energy_uj"), range_uj))
    return Meter(source, tuple(counters), RAPL_TICK_S) if counters else NoMeter(f"no RAPL zone in {folder}", source)


def battery_meter(root: Path = Path("/")) -> Meter | NoMeter:
    """Return a meter of the batteries while the machine runs on them; it counts everything, screen included."""
    source, batteries = "battery", list(system_batteries(root))
    if not batteries:
        return NoMeter("this machine has no battery", source)
    discharging = [battery for battery in batteries if read_text(battery / "status") == "Discharging"]
    if not discharging:
        state = read_text(batteries[0] / "status") or "unknown"
        return NoMeter(f"on mains ({batteries[0].name} is {state.lower()}): unplug to measure by battery", source)
    silent = [battery.name for battery in discharging if not read_text(battery / "energy_now").isdigit()]
    if silent:
        return NoMeter(f"{silent[0]} does not report energy_now (a charge in Ah is not an energy)", source)
    counters = tuple(Counter("battery", _battery_reader(battery)) for battery in discharging)
    return Meter(source, counters, BATTERY_TICK_S, BATTERY_WINDOW_S)


def system_batteries(root: Path = Path("/")) -> Iterator[Path]:
    """Yield the folders of the batteries that power the machine; a mouse's battery is not one."""
    for supply in sorted((root / "sys/class/power_supply").glob("*")):
        if read_text(supply / "type") == "Battery" and read_text(supply / "scope") != "Device":
            yield supply


def _rapl_zones(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield each RAPL zone with the part it meters, the same silicon never twice."""
    seen = set()
    # Short control types first: intel-rapl (registers) before intel-rapl-mmio, which shows the same package again.
    for zone in sorted(folder.glob("*rapl*:*"), key=lambda zone: (len(zone.name.split(":")[0]), zone.name)):
        name, parent = read_text(zone / "name"), zone.name.rpartition(":")[0]
        owner = read_text(folder / parent / "name") if ":" in parent else ""
        part = "cpu package" if name.startswith("package") else RAPL_PARTS.get(name)
        if part is None or (owner, name) in seen:
            continue
        seen.add((owner, name))
        yield zone, part


def _gpu_names(nvml: Nvml) -> list[str]:
    """Return the part name of each GPU: "gpu", or "gpu 0", "gpu 1", … where there are several."""
    count = nvml.nvmlDeviceGetCount()
    return ["gpu"] if count == 1 else [f"gpu {index}" for index in range(count)]


def _has_gpu(root: Path) -> bool:
    """Return whether a GPU of NVIDIA or AMD is on the PCI bus."""
    devices = (root / "sys/bus/pci/devices").glob("*")
    return any(
        read_text(device / "vendor") in (NVIDIA, AMD) and read_text(device / "class").startswith("0x03")
        for device in devices
    )


def _file_reader(path: Path) -> Callable[[], int]:
    """Return a reader of a file that holds microjoules."""
    return lambda: int(path.read_text())


def _battery_reader(battery: Path) -> Callable[[], int]:
    """Return a reader of the energy that a battery has given: minus its charge, in microjoules."""

    def read_uj() -> int:
        if (status := read_text(battery / "status")) != "Discharging":
            raise OSError(f"{battery.name} is {status.lower() or 'gone'}")
        return -int((battery / "energy_now").read_text()) * 3600  # µWh to µJ

    return read_uj


def _nvml_reader(nvml: Nvml, handle: Any) -> Callable[[], int]:
    """Return a reader of one GPU's energy since the driver was loaded, in microjoules."""

    def read_uj() -> int:
        try:
            return int(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) * 1000  # mJ to µJ
        except nvml.NVMLError as error:
            raise OSError(str(error)) from error

    return read_uj


def _nvml_power_reader(nvml: Nvml, handle: Any) -> Callable[[], float]:
    """Return a reader of one GPU's power, in watts."""

    def read_w() -> float:
        try:
            return int(nvml.nvmlDeviceGetPowerUsage(handle)) / 1000  # mW to W
        except nvml.NVMLError as error:
            raise OSError(str(error)) from error

    return read_w
