"""The TF32 context restores PyTorch's settings."""

import subprocess
import sys

import pytest

# Settings that a program may have made before; each runs in a process of its own, since they cannot be undone.
SETTINGS = {
    "nothing": "pass",
    "older name": "matmul.allow_tf32 = True",
    "for all": "torch.set_float32_matmul_precision('high')",
    "bf16 for all": "torch.set_float32_matmul_precision('medium')",
    "newer name": "matmul.fp32_precision = 'tf32'",
}
# Forks a process per setting: importing torch takes seconds.
SCRIPT = """
import os, sys, torch
from stopwav.losses.precision import tf32_products

matmul = torch.backends.cuda.matmul

def state():
    values = [getattr(matmul, "fp32_precision", None)]
    for read in (lambda: matmul.allow_tf32, torch.get_float32_matmul_precision):
        try:
            values.append(read())
        except RuntimeError:
            values.append("names disagree")
    return values

def check(setting):
    exec(setting)
    before = state()
    for allowed in (True, False):
        with tf32_products(allowed):
            assert matmul.allow_tf32 is allowed
        assert state() == before, (setting, before, state())

for setting in sys.argv[1:]:
    child = os.fork()
    if not child:
        check(setting)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, setting
"""


def test_tf32_is_set_and_restored() -> None:
    torch = pytest.importorskip("torch")
    settings = dict(SETTINGS)
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        del settings["newer name"]  # this version of PyTorch has only the older one
    done = subprocess.run([sys.executable, "-c", SCRIPT, *settings.values()], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
