"""This machine's fitness to measure: cautions with cause and next step, its sensors, and how steady a core is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from stopwav.errors import Caution
from stopwav.measure.machine import (
    THREAD_VARIABLES,
    clock_step_s,
    cpu_quota,
    heat_throttle_count,
    is_debug_build,
    quota_throttle_count,
    read_text,
    usable_cores,
)
from stopwav.measure.memory import EXACT, host_peak_method
from stopwav.measure.meter import Meter
from stopwav.measure.meters import find_meters, system_batteries
from stopwav.measure.nvml import NoNvml, Nvml, compute_processes, load_nvml, slowed_gpus
from stopwav.measure.other_work import busy_cautions, other_cores_now

# Where a processor is shared, its slow spells last from tenths of a second to seconds.
STEADINESS_S = 2.0
# A millisecond or so of counting: a thousand times the cost of reading the clock.
STEADINESS_COUNT = 50_000
# Ten times the default threshold of a verdict; shared cores were seen to differ by 1.5 to 2 times.
UNSTEADY = 1.1


@dataclass(frozen=True)
class Sensor:
    """A sensor of this machine: whether it is available, and what it measures or why it is missing."""

    name: str
    available: bool
    detail: str


@dataclass(frozen=True)
class Steadiness:
    """How often a small piece of work was repeated on one core, and percentiles of its time."""

    values: int
    p10_s: float
    p50_s: float
    p90_s: float

    def __str__(self) -> str:
        return f"{1e3 * self.p10_s:.2f} to {1e3 * self.p90_s:.2f} ms, P10 to P90 of {self.values} times in one thread"

    def cautions(self) -> list[Caution]:
        """Return a caution where P90 is much longer than P10."""
        if self.p90_s <= UNSTEADY * self.p10_s:
            return []
        message = (
            f"the same work took {self.p90_s / self.p10_s:.2f} times as long at P90 as at P10: the processor is shared "
            "or changes its speed; take more rounds, and compare only inside one run"
        )
        return [Caution("unsteady-core", message)]


def health(
    root: Path = Path("/"),
    nvml: Nvml | NoNvml | None = None,
    environ: Mapping[str, str] = os.environ,
    other_cores: Callable[[], float | None] = other_cores_now,
) -> list[Caution]:
    """Return a caution for everything that would spoil a measurement on this machine now."""
    nvml = load_nvml() if nvml is None else nvml
    return [
        *_gpu_shared(nvml),
        *_gpu_slowed(nvml),
        *busy_cautions(other_cores()),
        *_governor(root),
        *_on_battery(root),
        *_throttled(root),
        *_debug_build(),
        *_low_priority(),
        *_uncompiled(environ),
        *_threads(root, environ),
    ]


def _gpu_shared(nvml: Nvml | NoNvml) -> Iterator[Caution]:
    """Yield a caution for each GPU that other processes compute on."""
    for index, pids in compute_processes(nvml).items():
        others = [pid for pid in pids if pid not in _own_pids()]
        if others:
            named = ", ".join(map(str, others[:3])) + (", …" if len(others) > 3 else "")
            noun = "process computes" if len(others) == 1 else "processes compute"
            yield Caution(
                "gpu-shared",
                f"{len(others)} other {noun} on GPU {index} (process {named}): "
                f"wait for it to end, or choose another GPU with CUDA_VISIBLE_DEVICES",
            )


def _low_priority() -> Iterator[Caution]:
    """Yield a caution where this process gives way to others, as the workers of Ray do."""
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    if niceness > 0:
        yield Caution(
            "low-priority",
            f"this runs with a low priority (nice {niceness}), so whatever else runs slows it down: start it without "
            "nice, and the nodes of Ray with RAY_worker_niceness=0",
        )


def _gpu_slowed(nvml: Nvml | NoNvml) -> Iterator[Caution]:
    """Yield a caution for each GPU that is throttled by heat or power."""
    for index in slowed_gpus(nvml):
        yield Caution(
            "gpu-throttled",
            f"GPU {index} is throttled by heat or lack of power: let it cool (nvidia-smi -q -d PERFORMANCE)",
        )


def _governor(root: Path) -> Iterator[Caution]:
    """Yield a caution when a core's clock follows the load."""
    paths = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    others = sorted({governor for path in paths if (governor := read_text(path)) not in ("performance", "")})
    if others:
        yield Caution(
            "cpu-governor",
            f"CPU governor is {' and '.join(others)}, so the clock follows the load: "
            f"sudo cpupower frequency-set -g performance",
        )


def _on_battery(root: Path) -> Iterator[Caution]:
    """Yield a caution when the machine runs on its battery."""
    batteries = list(system_batteries(root))
    draining = [battery.name for battery in batteries if read_text(battery / "status") == "Discharging"]
    if not batteries and root == Path("/") and _system_says_on_battery():
        draining = ["battery"]
    if draining:
        yield Caution(
            "on-battery", f"{draining[0]} is discharging, and laptops slow down on battery: plug in the charger"
        )


