"""Peak memory of one pass, and a limit to host memory.

Four numbers that are never mixed: the host's resident memory; what PyTorch's CUDA allocator has handed out (allocated)
and taken from the device (reserved), which is exact and this process's own; and the device memory in use by the
driver's count, which includes CUDA's context, other libraries and other processes.
"""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.measure.machine import read_text

PROC = Path("/proc/self")

# The kernel resets the mark to what is resident now, but its page counters are batched per core, so the two may
# differ by a little. More than this between them means that the reset did nothing (gVisor, some containers).
RESET_SLACK_BYTES = 4 * 2**20

# Sampling is needed where the host's mark cannot be reset, and for device memory outside PyTorch's allocator (which
# returns nothing during a pass): often enough for a pass of a tenth of a second, at under 1 % of a core.
SAMPLE_EVERY_S = 0.005

EXACT = "high-water mark"
RAISED = "lifetime high-water mark, raised by this pass"
SAMPLED = "sampled"

BY_NVML = "NVML"
BY_CUDA = "cudaMemGetInfo"


@dataclass(frozen=True)
class HostPeak:
    """The most memory that this process had resident during one pass, and what it had before."""

    peak_bytes: int
    baseline_bytes: int
    method: str
    note: str | None = None

    @property
    def over_baseline_bytes(self) -> int:
        """The peak minus the baseline; negative when the pass stayed below it."""
        return self.peak_bytes - self.baseline_bytes


@dataclass(frozen=True)
class CudaMemory:
    """Bytes that PyTorch's allocator has handed out, that it has reserved, and that are in use on the device."""

    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int


@dataclass(frozen=True)
class CudaPeak:
    """The peak of each number during one pass, its baseline, and how the device's was read."""

    peak: CudaMemory
    baseline: CudaMemory
    device_method: str


def host_resident_bytes(proc: Path = PROC) -> int:
    """Return the resident memory of this process now."""
    resident = status_bytes(proc, "VmRSS")
    if resident is not None:
        return resident
    import psutil  # only where there is no /proc: a worker that measures memory should not carry it

    return int(psutil.Process().memory_info().rss)


def host_baseline_bytes(proc: Path = PROC) -> int:
    """Return the resident memory of this process after freeing garbage and unused heap.

    Loading leaves much of both, and a pass frees them before it begins: counted here, the pass could end below them.
    """
    release_memory()
    return host_resident_bytes(proc)


def host_peak_method(proc: Path = PROC) -> str:
    """Return how a peak is measured here: exactly, by a mark that can be reset, or by sampling."""
    return EXACT if reset_mark(proc) else SAMPLED


def measure_host_peak(call: Callable[[], object], baseline_bytes: int | None = None, proc: Path = PROC) -> HostPeak:
    """Measure the host peak of one call; the baseline is the memory just before it, unless one is given.

    Pass the `host_baseline_bytes` read right after the model was loaded to get the peak over that.
    """
    release_memory()
    exact = reset_mark(proc)
    baseline = host_resident_bytes(proc) if baseline_bytes is None else baseline_bytes
    if not exact:
        return _peak_without_reset(call, baseline, proc)
    result = call()
    peak = status_bytes(proc, "VmHWM")
    del result  # kept until the mark was read, so that what the call returns is counted
    assert peak is not None, "VmHWM was there a moment ago"
    return HostPeak(peak, baseline, EXACT)


@dataclass(frozen=True)
class PeakMark:
    """The kernel's high-water mark as it was set before a call: reading it afterwards costs the call nothing."""

    was_reset: bool
    before_bytes: int
    proc: Path

    def peak(self, baseline_bytes: int) -> HostPeak | None:
        """Return the peak since the mark was set; None where it cannot be reset and nothing since has raised it."""
        if self.was_reset:
            peak = status_bytes(self.proc, "VmHWM")
            return None if peak is None else HostPeak(peak, baseline_bytes, EXACT)
        raised = lifetime_peak_bytes()
        return HostPeak(raised, baseline_bytes, RAISED) if raised > self.before_bytes else None


def set_peak_mark(proc: Path = PROC) -> PeakMark:
    """Set the high-water mark to what is resident now, where the kernel allows it."""
    return PeakMark(reset_mark(proc), lifetime_peak_bytes(), proc)


