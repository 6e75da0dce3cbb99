"""Losses by name: `NAME[,key=value…]`, or a user's own function as `my_loss.py:my_loss`."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError, suggestion
from stopwav.losses import adapters
from stopwav.losses.implementation import BatchLoss, Implementation, LogitLoss, Needs

# What the options of a user's own loss may say about its inputs: fields of `Needs`.
_OWN_NEEDS = {
    "logits": ("padded", "packed", "joiner"),
    "log_softmax": ("inside", "outside"),
    "integers": ("int32", "int64"),
}


@dataclass(frozen=True)
class ListedLoss:
    """A loss that can be named: the adapter that loads it, the packages of which it needs one, and how to install it.

    The parameters of the adapter are the loss's options.
    """

    name: str
    load: Callable[..., LogitLoss | BatchLoss]
    packages: tuple[str, ...]
    install: str
    needs: Needs
    summary: str
    # Needs that releases before a version had.
    earlier_needs: tuple[tuple[int, int], Needs] | None = None

    @property
    def version(self) -> str | None:
        """The installed package and its version; `None` where none is installed."""
        for package in self.packages:
            try:
                return f"{package} {importlib.metadata.version(package)}"
            except importlib.metadata.PackageNotFoundError:
                continue
        return None

    @property
    def installed_needs(self) -> Needs:
        """The needs of the version that is installed; those of the newest where none is."""
        if self.version is None or self.earlier_needs is None:
            return self.needs
        before, earlier = self.earlier_needs
        numbers = re.findall(r"\d+", self.version.rpartition(" ")[2])
        return earlier if tuple(map(int, numbers[:2])) < before else self.needs


class MissingLoss(StopwavError):
    """A loss whose package is not installed."""


# Offsets of 32 bits (github.com/pytorch/audio/issues/4215). With more logits, on an H200, torchaudio returns a wrong
# loss and optimized-transducer gradients off by a factor of thousands, both without an error; warp-rnnt and
# warp-transducer die of an illegal access.
_MAX_LOGITS = 2**31
_INT32 = Needs(integers="int32", in_place_gradients=True)
_CUDA = replace(_INT32, log_softmax="outside", devices=("cuda",), dtypes=("float32",))
_ANY_DTYPE = Needs(dtypes=("float32", "float64", "bfloat16", "float16"))
_TORCH = "pip install 'stopwav[torch]'"
# These have to be compiled against the installed PyTorch.
_SCRIPT = "scripts/build_loss_peers.sh of stopwav's repository"
_K2 = f"pip install k2, or fast_rnnt by {_SCRIPT}"
_WARP_RNNT = f"{_SCRIPT} compiles warp_rnnt"

BUILT_IN = (
    ListedLoss(
        "oracle",
        adapters.oracle,
        ("torch",),
        _TORCH,
        _ANY_DTYPE,
        "the float64 reference that all others are checked against",
    ),
    ListedLoss("torch", adapters.plain, ("torch",), _TORCH, _ANY_DTYPE, "stopwav's own in plain PyTorch, any device"),
    ListedLoss(
        "fused",
        adapters.fused,
        ("torch",),
        _TORCH,
        Needs(logits="joiner"),
        "stopwav's own: never stores all logits",
    ),
    ListedLoss(
        "torchaudio",
        adapters.torchaudio,
        ("torchaudio",),
        "pip install torchaudio",
        replace(_INT32, dtypes=("float32", "float16"), max_logits=_MAX_LOGITS),
        "torchaudio.functional.rnnt_loss",
    ),
    ListedLoss("k2", adapters.k2, ("k2", "fast_rnnt"), _K2, Needs(), "k2.rnnt_loss, or fast_rnnt's"),
    ListedLoss(
        "k2-pruned",
        adapters.k2_pruned,
        ("k2", "fast_rnnt"),
        _K2,
        Needs(logits="joiner", pruned="simple loss, then pruned logits"),
        "k2's simple + pruned loss; range=5 symbols per frame",
    ),
    ListedLoss(
        "optimized-transducer",
        adapters.optimized_transducer,
        ("optimized_transducer",),
        f"{_SCRIPT} compiles optimized_transducer",
        replace(_INT32, logits="packed", dtypes=("float32",), max_logits=_MAX_LOGITS),
        "optimized_transducer.transducer_loss",
    ),
    ListedLoss(
        "warp-transducer",
        adapters.warp_transducer,
        ("warprnnt_pytorch",),
        "github.com/HawkAaron/warp-transducer: build it against your PyTorch, as its README says",
        replace(_INT32, dtypes=("float32",), max_logits=_MAX_LOGITS),
        "warprnnt_pytorch.rnnt_loss",
    ),
    ListedLoss(
        "warp-rnnt",
        adapters.warp_rnnt,
        ("warp_rnnt",),
        _WARP_RNNT,
        replace(_CUDA, max_logits=_MAX_LOGITS),
        "warp_rnnt.rnnt_loss",
    ),
    ListedLoss(
        "warp-rnnt-gather", adapters.warp_rnnt_gather, ("warp_rnnt",), _WARP_RNNT, _CUDA, "the same with gather=True"
    ),
    ListedLoss(
        "warp-rnnt-compact",
        adapters.warp_rnnt_compact,
        ("warp_rnnt",),
        _WARP_RNNT,
        # Its offsets are unsigned.
        replace(_CUDA, logits="packed", max_logits=2 * _MAX_LOGITS),
        "the same with compact=True",
    ),
    ListedLoss(
        "warprnnt-numba",
        adapters.warprnnt_numba,
        ("warprnnt_numba",),
        "pip install warprnnt_numba",
        replace(_INT32, dtypes=("float32",)),
        "warprnnt_numba.RNNTLossNumba",
    ),
    ListedLoss(
        "speechbrain",
        adapters.speechbrain,
        ("speechbrain",),
        "pip install speechbrain numba",
        replace(_CUDA, corrected="value multiplied by the frames it was divided by"),
        "SpeechBrain's Transducer in Numba",
    ),
    ListedLoss(
        "nemo",
        adapters.nemo,
        ("nemo_toolkit",),
        "pip install 'nemo_toolkit[asr]'",
        replace(_INT32, integers="int64", dtypes=("float32",)),
        "NeMo's RNNTLossNumba",
        earlier_needs=((1, 17), replace(_INT32, dtypes=("float32",))),
    ),
)


def split_name(text: str) -> tuple[str, dict[str, Any]]:
    """Split `NAME[,key=value…]` into the name of a loss and its options."""
    name, *pairs = text.split(",")
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise StopwavError(f"loss {text!r}: {pair!r} is not key=value")
        options[key] = _parse_value(value)
    return name, options


def _parse_value(text: str) -> int | str:
    """The value of an option: a whole number if it is one, otherwise the text itself."""
    try:
        return int(text)
    except ValueError:
        return text


def find_loss(text: str) -> Implementation:
    """Import and return the loss that a text names; raise `MissingLoss` where its package is missing."""
    name, options = split_name(text)
    if ".py:" in name:
        return _load_own(text, name, options)
    listed = _find_listed(name)
    if listed.version is None:
        raise MissingLoss(f"loss {name!r} needs {' or '.join(listed.packages)}, not installed: {listed.install}")
    _check_options(text, listed, options)
    try:
        function = listed.load(**options)
    except ImportError as error:
        raise MissingLoss(f"loss {name!r} does not import ({error}): {listed.install}") from error
    pruned, unpruned = (getattr(function, part, None) for part in ("pruned", "unpruned"))
    return Implementation(text, listed.version, listed.installed_needs, function, pruned, unpruned)


def check_name(text: str) -> str:
    """Return which package the loss is missing and how to install it, or ""; raise an error if no loss has the name."""
    name, options = split_name(text)
    if ".py:" in name:
        # Not imported here: a user's file that breaks its process has to be a result.
        _own_file(text, name)
        return ""
    listed = _find_listed(name)
    _check_options(text, listed, options)
    return "" if listed.version else f"needs {' or '.join(listed.packages)}: {listed.install}"


def own_file(text: str) -> str | None:
    """Return the file of a user's own loss; None for one of the list."""
    name, _ = split_name(text)
    return _own_file(text, name)[0] if ".py:" in name else None


