"""The likeliest symbols by PyTorch and by the kernel, which is interpreted and compiled where there is no GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from stopwav.models import ring_attention
from stopwav.models.best_symbols import best_symbols, best_symbols_by_sorting, has_kernel


def test_without_a_gpu_there_is_no_kernel() -> None:
    if not torch.cuda.is_available():
        assert not has_kernel()
    logits = torch.tensor([[0.0, 3.0, 1.0, 2.0]])
    blank, best, symbols = best_symbols(logits, 2)
    assert symbols.tolist() == [[1, 2]]
    scores = logits.log_softmax(-1)
    assert torch.equal(best, scores[:, [1, 2]])
    assert torch.equal(blank, scores[:, 3])


@pytest.mark.parametrize("how", ["compile", "interpret"])
def test_the_kernels(how: str) -> None:
    pytest.importorskip("triton")
    script = Path(__file__).parent / "streaming_kernels.py"
    # The script sets the interpreter itself; other tests of this process may have left it on.
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, script, how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert done.stdout == "done\n", done.stderr


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_on_a_gpu(dtype: torch.dtype) -> None:
    assert ring_attention.has_kernel(torch.device("cuda"), dtype, 512, 8, ring_attention.Ring(30, 4, 1))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("count", [1, 5, 10])
def test_the_kernel_on_a_gpu(count: int) -> None:
    assert has_kernel()
    logits = torch.randn(100, 4097, device="cuda")
    for own, their in zip(best_symbols(logits, count), best_symbols_by_sorting(logits, count), strict=True):
        torch.testing.assert_close(own, their)
