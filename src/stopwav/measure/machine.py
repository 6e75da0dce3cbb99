"""A description of this machine: enough to tell whether two runs can be compared, nothing that identifies its owner."""

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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stopwav.measure.nvml import Gpu, NoNvml, Nvml, list_gpus, load_nvml

# Packages whose version can change a number: those of every engine and loss (a test holds the list to theirs), and what
# they and stopwav compute with. It is read from the installed metadata; nothing is imported.
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
    "rapidfuzz",
    # Engines.
    "speechbrain",
    "faster-whisper",
    "ctranslate2",
    "sherpa-onnx",
    "vosk",
    "sentencepiece",
    # Losses.
    "k2",
    "fast_rnnt",
    "optimized_transducer",
    "warprnnt_pytorch",
    "warp_rnnt",
    "warprnnt_numba",
    "nemo_toolkit",
    "numba",
    "triton",
)

# They set how many threads the numeric libraries start.
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
    usable_cores: float  # after affinity and quota
    memory_bytes: int
    memory_limit_bytes: int | None
    system: str
    python: str
    debug_build: bool
    virtual_machine: str | None  # how it was recognised
    container: str | None
    gpus: tuple[Gpu, ...]
    packages: dict[str, str]
    threads: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that are the same for the same CPU, cores, memory and GPUs."""
        hardware = [
            self.cpu,
            self.architecture,
            self.logical_cores,
            self.physical_cores,
            self.usable_cores,
            # Firmware and kernel reserve a little memory, not always the same amount: whole GiB do not change.
            [None if size is None else round(size / 2**30) for size in (self.memory_bytes, self.memory_limit_bytes)],
            [(gpu.name, gpu.memory_bytes) for gpu in self.gpus],
        ]
        return hashlib.sha256(json.dumps(hardware).encode()).hexdigest()[:12]

    def as_dict(self) -> dict[str, Any]:
        """Return the description as plain JSON types, with the fingerprint."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return {**plain, "fingerprint": self.fingerprint}


def describe(root: Path = Path("/"), nvml: Nvml | NoNvml | None = None) -> Machine:
    """Describe this machine."""
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
    """Return the cores that this process may use: those it is bound to, or its container's quota if that is less."""
    # Python 3.13 has os.process_cpu_count; macOS has no affinity at all.
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota(root)
    return float(bound) if quota is None else min(float(bound), quota)


def is_debug_build() -> bool:
    """Return whether this Python was built for debugging, which makes it several times slower."""
    return hasattr(sys, "gettotalrefcount")


def heat_throttle_count(root: Path = Path("/")) -> int | None:
    """Return how often the cores were throttled by heat since boot, or None where that is not counted."""
    counts = [
        int(path.read_text())
        for path in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
    ]
    return sum(counts) if counts else None


def throttle_count(root: Path = Path("/")) -> int | None:
    """Return how often the CPU was throttled, by heat or by a container's quota; None where neither is counted.

    Read it before and after a round: a difference above zero means that the round was throttled.
    """
    counts = [count for count in (heat_throttle_count(root), quota_throttle_count(root)) if count is not None]
    return sum(counts) if counts else None


def clock_step_s() -> float:
    """Return the smallest step of the clock that can be observed, the cost of reading it included."""
    readings = [time.perf_counter_ns() for _ in range(1000)]
    steps = [after - before for before, after in itertools.pairwise(readings) if after > before]
    return min(steps) / 1e9 if steps else time.get_clock_info("perf_counter").resolution


def _cpu_model(root: Path) -> str:
    """Return the model name that the CPU reports."""
    fields = _cpuinfo(root)
    if model := fields.get("model name") or fields.get("Model"):  # Arm boards name the board at most
        return model
    board = read_text(root / "sys/firmware/devicetree/base/model").rstrip("\0")
    return board or _mac_cpu_model() or platform.processor() or platform.machine()


@functools.cache
def _mac_cpu_model() -> str:
    """Return the model of a Mac's CPU; empty elsewhere."""
    if platform.system() != "Darwin":
        return ""
    sysctl = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False)
    return sysctl.stdout.strip()


