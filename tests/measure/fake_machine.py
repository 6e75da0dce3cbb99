"""Machines made for tests: power and time by script, files of /proc and /sys in a folder, and a small NVML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

from stopwav.measure.meter import Counter


class Bench:
    """A machine with scripted power: time passes only when someone sleeps or works, and the counters follow."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.spent: dict[str, float] = {}
        self.idle_w: dict[str, float] = {}
        self.work_w: dict[str, float] = {}
        self.on_advance: list[Callable[[], None]] = []

    def part(self, name: str, idle_w: float, work_w: float) -> None:
        self.spent[name], self.idle_w[name], self.work_w[name] = 0.0, idle_w, work_w

    def perf_counter(self) -> float:
        return self.now_s

    def sleep(self, seconds: float, /) -> None:
        self._advance(seconds, self.idle_w)

    def work(self, seconds: float) -> Callable[[], None]:
        return lambda: self._advance(seconds, self.work_w)

    def _advance(self, seconds: float, watts: dict[str, float]) -> None:
        self.now_s += seconds
        for name in self.spent:
            self.spent[name] += watts[name] * seconds
        for follow in self.on_advance:
            follow()

    def counter(self, name: str) -> Counter:
        return Counter(name, lambda: round(self.spent[name] * 1e6))


def tree(root: Path, files: dict[str, object]) -> Path:
    """A folder with these files in it."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def cgroup_v2(path: str, **files: object) -> dict[str, object]:
    """A version 2 tree with this process in the group at `path`, whose files are given (`cpu_max` for cpu.max)."""
    folder = f"sys/fs/cgroup{path}".rstrip("/")
    inside = {f"{folder}/{name.replace('_', '.', 1)}": text for name, text in files.items()}
    return {"proc/self/cgroup": f"0::{path}", "sys/fs/cgroup/cgroup.procs": "", **inside}


class FakeNvml:
    """As much of NVML as is asked for: GPUs with counters in mJ, processes, and bits that say why one is slow."""

    class NVMLError(Exception):
        pass

    nvmlClocksThrottleReasonHwSlowdown = 0x8
    nvmlClocksThrottleReasonSwThermalSlowdown = 0x20
    nvmlClocksThrottleReasonHwThermalSlowdown = 0x40

    def __init__(self, *energy_mj: int | None, pids: tuple[int, ...] = (), reasons: int = 0) -> None:
        self.energy_mj, self.pids, self.reasons = list(energy_mj), pids, reasons
        self.power_mw: list[int | None] = [100_000] * len(energy_mj)

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> int:
        return len(self.energy_mj)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        energy = self.energy_mj[handle]
        if energy is None:
            raise self.NVMLError("Not Supported")
        return energy

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        power = self.power_mw[handle]
        if power is None:
            raise self.NVMLError("Not Supported")
        return power

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.1"

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "Example GPU"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(total=16 * 2**30)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid) for pid in self.pids]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
        return self.reasons
