"""Losses by name: `NAME[,key=value…]`, or a function of the user's own as `my_loss.py:my_loss`."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError, suggestion
from stopwav.losses.contender import Contender, Needs

_HERE = "stopwav.losses"


@dataclass(frozen=True)
class Listed:
    """A loss that can be named: its adapter, the packages any one of which it needs, how to get it, what it needs."""

    name: str
    target: str
    packages: tuple[str, ...]
    install: str
    needs: Needs
    summary: str

    @property
    def version(self) -> str | None:
        """The package that is installed, with its version; `None` where none is."""
        for package in self.packages:
            try:
                return f"{package} {importlib.metadata.version(package)}"
            except importlib.metadata.PackageNotFoundError:
                continue
        return None


class MissingLoss(StopwavError):
    """A loss whose package is not installed."""


_INT32 = Needs(integers="int32", in_place_gradients=True)
_CUDA = replace(_INT32, log_softmax="outside", devices=("cuda",), dtypes=("float32",))
_TORCH = "pip install 'stopwav[torch]'"
# warp-transducer and the packages of k2's authors are compiled against the PyTorch that is installed.
_FROM_SOURCE = "build it against your PyTorch, as its README says"

BUILT_IN = (
    Listed(
        "oracle",
        f"{_HERE}.oracle:oracle_loss",
        ("torch",),
        _TORCH,
        Needs(dtypes=("float32", "float64", "bfloat16", "float16")),
        "float64 and plain: what the others are checked against",
    ),
    Listed(
        "torch",
        f"{_HERE}.plain:plain_loss",
        ("torch",),
        _TORCH,
        Needs(dtypes=("float32", "float64", "bfloat16", "float16")),
        "stopwav's own in plain PyTorch, any device",
    ),
    Listed(
        "fused",
        f"{_HERE}.fused_contender:fused_contender",
        ("torch",),
        _TORCH,
        Needs(logits="joiner"),
        "stopwav's own, joiner and loss in one: no logits are kept",
    ),
    Listed(
        "torchaudio",
        f"{_HERE}.torchaudio_loss:torchaudio_loss",
        ("torchaudio",),
        "pip install torchaudio",
        # Offsets of 32 bits: github.com/pytorch/audio/issues/4215.
        replace(_INT32, dtypes=("float32", "float16"), most_logits=2**31),
        "torchaudio.functional.rnnt_loss",
    ),
    Listed(
        "k2",
        f"{_HERE}.k2_loss:k2_loss",
        ("k2", "fast_rnnt"),
        f"pip install k2, or fast_rnnt ({_FROM_SOURCE})",
        Needs(),
        "k2.rnnt_loss, or fast_rnnt's",
    ),
    Listed(
        "k2-pruned",
        f"{_HERE}.k2_loss:PrunedLoss",
        ("k2", "fast_rnnt"),
        f"pip install k2, or fast_rnnt ({_FROM_SOURCE})",
        Needs(logits="joiner", pruned="simple loss, then pruned logits"),
        "k2's simple + pruned loss; range=5 symbols a frame",
    ),
    Listed(
        "optimized-transducer",
        f"{_HERE}.optimized_transducer_loss:optimized_transducer_loss",
        ("optimized_transducer",),
        f"pip install optimized_transducer ({_FROM_SOURCE})",
        replace(_INT32, logits="packed", dtypes=("float32",)),
        "optimized_transducer.transducer_loss",
    ),
    Listed(
        "warp-transducer",
        f"{_HERE}.warp_transducer_loss:warp_transducer_loss",
        ("warprnnt_pytorch",),
        f"github.com/HawkAaron/warp-transducer: {_FROM_SOURCE}",
        replace(_INT32, dtypes=("float32",)),
        "warprnnt_pytorch.rnnt_loss",
    ),
    Listed(
        "warp-rnnt",
        f"{_HERE}.warp_rnnt_loss:warp_rnnt_loss",
        ("warp_rnnt",),
        "pip install warp_rnnt (needs nvcc)",
        _CUDA,
        "warp_rnnt.rnnt_loss",
    ),
    Listed(
        "warp-rnnt-gather",
        f"{_HERE}.warp_rnnt_loss:warp_rnnt_gather_loss",
        ("warp_rnnt",),
        "pip install warp_rnnt (needs nvcc)",
        _CUDA,
        "the same with gather=True",
    ),
    Listed(
        "warp-rnnt-compact",
        f"{_HERE}.warp_rnnt_loss:warp_rnnt_compact_loss",
        ("warp_rnnt",),
        "pip install warp_rnnt (needs nvcc)",
        replace(_CUDA, logits="packed"),
        "the same with compact=True",
    ),
    Listed(
        "warprnnt-numba",
        f"{_HERE}.warprnnt_numba_loss:warprnnt_numba_loss",
        ("warprnnt_numba",),
        "pip install warprnnt_numba",
        replace(_INT32, dtypes=("float32",)),
        "warprnnt_numba.RNNTLossNumba",
    ),
    Listed(
        "speechbrain",
        f"{_HERE}.speechbrain_loss:speechbrain_loss",
        ("speechbrain",),
        "pip install speechbrain numba",
        _CUDA,
        "SpeechBrain's Transducer in Numba",
    ),
    Listed(
        "nemo",
        f"{_HERE}.nemo_loss:nemo_loss",
        ("nemo_toolkit",),
        "pip install 'nemo_toolkit[asr]'",
        replace(_INT32, dtypes=("float32",)),
        "NeMo's RNNTLossNumba",
    ),
)


def split_name(text: str) -> tuple[str, dict[str, Any]]:
    """The name of a loss and its options, from `NAME[,key=value…]`."""
    name, *pairs = text.split(",")
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise StopwavError(f"loss {text!r}: {pair!r} is not key=value")
        options[key] = int(value) if value.lstrip("-").isdigit() else value
    return name, options


def find_loss(text: str) -> Contender:
    """The loss that a text names, imported; a package that is missing is a `MissingLoss`."""
    name, options = split_name(text)
    if ".py:" in name:
        return _own(text, name, options)
    listed = _listed(name)
    if listed.version is None:
        raise MissingLoss(f"loss {name!r} needs {' or '.join(listed.packages)}, not installed: {listed.install}")
    module, _, attribute = listed.target.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise MissingLoss(f"loss {name!r} does not import ({error}): {listed.install}") from error
    if inspect.isclass(function):
        made = _make(text, function, options)
        parts = {name: getattr(made, name, None) for name in ("pruned", "unpruned")}
        return Contender(text, listed.version, listed.needs, made, **parts)
    if options:
        raise StopwavError(f"loss {text!r}: {name} takes no options")
    return Contender(text, listed.version, listed.needs, function)


def check_name(text: str) -> str:
    """Why the loss cannot be had here, where its package is missing, or ""; a name that no loss has is an error."""
    name, _ = split_name(text)
    if ".py:" in name:
        # Not imported here: what a user's file does to its process is a result.
        _own_file(text, name)
        return ""
    listed = _listed(name)
    return "" if listed.version else f"needs {' or '.join(listed.packages)}: {listed.install}"


def installed_losses(device: str) -> list[str]:
    """Every loss but the oracle that is installed and runs on the device."""
    kind = device.partition(":")[0]
    return [one.name for one in BUILT_IN if one.version and kind in one.needs.devices and one.name != "oracle"]


def _listed(name: str) -> Listed:
    found = next((one for one in BUILT_IN if one.name == name), None)
    if found is None:
        hint = suggestion(name, [one.name for one in BUILT_IN], ", or your own my_loss.py:my_loss")
        raise StopwavError(f"unknown loss {name!r}: {hint}")
    return found


def _make(text: str, factory: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:
        takes = ", ".join(inspect.signature(factory).parameters)
        raise StopwavError(f"loss {text!r}: {error}; it takes {takes}") from error
    return factory(**options)


def _own(text: str, name: str, options: dict[str, Any]) -> Contender:
    """A function of the user's own: what it needs, where that is not the default, stands among the options."""
    path, attribute = _own_file(text, name)
    found = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except Exception as error:
        raise StopwavError(f"loss {text!r}: {path} failed to import: {error!r}") from error
    function = getattr(module, attribute, None)
    if not callable(function):
        raise StopwavError(f"loss {text!r}: {path} has no function {attribute!r}")
    needs, rest = _needs(text, options)
    return Contender(text, "your own", needs, partial(function, **rest) if rest else function)


def _own_file(text: str, name: str) -> tuple[str, str]:
    """The file and the function of a user's own loss."""
    path, _, attribute = name.rpartition(":")
    if not Path(path).is_file() or not attribute:
        raise StopwavError(f"loss {text!r}: no file {path!r}; write path/to/my_loss.py:my_loss")
    return path, attribute


def _needs(text: str, options: dict[str, Any]) -> tuple[Needs, dict[str, Any]]:
    """The needs that options state, and the options that the function itself takes."""
    allowed = {
        "logits": ("padded", "packed", "joiner"),
        "log_softmax": ("inside", "outside"),
        "integers": ("int32", "int64"),
    }
    assert set(allowed) <= {field.name for field in fields(Needs)}
    stated = {key: value for key, value in options.items() if key in allowed}
    for key, value in stated.items():
        if value not in allowed[key]:
            raise StopwavError(f"loss {text!r}: {key}={value}: give one of {', '.join(allowed[key])}")
    return replace(Needs(), **stated), {key: value for key, value in options.items() if key not in allowed}