def _throttled(root: Path) -> Iterator[Caution]:
    """Yield cautions when the CPU was throttled before: it may be again."""
    if count := heat_throttle_count(root):
        yield Caution(
            "cpu-throttled",
            f"the CPU was throttled by heat {count} times since boot: let it cool and clear the vents; "
            f"rounds that are throttled are flagged",
        )
    if count := quota_throttle_count(root):
        yield Caution(
            "cpu-quota-exhausted",
            f"this container exhausted its CPU quota {count} times: raise the quota, or use fewer threads",
        )


def _debug_build() -> Iterator[Caution]:
    """Yield a caution when Python was built for debugging."""
    if is_debug_build():
        yield Caution("debug-build", "this Python is a debug build, several times slower: use a release build")


def _uncompiled(environ: Mapping[str, str]) -> Iterator[Caution]:
    """Yield a caution when every fresh process compiles again what it imports."""
    numpy = find_spec("numpy")  # packages installed together mostly have, or lack, bytecode together
    source = numpy.origin if numpy else None
    if environ.get("PYTHONDONTWRITEBYTECODE") and source and not Path(cache_from_source(source)).exists():
        yield Caution(
            "no-bytecode",
            "PYTHONDONTWRITEBYTECODE is set and packages are not compiled, so every fresh process compiles what it "
            "imports, and load times include that: unset it, or compile them once (python -m compileall FOLDER)",
        )


def _threads(root: Path, environ: Mapping[str, str]) -> Iterator[Caution]:
    """Yield cautions when libraries are set to start more threads than there are cores, or will do so by default."""
    cores = usable_cores(root)
    for name in THREAD_VARIABLES:
        threads = environ.get(name, "").split(",")[0].strip()  # OMP_NUM_THREADS may list one number per level
        if threads.isdigit() and int(threads) > cores:
            yield Caution(
                "more-threads-than-cores",
                f"{name}={threads} but {cores:g} usable cores: set it to {max(1, int(cores))} or unset it",
            )
    quota = cpu_quota(root)
    visible = os.cpu_count() or 1
    if quota is not None and quota < visible and "OMP_NUM_THREADS" not in environ:
        yield Caution(
            "quota-below-cores",
            f"the container may use {quota:g} of {visible} cores, but libraries count {visible} and start as many "
            f"threads: set OMP_NUM_THREADS={max(1, int(quota))}",
        )


def _own_pids() -> set[int]:
    """Return the ids of this process and of those it started."""
    import psutil

    return {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}


def _system_says_on_battery() -> bool:
    """Return whether a machine that shows no battery under /sys (a Mac) runs on one."""
    import psutil

    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    return battery is not None and battery.power_plugged is False


def list_sensors(root: Path = Path("/"), nvml: Nvml | NoNvml | None = None) -> list[Sensor]:
    """Return the clock, memory, throttling and energy sensors of this machine, missing ones included."""
    meters = find_meters(root, nvml)
    clock = time.get_clock_info("perf_counter").implementation
    if host_peak_method(root / "proc/self") == EXACT:
        host_peak = "the kernel's high-water mark, reset before each pass"
    else:
        host_peak = "sampled: the kernel's mark cannot be reset, so a short peak may be missed"
    return [
        Sensor("clock", True, f"{clock}, smallest step {clock_step_s() * 1e9:.0f} ns"),
        Sensor("host peak memory", True, host_peak),
        _throttling_sensor(root),
        *(Sensor(f"energy: {meter.source}", True, _metered_parts(meter)) for meter in meters.found),
        *(Sensor(f"energy: {meter.source}", False, meter.reason) for meter in meters.missing),
    ]


def _metered_parts(meter: Meter) -> str:
    sampled = any(map(meter.has_only_power, meter.parts))
    return ", ".join(meter.parts) + (", by sampled power" if sampled else "")


def _throttling_sensor(root: Path) -> Sensor:
    heat, quota = heat_throttle_count(root) is not None, quota_throttle_count(root) is not None
    if not heat and not quota:
        return Sensor(
            "throttling", False, "neither the CPU nor a container counts it, so a throttled round goes unnoticed"
        )
    if not heat:
        detail = "by CPU quota, counted around each round; heat is not counted on this machine"
    else:
        detail = "counted around each round" if quota else "by heat, counted around each round"
    return Sensor("throttling", True, detail)


def steadiness(
    work: Callable[[], object] | None = None, now_ns: Callable[[], int] = time.perf_counter_ns
) -> Steadiness:
    """Measure how steady a core is, by repeating a small piece of work for two seconds."""
    from stopwav.stats import minimum_count, nearest_rank

    values_s: list[float] = []
    begin_ns = end_ns = now_ns()
    while len(values_s) < minimum_count(0.9) or end_ns - begin_ns < STEADINESS_S * 1e9:
        (work or _count)()
        start_ns, end_ns = end_ns, now_ns()
        values_s.append((end_ns - start_ns) / 1e9)
    return Steadiness(len(values_s), *(nearest_rank(values_s, p) for p in (0.1, 0.5, 0.9)))


def _count() -> None:
    for _ in range(STEADINESS_COUNT):
        pass
