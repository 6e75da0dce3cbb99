"""The processes of a server on this machine, looked at twice a second: processor time, memory, and GPU memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import psutil

from stopwav.measure.nvml import NoNvml, handles, load_nvml

# Walking through a few processes takes a millisecond or two.
LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class Look:
    """What was seen at a moment of the level: sums over the server's process and all that it started."""

    at_s: float
    processor_s: float
    resident_bytes: int
    gpu_bytes: int | None
    gpu_share: float | None

    def to_json(self) -> list[Any]:
        """Return the fields as a list."""
        return [round(self.at_s, 3), round(self.processor_s, 3), self.resident_bytes, self.gpu_bytes, self.gpu_share]


class ServerWatch:
    """Looks at a server as long as its block lasts; `looks` is empty where there is no process to look at."""

    def __init__(self, pid: int | None, origin_ns: int) -> None:
        self.looks: list[Look] = []
        self._pid, self._origin_ns = pid, origin_ns
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> ServerWatch:
        if self._pid is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        assert self._pid is not None
        processes: dict[int, psutil.Process] = {}
        # A process that ended takes its time with it: what it had used until it was last seen is kept.
        used_s: dict[int, float] = {}
        while True:
            resident_bytes = 0
            for process in _tree(self._pid):
                processes.setdefault(process.pid, process)
                try:
                    times = process.cpu_times()
                    used_s[process.pid] = times.user + times.system
                    resident_bytes += process.memory_info().rss
                except psutil.Error:
                    continue
            at_s = (time.perf_counter_ns() - self._origin_ns) / 1e9
            self.looks.append(Look(at_s, sum(used_s.values()), resident_bytes, *_gpu(set(used_s))))
            if self._ended.wait(LOOK_EVERY_S):
                return


def _tree(pid: int) -> Iterator[psutil.Process]:
    """The process and all that it started."""
    try:
        root = psutil.Process(pid)
        yield root
        yield from root.children(recursive=True)
    except psutil.Error:
        return


def _gpu(pids: set[int]) -> tuple[int | None, float | None]:
    """The GPU memory of these processes, and how busy the GPUs that they use are; None where none uses one."""
    nvml = load_nvml()
    if isinstance(nvml, NoNvml):
        return None, None
    used, shares = 0, []
    for _, handle in handles(nvml):
        try:
            own = [p for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle) if p.pid in pids]
            if own:
                used += sum(int(process.usedGpuMemory or 0) for process in own)
                shares.append(float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100)
        except nvml.NVMLError:
            continue
    return (used, max(shares)) if shares else (None, None)
