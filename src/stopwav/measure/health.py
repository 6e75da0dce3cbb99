"""What about this machine would spoil a measurement now: each a caution with its cause and the next step."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.util import cache_from_source, find_spec
from pathlib import Path

from stopwav.errors import Caution
from stopwav.measure.cgroup import cpu_quota, times_held_back
from stopwav.measure.machine import THREAD_VARIABLES, heat_throttle_count, is_debug_build, usable_cores
from stopwav.measure.meters import system_batteries
from stopwav.measure.nvml import NoNvml, Nvml, compute_processes, load_nvml, slowed_gpus
from stopwav.measure.sysfile import read_text

# With more than half the cores busy, what is measured shares caches, memory and clock boost with strangers.
BUSY_SHARE = 0.5


def health(
    root: Path = Path("/"), nvml: Nvml | NoNvml | None = None, environ: Mapping[str, str] = os.environ
) -> list[Caution]:
    """What would spoil a measurement on this machine now; an empty list when nothing would."""
    nvml = load_nvml() if nvml is None else nvml
    return [
        *_gpu_shared(nvml),
        *_gpu_slowed(nvml),
        *_busy(root),
        *_governor(root),
        *_on_battery(root),
        *_throttled(root),
        *_debug_build(),
        *_uncompiled(environ),
        *_threads(root, environ),
    ]


def _gpu_shared(nvml: Nvml | NoNvml) -> Iterator[Caution]:
    """A caution for each GPU that others compute on."""
    for index, pids in compute_processes(nvml).items():
        others = [pid for pid in pids if pid not in _own_pids()]
        if others:
            named = ", ".join(map(str, others[:3])) + (", …" if len(others) > 3 else "")
            noun = "process computes" if len(others) == 1 else "processes compute"
            yield Caution(
                "gpu-shared",
                f"{len(others)} other {noun} on GPU {index} (process {named}): "
                f"wait for the end, or choose another GPU with CUDA_VISIBLE_DEVICES",
            )


def _gpu_slowed(nvml: Nvml | NoNvml) -> Iterator[Caution]:
    """A caution for each GPU below its clock because of heat or power."""
    for index in slowed_gpus(nvml):
        yield Caution(
            "gpu-throttled",
            f"GPU {index} is slowed down by heat or lack of power: let it cool (nvidia-smi -q -d PERFORMANCE)",
        )


def _busy(root: Path) -> Iterator[Caution]:
    """A caution when the load average is more than half the cores."""
    load, cores = _load(root), os.cpu_count() or 1
    if load > BUSY_SHARE * cores:
        yield Caution(
            "busy-machine",
            f"load average {load:.2f}, more than half of {cores} cores: close what runs beside (see top), or wait",
        )


def _governor(root: Path) -> Iterator[Caution]:
    """A caution when a core's clock follows the load."""
    paths = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    others = sorted({governor for path in paths if (governor := read_text(path)) not in ("performance", "")})
    if others:
        yield Caution(
            "cpu-governor",
            f"CPU governor is {' and '.join(others)}, so the clock follows the load: "
            f"sudo cpupower frequency-set -g performance",
        )


def _on_battery(root: Path) -> Iterator[Caution]:
    """A caution when the machine runs on its battery."""
    batteries = list(system_batteries(root))
    draining = [battery.name for battery in batteries if read_text(battery / "status") == "Discharging"]
    if not batteries and root == Path("/") and _system_says_on_battery():
        draining = ["battery"]
    if draining:
        yield Caution(
            "on-battery", f"{draining[0]} is discharging, and laptops slow down on battery: plug in the charger"
        )


def _throttled(root: Path) -> Iterator[Caution]:
    """Cautions when the CPU was throttled before: it may be again."""
    if hot := heat_throttle_count(root):
        yield Caution(
            "cpu-throttled",
            f"the CPU slowed down for heat {hot} times since it started: let it cool and clear the vents; "
            f"rounds that are throttled are flagged",
        )
    if held := times_held_back(root):
        yield Caution(
            "cpu-quota-exhausted",
            f"this container ran out of its CPU quota {held} times: raise the quota, or use fewer threads",
        )


def _debug_build() -> Iterator[Caution]:
    """A caution when Python was built for debugging."""
    if is_debug_build():
        yield Caution("debug-build", "this Python is a debug build, several times slower: use a release build")


def _uncompiled(environ: Mapping[str, str]) -> Iterator[Caution]:
    """A caution when every fresh process compiles anew what it imports."""
    numpy = find_spec("numpy")  # what is true of it is mostly true of all packages that were installed with it
    source = numpy.origin if numpy else None
    if environ.get("PYTHONDONTWRITEBYTECODE") and source and not Path(cache_from_source(source)).exists():
        yield Caution(
            "no-bytecode",
            "PYTHONDONTWRITEBYTECODE is set and packages are not compiled, so every fresh process compiles what it "
            "imports, and load times hold that: unset it, or compile them once (python -m compileall FOLDER)",
        )


def _threads(root: Path, environ: Mapping[str, str]) -> Iterator[Caution]:
    """Cautions when libraries are told, or will by themselves, start more threads than there are cores for."""
    cores = usable_cores(root)
    for name in THREAD_VARIABLES:
        asked = environ.get(name, "").split(",")[0]  # OMP_NUM_THREADS may list one number per level
        if asked.strip().isdigit() and int(asked) > cores:
            yield Caution(
                "more-threads-than-cores",
                f"{name}={asked.strip()} but {cores:g} usable cores: set it to {max(1, int(cores))} or unset it",
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
    """This process and those it started."""
    import psutil

    return {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}


def _load(root: Path) -> float:
    """The load average of the last minute, 0 where there is none."""
    if words := read_text(root / "proc/loadavg").split():
        return float(words[0])
    return os.getloadavg()[0] if root == Path("/") and hasattr(os, "getloadavg") else 0.0


def _system_says_on_battery() -> bool:
    """Whether a machine that shows no battery under /sys (a Mac) runs on one."""
    import psutil

    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    return battery is not None and battery.power_plugged is False
