"""What a machine can do before anything is measured: its speed by a short probe, and its free memory."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass

from stopwav.studies.budget import time_text

# Of free memory, this share may be planned for: the rest is for what else runs, and for what arithmetic forgets.
USABLE_SHARE = 0.7
# A product of two matrices of this size takes milliseconds on two cores, and is large enough for all of them. It is
# repeated for this long: on a busy machine some are not interrupted.
_PROBE_SIZE, _PROBE_S = 768, 0.4
# Without a probe: what a small data-centre GPU does in float32. Larger ones only end sooner.
CUDA_OPERATIONS_PER_S = 1e13


@dataclass(frozen=True)
class MachineSpeed:
    """Multiplications and additions per second in matrix products, and bytes of memory that are free."""

    operations_per_s: float
    # None where it is not known.
    free_bytes: int | None

    def fits(self, size_bytes: float) -> bool:
        """Whether a size may be planned for."""
        return self.free_bytes is None or size_bytes <= USABLE_SHARE * self.free_bytes

    @property
    def text(self) -> str:
        """The speed and the memory in a few words."""
        memory = "" if self.free_bytes is None else f" and {self.free_bytes / 1e9:.0f} GB free"
        return f"{self.operations_per_s / 1e9:.0f} billion operations/s{memory}"


def round_text(seconds: float, wanted_s: float) -> str:
    """Return what a round of a size that was chosen takes, and whether there was a smaller one to choose."""
    least = "" if seconds <= wanted_s else "the smallest there is, although "
    return f"{least}a round takes about {time_text(seconds)}"


def probe_machine(device: str, limit_gb: float | None = None) -> MachineSpeed:
    """Return the speed and the free memory of a device; a limit of the user's counts as all there is."""
    free_bytes = _free_bytes(device)
    if limit_gb is not None and not device.startswith("cuda"):
        free_bytes = round(min(limit_gb * 1e9, free_bytes or limit_gb * 1e9))
    return MachineSpeed(CUDA_OPERATIONS_PER_S if device.startswith("cuda") else _processor_speed(), free_bytes)


@functools.cache
def _processor_speed() -> float:
    """Operations per second of this machine's processors, by NumPy: PyTorch takes seconds to import."""
    import numpy as np

    matrix = np.ones((_PROBE_SIZE, _PROBE_SIZE), dtype=np.float32)
    matrix @ matrix  # starts the threads
    seconds: list[float] = []
    while sum(seconds) < _PROBE_S:
        start_s = time.perf_counter()
        matrix @ matrix
        seconds.append(time.perf_counter() - start_s)
    # The quickest: two runs on one machine should choose the same size, whatever else runs.
    return 2 * _PROBE_SIZE**3 / min(seconds)


def _free_bytes(device: str) -> int | None:
    if not device.startswith("cuda"):
        import psutil

        return int(psutil.virtual_memory().available)
    from stopwav.measure.nvml import NoNvml, handles, load_nvml

    nvml, number = load_nvml(), int(device.partition(":")[2] or 0)
    if isinstance(nvml, NoNvml):
        return None
    try:
        return next(
            (int(nvml.nvmlDeviceGetMemoryInfo(gpu).free) for index, gpu in handles(nvml) if index == number), None
        )
    except nvml.NVMLError:  # chips that share the host's memory have none of their own to report
        return None
