"""CUDA peaks against tensors of known size."""

import gc

import pytest

from stopwav.measure.memory import measure_cuda_peak

MIB = 2**20


@pytest.mark.gpu
def test_tensors_of_known_size_come_back_exact() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no CUDA device")
    gc.collect()  # what other tests left is swept by the measurement too
    before = torch.cuda.memory_allocated()
    weights = torch.zeros(10 * MIB // 4, device="cuda")

    def call() -> None:
        first = torch.ones(64 * MIB // 4, device="cuda")
        second = torch.ones(32 * MIB // 4, device="cuda")
        del first, second

    for _ in range(2):
        found = measure_cuda_peak(call)
        assert found.baseline.allocated_bytes - before == weights.numel() * 4
        assert found.peak.allocated_bytes - found.baseline.allocated_bytes == 96 * MIB
        assert found.peak.reserved_bytes >= found.peak.allocated_bytes
        assert found.peak.device_bytes >= found.peak.reserved_bytes
