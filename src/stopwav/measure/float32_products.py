"""PyTorch's precision of float32 matrix products: set when everything is imported, and read back after calls.

It is one setting for a whole process. Importing a package may change it, as SpeechBrain's import switches TF32 on, and
float32 then means TF32 for every model of the process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from stopwav.errors import Caution, StopwavError

T = TypeVar("T")

# The code of the warning about code that changed the setting.
CHANGED = "precision-changed"
# What PyTorch's names for the setting call each precision. `highest`, `high` and `medium` are those of the oldest name.
_NAMES = {
    "none": "float32",
    "ieee": "float32",
    "highest": "float32",
    False: "float32",
    "tf32": "TF32",
    "high": "TF32",
    True: "TF32",
    "bf16": "bfloat16",
    "medium": "bfloat16",
}


class HeldPrecision:
    """The precision in which a process computes float32 products, whatever the code that it measures sets."""

    def __init__(self, subject: str, *, tf32: bool = False, way_out: str = "") -> None:
        self._subject, self._tf32, self._way_out = subject, tf32, way_out
        # What is to be said of the code: how it changed the precision, each way once.
        self.cautions: list[Caution] = []

    @property
    def name(self) -> str:
        """The precision that is held."""
        return "TF32" if self._tf32 else "float32"

    def hold(self, when: str) -> bool:
        """Set the precision, read it back, and return whether it was another; `when` says what has just ended."""
        torch: Any = sys.modules.get("torch")
        if torch is None:  # whatever is measured does not compute with PyTorch
            return False
        before = current_precision()
        if before == self.name:
            return False
        # It sets the newer names too, those of the CPU included.
        torch.set_float32_matmul_precision("high" if self._tf32 else "highest")
        if current_precision() != self.name:
            raise StopwavError(
                f"{self._subject}: PyTorch computes float32 products in {current_precision()} although {self.name} "
                "was set; start it without the environment variables and settings that force another precision"
            )
        message = f"{when}, PyTorch computed float32 products in {before}; it is measured in {self.name}"
        caution = Caution(CHANGED, message + (f"; {self._way_out}" if self._way_out else ""))
        if caution not in self.cautions:
            self.cautions.append(caution)
        return True

    def take(self, call: Callable[[], T]) -> T:
        """Return what a call returns, taken in this precision.

        A first call may import more and so change it: it is set again, and the call made once more.
        """
        result = call()
        if self.hold("after a first call"):
            result = call()
            self.check()
        return result

    def check(self) -> None:
        """Raise where the code that was measured changed the precision: its numbers are then of another one."""
        if self.hold("after a call"):
            raise StopwavError(
                f"{self._subject} changes PyTorch's precision of float32 products in its calls: what they took is not "
                f"a time in {self.name}; let it change that when it loads"
            )

    def said(self) -> list[list[str]]:
        """Return the warnings as a run file holds them."""
        return [[caution.code, caution.message] for caution in self.cautions]


def engine_precision(engine: str, precision: str) -> HeldPrecision:
    """Return the precision in which an engine is measured: float32, unless its description says TF32."""
    way_out = "an engine whose description names tf32 as its precision is measured in TF32"
    return HeldPrecision(f"engine {engine!r}", tf32="tf32" in precision.lower(), way_out=way_out)


def current_precision() -> str:
    """Return the precision of float32 products here: `float32`, `TF32`, `bfloat16`, or more than one of them.

    PyTorch has older and newer names for it. Where they disagree it refuses to say, and may refuse to multiply.
    """
    import torch

    matmul: Any = torch.backends.cuda.matmul
    on_cpu: Any = getattr(torch.backends.mkldnn, "matmul", None)
    settings = [getattr(matmul, "fp32_precision", "none"), getattr(on_cpu, "fp32_precision", "none")]
    doubt = ""
    for read in (lambda: matmul.allow_tf32, torch.get_float32_matmul_precision):
        try:
            settings.append(read())
        except RuntimeError:
            doubt = " by settings that disagree"
    names = {_NAMES.get(setting, str(setting)) for setting in settings}
    return (" and ".join(sorted(names - {"float32"})) or "float32") + doubt