def limit_host_memory(limit_bytes: int) -> None:
    """Limit this process's memory, including what it already has: allocations beyond it fail from now on.

    The limit is on private writable memory, not on address space: CUDA, allocators and thread stacks reserve far more
    address space than they use.
    """
    if sys.platform != "linux":
        raise StopwavError(f"a memory limit is not supported on {sys.platform}: only Linux enforces one; leave it out")
    limit_bytes = min(limit_bytes, sys.maxsize)
    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))


def _peak_without_reset(call: Callable[[], object], baseline_bytes: int, proc: Path) -> HostPeak:
    """Return the peak where the kernel's mark cannot be reset: exact if this pass raised it, sampled otherwise."""
    mark_before = lifetime_peak_bytes()
    with _sampled(lambda: host_resident_bytes(proc)) as samples:
        result = call()
        samples.append(host_resident_bytes(proc))
        del result
    mark_after = lifetime_peak_bytes()
    if mark_after > mark_before:
        return HostPeak(max(mark_after, *samples), baseline_bytes, RAISED)
    note = (
        f"the peak mark cannot be reset here: highest of {len(samples)} samples, {SAMPLE_EVERY_S * 1000:g} ms apart or "
        f"more, so a shorter peak may be missed"
    )
    return HostPeak(max(samples), baseline_bytes, SAMPLED, note)


def reset_mark(proc: Path) -> bool:
    """Reset the peak mark to what is resident now, and return whether that worked."""
    try:
        # 5 is the kernel's code for "reset the peak resident set size" and touches nothing else.
        (proc / "clear_refs").write_text("5")
    except OSError:
        return False
    peak, resident = status_bytes(proc, "VmHWM"), status_bytes(proc, "VmRSS")
    return peak is not None and resident is not None and peak - resident <= RESET_SLACK_BYTES


def status_bytes(proc: Path, key: str) -> int | None:
    """Return a line of /proc/self/status in bytes, or None where there is no such file or line."""
    for line in read_text(proc / "status").splitlines():
        name, _, value = line.partition(":")
        if name == key:
            return int(value.split()[0]) * 1024  # "kB" in this file is 1024 bytes
    return None


def lifetime_peak_bytes() -> int:
    """Return the most memory that this process ever had resident."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux KiB


def cuda_memory(device: str = "cuda") -> CudaMemory:
    """Return the memory in use on a CUDA device, after releasing the allocator's unused blocks."""
    import torch

    torch.cuda.synchronize(device)
    gc.collect()
    torch.cuda.empty_cache()
    read_bytes, _ = _device_reader(device)
    return CudaMemory(torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device), read_bytes())


def measure_cuda_peak(call: Callable[[], object], device: str = "cuda", baseline: CudaMemory | None = None) -> CudaPeak:
    """Measure the CUDA peaks of one call; the baseline is the memory just before it, unless one is given."""
    import torch

    before = cuda_memory(device)
    read_bytes, method = _device_reader(device)
    torch.cuda.reset_peak_memory_stats(device)
    with _sampled(read_bytes) as samples:
        result = call()
        torch.cuda.synchronize(device)
        samples.append(read_bytes())
        del result
    allocated, reserved = torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)
    return CudaPeak(CudaMemory(allocated, reserved, max(samples)), baseline or before, method)


def _device_reader(device: str) -> tuple[Callable[[], int], str]:
    """Return a function that reads the bytes in use on the device, and the name of its source."""
    import torch

    from stopwav.measure.nvml import NoNvml, load_nvml

    nvml = load_nvml()
    if not isinstance(nvml, NoNvml):
        try:
            # By its UUID: NVML counts all GPUs, PyTorch only those in CUDA_VISIBLE_DEVICES.
            handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
            return lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used), BY_NVML
        except (nvml.NVMLError, AttributeError):  # a part of a GPU (MIG) has another name there
            pass

    def read_bytes() -> int:
        free, total = torch.cuda.mem_get_info(device)
        return int(total - free)

    return read_bytes, BY_CUDA


@contextmanager
def _sampled(read_bytes: Callable[[], int]) -> Iterator[list[int]]:
    """Yield a list of readings to which a thread adds while the block runs."""
    samples = [read_bytes()]
    done = threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLE_EVERY_S):
            samples.append(read_bytes())

    sampler = threading.Thread(target=sample, name="stopwav-memory", daemon=True)
    sampler.start()
    try:
        yield samples
    finally:
        done.set()
        sampler.join()


def release_memory() -> None:
    """Run the garbage collector and return memory to the system, so that what comes next is independent of it."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it; musl and macOS do not
    if trim is not None:
        trim(0)
