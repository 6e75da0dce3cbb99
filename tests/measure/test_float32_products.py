"""The precision of float32 products is set and read back, whatever code of others set it to."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from stopwav import StopwavError  # noqa: E402
from stopwav.measure.float32_products import CHANGED, HeldPrecision, current_precision, engine_precision  # noqa: E402

# What packages may do to the setting, by each of its names, and the precision that PyTorch then computes in.
SETTINGS = {
    "pass": "float32",
    "matmul.allow_tf32 = True": "TF32",
    "torch.set_float32_matmul_precision('high')": "TF32",
    "torch.set_float32_matmul_precision('medium')": "TF32 and bfloat16",
}
NEWER_SETTINGS = {
    "matmul.fp32_precision = 'tf32'": "TF32 by settings that disagree",
    "torch.backends.fp32_precision = 'tf32'": "TF32 by settings that disagree",
    "torch.backends.mkldnn.matmul.fp32_precision = 'bf16'": "bfloat16 by settings that disagree",
    "torch.set_float32_matmul_precision('high'); matmul.allow_tf32 = False": "TF32 by settings that disagree",
}
# A process per setting, forked since importing torch takes seconds: some cannot be undone.
SCRIPT = """
import os, sys, torch
from stopwav.measure.float32_products import HeldPrecision, current_precision

matmul = torch.backends.cuda.matmul

def check(setting, expected):
    held = HeldPrecision("a loss", tf32=expected == "float32")
    exec(setting)
    assert current_precision() == expected, current_precision()
    assert held.hold("after an import")
    assert current_precision() == held.name, current_precision()
    assert matmul.allow_tf32 is (held.name == "TF32")
    assert not held.hold("after a call")
    assert [caution.code for caution in held.cautions] == ["precision-changed"]
    assert f"in {expected};" in held.cautions[0].message

for setting, expected in zip(sys.argv[1::2], sys.argv[2::2]):
    child = os.fork()
    if not child:
        check(setting, expected)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, setting
"""


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Leave float32 for the other tests."""
    yield
    torch.set_float32_matmul_precision("highest")


def test_every_way_to_set_it_is_seen_and_undone() -> None:
    settings = dict(SETTINGS)
    if hasattr(torch.backends.cuda.matmul, "fp32_precision"):  # else this version of PyTorch has only the older names
        settings |= NEWER_SETTINGS
    arguments = [text for pair in settings.items() for text in pair]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_first_call_that_changes_it_is_made_again() -> None:
    held, seen = HeldPrecision("a loss"), []

    def call() -> int:
        if not seen:
            torch.set_float32_matmul_precision("high")  # as an import inside it would
        seen.append(current_precision())
        return len(seen)

    assert held.take(call) == 2
    assert seen == ["TF32", "float32"]
    assert held.take(call) == 3
    assert [caution.code for caution in held.cautions] == [CHANGED]


def test_a_call_that_changes_it_each_time_is_refused() -> None:
    held = HeldPrecision("my_loss")
    with pytest.raises(StopwavError, match=r"my_loss changes PyTorch's precision .* not a time in float32"):
        held.take(lambda: torch.set_float32_matmul_precision("high"))
    assert current_precision() == "float32"


@pytest.mark.parametrize(("precision", "name"), [("float32", "float32"), ("TF32", "TF32"), ("tf32, bf16", "TF32")])
def test_an_engine_is_measured_in_the_precision_of_its_description(precision: str, name: str) -> None:
    held = engine_precision("mine", precision)
    torch.set_float32_matmul_precision("high")
    assert held.hold("after the engine was loaded") is (name == "float32")
    assert current_precision() == name


def test_an_engine_without_pytorch_does_not_import_it() -> None:
    code = (
        "import sys; from stopwav.measure.float32_products import HeldPrecision; held = HeldPrecision('an engine'); "
        "assert not held.hold('after a call'); held.check(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
