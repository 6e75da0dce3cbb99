"""NVIDIA's management library (NVML), where it is installed and finds a driver. It is imported on first use."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

# The Python module has no types. Functions take it as an argument, so that a test can pass a small fake.
Nvml = Any


@dataclass(frozen=True)
class NoNvml:
    """The reason why NVML is not available."""

    reason: str


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU, as the driver names it."""

    name: str
    memory_bytes: int | None
    driver: str


@functools.cache
def load_nvml() -> Nvml | NoNvml:
    """Return the initialised NVML module, or why there is none; cached, since starting it may take long."""
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return NoNvml("nvidia-ml-py is not installed: pip install 'stopwav[nvidia]'")
    return start_nvml(nvml)


def start_nvml(nvml: Nvml) -> Nvml | NoNvml:
    """Initialise the module and return it, or the reason why that failed."""
    try:
        nvml.nvmlInit()
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        return NoNvml(f"NVML does not start ({error}): no NVIDIA GPU, or no driver for it")
    return nvml if count else NoNvml("NVML finds no NVIDIA GPU")


def handles(nvml: Nvml) -> Iterator[tuple[int, Any]]:
    """Yield number and handle of each GPU that responds, in NVML's order; one that fell off the bus does not."""
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            yield index, nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError:
            continue


def list_gpus(nvml: Nvml | NoNvml) -> tuple[Gpu, ...]:
    """Return the NVIDIA GPUs of this machine; none without NVML."""
    if isinstance(nvml, NoNvml):
        return ()
    driver = _text(nvml.nvmlSystemGetDriverVersion())
    gpus = []
    for _, handle in handles(nvml):
        try:
            memory = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
        except nvml.NVMLError:  # chips that share the host's memory have none of their own to report
            memory = None
        gpus.append(Gpu(_text(nvml.nvmlDeviceGetName(handle)), memory, driver))
    return tuple(gpus)


def compute_processes(nvml: Nvml | NoNvml) -> dict[int, list[int]]:
    """Return the ids of the processes that compute on each GPU, by its number."""
    if isinstance(nvml, NoNvml):
        return {}
    return {index: _pids(nvml, handle) for index, handle in handles(nvml)}


def slowed_gpus(nvml: Nvml | NoNvml) -> list[int]:
    """Return the numbers of the GPUs that are throttled now by heat or lack of power."""
    if isinstance(nvml, NoNvml):
        return []
    slowdown = (
        nvml.nvmlClocksThrottleReasonHwSlowdown
        | nvml.nvmlClocksThrottleReasonSwThermalSlowdown
        | nvml.nvmlClocksThrottleReasonHwThermalSlowdown
    )
    return [index for index, handle in handles(nvml) if _throttle_reasons(nvml, handle) & slowdown]


def _throttle_reasons(nvml: Nvml, handle: Any) -> int:
    """Return the throttle reasons of one GPU as bits; 0 where the driver does not report them."""
    try:
        return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    except nvml.NVMLError:
        return 0


def _pids(nvml: Nvml, handle: Any) -> list[int]:
    """Return the ids of the processes that compute on one GPU; none where the driver does not report them."""
    try:
        return [int(process.pid) for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)]
    except nvml.NVMLError:
        return []


def _text(value: str | bytes) -> str:
    """Return a string; versions of the module before 12 return bytes."""
    return value.decode() if isinstance(value, bytes) else value
