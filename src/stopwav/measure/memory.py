"""Peak memory of one pass on the host, and a limit to it. An allocator's and a device's peaks are other numbers."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.measure.sysfile import read_text

PROC = Path("/proc/self")

# The kernel resets the mark to what is resident now, but its page counters are batched per core, so the two may
# differ by a little. More than this between them means that the reset did nothing (gVisor, some containers).
RESET_SLACK_BYTES = 4 * 2**20

# Where the mark cannot be reset, resident memory is sampled this often: often enough for a pass of a tenth of a second,
# seldom enough to take under 1 % of a core.
SAMPLE_EVERY_S = 0.005

EXACT = "high-water mark"
RAISED = "lifetime high-water mark, raised by this pass"
SAMPLED = "sampled"


@dataclass(frozen=True)
class HostPeak:
    """The most memory this process had resident during one pass, and what it had before."""

    peak_bytes: int
    baseline_bytes: int
    method: str
    note: str | None = None

    @property
    def over_baseline_bytes(self) -> int:
        """What the pass needed on top of the baseline; negative when it never came back up to it."""
        return self.peak_bytes - self.baseline_bytes


def host_resident_bytes(proc: Path = PROC) -> int:
    """Bytes of this process that are in memory now."""
    resident = status_bytes(proc, "VmRSS")
    if resident is not None:
        return resident
    import psutil  # only where there is no /proc: a worker that measures memory should not carry it

    return int(psutil.Process().memory_info().rss)


def host_baseline_bytes(proc: Path = PROC) -> int:
    """Bytes of this process that are in memory now, once garbage and free heap have gone back to the system.

    Loading leaves much of both, and a pass gives them back before it begins: counted, the pass could end below them.
    """
    _give_back_free_memory()
    return host_resident_bytes(proc)


def host_peak_method(proc: Path = PROC) -> str:
    """How a peak would be taken here: exactly, from a mark that can be reset, or by sampling."""
    return EXACT if reset_mark(proc) else SAMPLED


def measure_host_peak(call: Callable[[], object], baseline_bytes: int | None = None, proc: Path = PROC) -> HostPeak:
    """The host peak of one call; the baseline is what is resident just before it, unless one is given.

    Give the `host_baseline_bytes` noted right after the model was loaded to have the peak over that.
    """
    _give_back_free_memory()
    exact = reset_mark(proc)
    baseline = host_resident_bytes(proc) if baseline_bytes is None else baseline_bytes
    if not exact:
        return _peak_without_reset(call, baseline, proc)
    result = call()
    peak = status_bytes(proc, "VmHWM")
    del result  # held until the mark was read, so that what the call returns is counted
    assert peak is not None, "VmHWM was there a moment ago"
    return HostPeak(peak, baseline, EXACT)


def limit_host_memory(limit_bytes: int) -> None:
    """Nothing, but from now on this process fails to allocate beyond the limit, all that it holds already included.

    What is limited is its private writable memory. The address space would be the wrong thing: CUDA, allocators and
    thread stacks reserve far more of it than they ever use.
    """
    if sys.platform != "linux":
        raise StopwavError(f"a memory limit cannot be set on {sys.platform}: only Linux enforces one; leave it out")
    limit_bytes = min(limit_bytes, sys.maxsize)
    resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes))


def _peak_without_reset(call: Callable[[], object], baseline_bytes: int, proc: Path) -> HostPeak:
    """The peak where the kernel's mark cannot be reset: exact if this pass raised it, sampled otherwise."""
    mark_before = lifetime_peak_bytes()
    samples = [host_resident_bytes(proc)]
    done = threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLE_EVERY_S):
            samples.append(host_resident_bytes(proc))

    sampler = threading.Thread(target=sample, name="stopwav-memory", daemon=True)
    sampler.start()
    try:
        result = call()
        samples.append(host_resident_bytes(proc))
        del result
    finally:
        done.set()
        sampler.join()
    mark_after = lifetime_peak_bytes()
    if mark_after > mark_before:
        return HostPeak(max(mark_after, *samples), baseline_bytes, RAISED)
    note = (
        f"the peak mark cannot be reset here: highest of {len(samples)} samples, {SAMPLE_EVERY_S * 1000:g} ms apart or "
        f"more, so a shorter peak may be missed"
    )
    return HostPeak(max(samples), baseline_bytes, SAMPLED, note)


def reset_mark(proc: Path) -> bool:
    """Whether the peak mark was set back to what is resident now."""
    try:
        # 5 is the kernel's code for "reset the peak resident set size" and touches nothing else.
        (proc / "clear_refs").write_text("5")
    except OSError:
        return False
    peak, resident = status_bytes(proc, "VmHWM"), status_bytes(proc, "VmRSS")
    return peak is not None and resident is not None and peak - resident <= RESET_SLACK_BYTES


def status_bytes(proc: Path, key: str) -> int | None:
    """A line of /proc/self/status in bytes, or None where there is no such file or line."""
    for line in read_text(proc / "status").splitlines():
        name, _, value = line.partition(":")
        if name == key:
            return int(value.split()[0]) * 1024  # "kB" in this file is 1024 bytes
    return None


def lifetime_peak_bytes() -> int:
    """The most this process ever had resident."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, Linux KiB


def _give_back_free_memory() -> None:
    """Nothing, but garbage and free heap of earlier passes go back to the system, so that passes are independent."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it; musl and macOS do not
    if trim is not None:
        trim(0)
