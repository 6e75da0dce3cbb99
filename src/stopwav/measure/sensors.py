"""What this machine can measure with, and for each sensor that is missing the reason."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from stopwav.measure.cgroup import times_held_back
from stopwav.measure.machine import clock_step_s, heat_throttle_count
from stopwav.measure.memory import EXACT, host_peak_method
from stopwav.measure.meters import find_meters
from stopwav.measure.nvml import NoNvml, Nvml


@dataclass(frozen=True)
class Sensor:
    """One thing to measure with: whether it is there, and what it gives or why it is not."""

    name: str
    available: bool
    detail: str


def list_sensors(root: Path = Path("/"), nvml: Nvml | NoNvml | None = None) -> list[Sensor]:
    """Clock, memory, throttling and energy sensors of this machine, the missing ones included."""
    meters = find_meters(root, nvml)
    return [
        _clock(),
        _host_peak(root),
        _throttling(root),
        *(Sensor(f"energy: {meter.source}", True, ", ".join(meter.parts)) for meter in meters.found),
        *(Sensor(f"energy: {meter.source}", False, meter.reason) for meter in meters.missing),
    ]


def _clock() -> Sensor:
    """The clock that calls are timed with, and its smallest step."""
    name = time.get_clock_info("perf_counter").implementation
    return Sensor("clock", True, f"{name}, smallest step {clock_step_s() * 1e9:.0f} ns")


def _host_peak(root: Path) -> Sensor:
    """How the peak of resident memory is taken here."""
    if host_peak_method(root / "proc/self") == EXACT:
        return Sensor("host peak memory", True, "the kernel's high-water mark, reset before each pass")
    return Sensor("host peak memory", True, "sampled: the kernel's mark cannot be reset, so a short peak may be missed")


def _throttling(root: Path) -> Sensor:
    """What throttling of the CPU is counted here."""
    heat, quota = heat_throttle_count(root) is not None, times_held_back(root) is not None
    if heat:
        return Sensor(
            "throttling", True, "counted around each round" if quota else "by heat, counted around each round"
        )
    if quota:
        return Sensor(
            "throttling", True, "by CPU quota, counted around each round; heat is not counted on this machine"
        )
    return Sensor("throttling", False, "neither the CPU nor a container counts it, so a throttled round goes unseen")
