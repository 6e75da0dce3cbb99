"""PyTorch's settings are left as they were."""

import subprocess
import sys

import pytest

# What a program may have done before; each is tried in a process of its own, as there is no way back.
BEFORE = {
    "nothing": "pass",
    "older name": "matmul.allow_tf32 = True",
    "for all": "torch.set_float32_matmul_precision('high')",
    "bf16 for all": "torch.set_float32_matmul_precision('medium')",
    "newer name": "matmul.fp32_precision = 'tf32'",
}
SCRIPT = """
import torch
from stopwav.losses.precision import tf32_products

matmul = torch.backends.cuda.matmul

def state():
    found = [getattr(matmul, "fp32_precision", None)]
    for read in (lambda: matmul.allow_tf32, torch.get_float32_matmul_precision):
        try:
            found.append(read())
        except RuntimeError:
            found.append("names disagree")
    return found

{before}
was = state()
for allowed in (True, False):
    with tf32_products(allowed):
        assert matmul.allow_tf32 is allowed
    assert state() == was, (was, state())
"""


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_tf32_is_set_and_put_back(before: str) -> None:
    if "fp32_precision" in before:
        torch = pytest.importorskip("torch")
        if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
            pytest.skip("this version of PyTorch has the older name alone")
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(before=before)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