def _cpuinfo(root: Path) -> dict[str, str]:
    """Return the fields of /proc/cpuinfo of the first core (and, on Arm, those after the last one)."""
    fields: dict[str, str] = {}
    for line in read_text(root / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return fields


def _system(root: Path) -> str:
    """Return the name of the system and its kernel."""
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}, Darwin {platform.release()}"
    for line in read_text(root / "etc/os-release").splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            distribution = value.strip('"')
            return f"{distribution}, {platform.system()} {platform.release()}"
    return f"{platform.system()} {platform.release()}"


def _virtual_machine(root: Path) -> str | None:
    """Return the evidence that this is a virtual machine, or None."""
    if "microsoft" in platform.release().lower():
        return "Windows Subsystem for Linux"
    if kind := read_text(root / "sys/hypervisor/type"):
        return f"hypervisor {kind}"
    if "hypervisor" in _cpuinfo(root).get("flags", "").split():
        maker = read_text(root / "sys/class/dmi/id/sys_vendor")
        return f"the CPU reports a hypervisor{f' ({maker})' if maker else ''}"
    return None


def _container(root: Path) -> str | None:
    """Return the kind of container that this runs in, or None."""
    if kind := read_text(root / "run/systemd/container"):
        return kind
    marks = {".dockerenv": "docker", "run/.containerenv": "podman"}
    return next((kind for mark, kind in marks.items() if (root / mark).exists()), None)


@functools.cache
def _versions() -> dict[str, str]:
    """Return the version of each installed package that could change a number."""
    from importlib import metadata  # slow to import

    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


# Version 1 writes "no limit" as the largest page-aligned 64-bit number.
UNLIMITED_BYTES = 2**60


def read_text(path: Path) -> str:
    """Return a file's text, stripped; empty where the file is missing or unreadable."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return the number of cores that the tightest group allows, or None without a quota."""
    quotas = []
    for group in _groups(root, "cpu"):
        if words := _words(group, "cpu.max"):  # version 2: "200000 100000" or "max 100000"
            quota, period = words[0], words[1]
        else:
            quota_words, period_words = _words(group, "cpu.cfs_quota_us"), _words(group, "cpu.cfs_period_us")
            quota = quota_words[0] if quota_words else "-1"
            period = period_words[0] if period_words else "100000"
        if quota not in ("max", "-1"):
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_limit_bytes(root: Path = Path("/")) -> int | None:
    """Return the bytes that the tightest group allows, or None without a limit."""
    limits = []
    for group in _groups(root, "memory"):
        words = _words(group, "memory.max") or _words(group, "memory.limit_in_bytes")
        if words and words[0] != "max" and int(words[0]) < UNLIMITED_BYTES:
            limits.append(int(words[0]))
    return min(limits, default=None)


def quota_throttle_count(root: Path = Path("/")) -> int | None:
    """Return how often this group or a parent exhausted its CPU quota, or None where that is not counted."""
    counts = []
    for group in _groups(root, "cpu"):
        words = _words(group, "cpu.stat")
        if "nr_throttled" in words:
            counts.append(int(words[words.index("nr_throttled") + 1]))
    return sum(counts) if counts else None


def oom_kill_count(root: Path = Path("/")) -> int:
    """Return how many processes of this group the kernel has killed for memory; 0 where that is not counted."""
    for group in _groups(root, "memory"):  # the innermost that counts: its parents count other groups' processes too
        words = _words(group, "memory.events") or _words(group, "memory.oom_control")  # version 2, version 1
        if "oom_kill" in words:
            return int(words[words.index("oom_kill") + 1])
    return 0


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's group and its parents that have the controller, innermost first."""
    mount = root / "sys/fs/cgroup"
    for line in read_text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        # An empty list of controllers is version 2, mounted at the top, or under "unified" next to version 1.
        names = [controllers, controller] if controllers else [".", "unified"]
        base = next((mount / name for name in names if (mount / name / "cgroup.procs").exists()), None)
        if base is None:
            continue
        # Inside a container the path may name folders that only the host sees: missing ones are skipped.
        group = base / path.strip("/")
        chain = [group, *group.parents]
        yield from (folder for folder in chain[: chain.index(base) + 1] if folder.is_dir())


def _words(group: Path, name: str) -> list[str]:
    """Return the words of a group's file, none where it cannot be read."""
    return read_text(group / name).split()