def installed_losses(device: str) -> list[str]:
    """The names of all installed losses that run on the device, without the oracle."""
    kind = device.partition(":")[0]
    return [
        listed.name
        for listed in BUILT_IN
        if listed.version and kind in listed.needs.devices and listed.name != "oracle"
    ]


def _find_listed(name: str) -> ListedLoss:
    names = [listed.name for listed in BUILT_IN]
    if name not in names:
        hint = suggestion(name, names, f"there are {', '.join(names)}, or your own my_loss.py:my_loss")
        raise StopwavError(f"unknown loss {name!r}: {hint}")
    return BUILT_IN[names.index(name)]


def _check_options(text: str, listed: ListedLoss, options: dict[str, Any]) -> None:
    signature = inspect.signature(listed.load)
    try:
        signature.bind(**options)
    except TypeError as error:
        known = ", ".join(signature.parameters)
        problem = f"{error}; it takes {known}" if known else f"{listed.name} takes no options"
        raise StopwavError(f"loss {text!r}: {problem}") from error


def _load_own(text: str, name: str, options: dict[str, Any]) -> Implementation:
    """Import a user's own function; the options that name a field of `Needs` say which inputs it needs."""
    path, attribute = _own_file(text, name)
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise StopwavError(f"loss {text!r}: {path} failed to import: {error!r}") from error
    function = getattr(module, attribute, None)
    if not callable(function):
        raise StopwavError(f"loss {text!r}: {path} has no function {attribute!r}")
    needs = {key: value for key, value in options.items() if key in _OWN_NEEDS}
    for key, value in needs.items():
        if value not in _OWN_NEEDS[key]:
            raise StopwavError(f"loss {text!r}: {key}={value}: give one of {', '.join(_OWN_NEEDS[key])}")
    rest = {key: value for key, value in options.items() if key not in _OWN_NEEDS}
    return Implementation(text, "your own", Needs(**needs), partial(function, **rest) if rest else function)


def _own_file(text: str, name: str) -> tuple[str, str]:
    """The file and the function of a user's own loss."""
    path, _, attribute = name.rpartition(":")
    if not Path(path).is_file() or not attribute:
        raise StopwavError(f"loss {text!r}: no file {path!r}; write path/to/my_loss.py:my_loss")
    return path, attribute
