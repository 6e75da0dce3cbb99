"""Transducer losses: stopwav's own, usable alone, and the oracle that every loss is checked against.

    from stopwav.losses import transducer_loss

Names are imported when they are first used, so that listing the losses does not import torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stopwav.losses.fused import transducer_loss
    from stopwav.losses.lattice import Alignment, align, transducer_lattice_loss
    from stopwav.losses.oracle import oracle_loss, plain_loss

_LAZY = {
    "Alignment": "stopwav.losses.lattice",
    "align": "stopwav.losses.lattice",
    "oracle_loss": "stopwav.losses.oracle",
    "plain_loss": "stopwav.losses.oracle",
    "transducer_lattice_loss": "stopwav.losses.lattice",
    "transducer_loss": "stopwav.losses.fused",
}

__all__ = [
    "Alignment",
    "align",
    "oracle_loss",
    "plain_loss",
    "transducer_lattice_loss",
    "transducer_loss",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'stopwav.losses' has no attribute {name!r}")
    import importlib

    from stopwav.errors import StopwavError

    try:
        return getattr(importlib.import_module(_LAZY[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise StopwavError(f"{name} needs PyTorch; install it with pip install 'stopwav[torch]'") from None
