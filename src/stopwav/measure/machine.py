"""What this machine is: enough to say whether two runs can be compared, and nothing that names its owner."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stopwav.measure.cgroup import cpu_quota, memory_limit_bytes, times_held_back
from stopwav.measure.nvml import Gpu, NoNvml, Nvml, list_gpus, load_nvml
from stopwav.measure.sysfile import read_text

# Their versions can move a number. They are looked up in the metadata of the installation, never imported.
PACKAGES = (
    "stopwav",
    "numpy",
    "torch",
    "torchaudio",
    "onnxruntime",
    "pocketsphinx",
    "moonshine-voice",
    "transformers",
    "soundfile",
    "soxr",
    "jiwer",
)

# How many threads the numeric libraries start.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


@dataclass(frozen=True)
class Machine:
    """Hardware, system and software of one machine, without its name."""

    cpu: str
    architecture: str
    logical_cores: int
    physical_cores: int | None
    usable_cores: float  # what affinity and quota leave to this process
    memory_bytes: int
    memory_limit_bytes: int | None
    system: str
    python: str
    debug_build: bool
    virtual_machine: str | None  # what gave it away
    container: str | None
    gpus: tuple[Gpu, ...]
    packages: dict[str, str]
    threads: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits, the same for two runs on the same CPU, cores, memory and GPUs."""
        hardware = [
            self.cpu,
            self.architecture,
            self.logical_cores,
            self.physical_cores,
            self.usable_cores,
            # Firmware and kernel keep a little memory for themselves, and not always the same: whole GiB do not change.
            [None if size is None else round(size / 2**30) for size in (self.memory_bytes, self.memory_limit_bytes)],
            [(gpu.name, gpu.memory_bytes) for gpu in self.gpus],
        ]
        return hashlib.sha256(json.dumps(hardware).encode()).hexdigest()[:12]

    def as_dict(self) -> dict[str, Any]:
        """The same as plain JSON types, with the fingerprint."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return {**plain, "fingerprint": self.fingerprint}


def describe(root: Path = Path("/"), nvml: Nvml | NoNvml | None = None) -> Machine:
    """What this machine is."""
    import psutil

    return Machine(
        cpu=_cpu_model(root),
        architecture=platform.machine(),
        logical_cores=os.cpu_count() or 1,
        physical_cores=psutil.cpu_count(logical=False),
        usable_cores=usable_cores(root),
        memory_bytes=psutil.virtual_memory().total,
        memory_limit_bytes=memory_limit_bytes(root),
        system=_system(root),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        debug_build=is_debug_build(),
        virtual_machine=_virtual_machine(root),
        container=_container(root),
        gpus=list_gpus(load_nvml() if nvml is None else nvml),
        packages=_versions(),
        threads={name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
    )


def usable_cores(root: Path = Path("/")) -> float:
    """Cores this process may use: those it is bound to, or the quota of its container if that is less."""
    # Python 3.13 has os.process_cpu_count; macOS has no affinity at all.
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota(root)
    return float(bound) if quota is None else min(float(bound), quota)


def is_debug_build() -> bool:
    """Whether this Python was built for debugging, which makes it several times slower."""
    return hasattr(sys, "gettotalrefcount")


def heat_throttle_count(root: Path = Path("/")) -> int | None:
    """How often the cores slowed down for heat since the start, or None where nobody counts."""
    counts = [
        int(path.read_text())
        for path in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
    ]
    return sum(counts) if counts else None


def throttle_count(root: Path = Path("/")) -> int | None:
    """A count that rises when the CPU is throttled, by heat or by a container's quota; None where nobody counts.

    Read before and after a round: a difference above zero means that the round was throttled.
    """
    counts = [count for count in (heat_throttle_count(root), times_held_back(root)) if count is not None]
    return sum(counts) if counts else None


def clock_step_s() -> float:
    """The smallest step of the clock that can be seen: how finely a call can be timed, reading it included."""
    readings = [time.perf_counter_ns() for _ in range(1000)]
    steps = [after - before for before, after in itertools.pairwise(readings) if after > before]
    return min(steps) / 1e9 if steps else time.get_clock_info("perf_counter").resolution


def _cpu_model(root: Path) -> str:
    """The model of the CPU, as it names itself."""
    fields = _cpuinfo(root)
    if model := fields.get("model name") or fields.get("Model"):  # Arm boards name the board at most
        return model
    board = read_text(root / "sys/firmware/devicetree/base/model").rstrip("\0")
    return board or _mac_cpu_model() or platform.processor() or platform.machine()


@functools.cache
def _mac_cpu_model() -> str:
    """The model of a Mac's CPU, empty elsewhere."""
    if platform.system() != "Darwin":
        return ""
    asked = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def _cpuinfo(root: Path) -> dict[str, str]:
    """The fields of /proc/cpuinfo of the first core (and what follows the last one, on Arm)."""
    fields: dict[str, str] = {}
    for line in read_text(root / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return fields


def _system(root: Path) -> str:
    """The name of the system and its kernel."""
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}, Darwin {platform.release()}"
    for line in read_text(root / "etc/os-release").splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            distribution = value.strip('"')
            return f"{distribution}, {platform.system()} {platform.release()}"
    return f"{platform.system()} {platform.release()}"


def _virtual_machine(root: Path) -> str | None:
    """What says that this is a virtual machine, or None."""
    if "microsoft" in platform.release().lower():
        return "Windows Subsystem for Linux"
    if kind := read_text(root / "sys/hypervisor/type"):
        return f"hypervisor {kind}"
    if "hypervisor" in _cpuinfo(root).get("flags", "").split():
        maker = read_text(root / "sys/class/dmi/id/sys_vendor")
        return f"the CPU reports a hypervisor{f' ({maker})' if maker else ''}"
    return None


def _container(root: Path) -> str | None:
    """What says that this is a container, or None."""
    if kind := read_text(root / "run/systemd/container"):
        return kind
    marks = {".dockerenv": "docker", "run/.containerenv": "podman"}
    return next((kind for mark, kind in marks.items() if (root / mark).exists()), None)


@functools.cache
def _versions() -> dict[str, str]:
    """The version of each package that is installed and could move a number."""
    from importlib import metadata  # its import takes longer than all else here

    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
