"""Peak memory of one pass on a CUDA device: what PyTorch's allocator handed out and kept, and what was in use at all.

Three numbers that are never mixed: the allocator's count is exact and is this process's own; the device's is what the
driver says, CUDA's context, other libraries and other processes included.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass

from stopwav.measure.nvml import NoNvml, load_nvml

# The caching allocator gives nothing back before the pass ends, so the last look sees its peak; looks in between are
# for libraries with allocators of their own.
SAMPLE_EVERY_S = 0.005

BY_NVML = "NVML"
BY_CUDA = "cudaMemGetInfo"


@dataclass(frozen=True)
class CudaMemory:
    """Bytes that PyTorch's allocator has handed out, that it keeps from the device, and that the device has in use."""

    allocated_bytes: int
    reserved_bytes: int
    device_bytes: int


@dataclass(frozen=True)
class CudaPeak:
    """The most of each during one pass, what there was before, and who counted the device's."""

    peak: CudaMemory
    baseline: CudaMemory
    device_method: str


def cuda_memory(device: str = "cuda") -> CudaMemory:
    """What is in use now; blocks that the allocator keeps for nothing are given back first."""
    import torch

    torch.cuda.synchronize(device)
    gc.collect()
    torch.cuda.empty_cache()
    read, _ = _device_reader(device)
    return CudaMemory(torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device), read())


def measure_cuda_peak(call: Callable[[], object], device: str = "cuda", baseline: CudaMemory | None = None) -> CudaPeak:
    """The peaks of one call; the baseline is what is in use just before it, unless one is given."""
    import torch

    before = cuda_memory(device)
    read, method = _device_reader(device)
    torch.cuda.reset_peak_memory_stats(device)
    seen = [before.device_bytes]
    done = threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLE_EVERY_S):
            seen.append(read())

    sampler = threading.Thread(target=sample, name="stopwav-cuda-memory", daemon=True)
    sampler.start()
    try:
        result = call()
        torch.cuda.synchronize(device)
        seen.append(read())
        del result
    finally:
        done.set()
        sampler.join()
    allocated, reserved = torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)
    return CudaPeak(CudaMemory(allocated, reserved, max(seen)), baseline or before, method)


def _device_reader(device: str) -> tuple[Callable[[], int], str]:
    """A call that says how many bytes of the device are in use, and whom it asks."""
    import torch

    nvml = load_nvml()
    if not isinstance(nvml, NoNvml):
        try:
            # By its UUID: NVML counts all GPUs, PyTorch those that CUDA_VISIBLE_DEVICES leaves.
            handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
            return lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used), BY_NVML
        except (nvml.NVMLError, AttributeError):  # a part of a GPU (MIG) has another name there
            pass

    def by_cuda() -> int:
        free, total = torch.cuda.mem_get_info(device)
        return int(total - free)

    return by_cuda, BY_CUDA
