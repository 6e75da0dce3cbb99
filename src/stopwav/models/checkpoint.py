"""Weights and statistics from files, checked before they are used; no code in a file is ever executed."""

from __future__ import annotations

import json
import os
import pickle
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from stopwav.errors import StopwavError
from stopwav.models.features import BANDS, Statistics

# Enough to see the kind of mismatch; a wrong model would otherwise fill screens.
MAX_NAMES = 3


def load_weights(model: nn.Module, path: Path) -> None:
    """Load a checkpoint into a model; the error names the tensors that do not fit."""
    load_tensors(model, read_tensors(path), path, "a state dict of torchaudio's emformer_rnnt_base is expected")


def load_tensors(model: nn.Module, tensors: dict[str, Tensor], path: Path, hint: str) -> None:
    """Load the tensors of a file into a model; the error names those that do not fit, and ends with the hint."""
    expected = model.state_dict()
    missing = [name for name in expected if name not in tensors]
    unexpected = [name for name in tensors if name not in expected]
    shapes = [
        f"{name} is {_shape(tensors[name])} and should be {_shape(expected[name])}"
        for name in expected
        if name in tensors and tensors[name].shape != expected[name].shape
    ]
    problems = [
        f"{len(names)} {problem} ({'; '.join(names[:MAX_NAMES])}{' …' if len(names) > MAX_NAMES else ''})"
        for problem, names in (("missing", missing), ("unexpected", unexpected), ("of the wrong shape", shapes))
        if names
    ]
    if problems:
        counts = f"of the model's {len(expected)} tensors and the file's {len(tensors)}"
        raise StopwavError(f"{path}: {counts}, {', '.join(problems)}; {hint}")
    model.load_state_dict(tensors)


def load_statistics(path: Path) -> Statistics:
    """Read mean and inverse deviation of the features from the JSON file that is published with the checkpoint."""
    try:
        values = json.loads(path.read_text())
        mean, inverse_deviation = (torch.tensor(values[key], dtype=torch.float32) for key in ("mean", "invstddev"))
    except OSError as error:
        raise StopwavError(f"stats={path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise StopwavError(f'stats={path}: expected JSON with "mean" and "invstddev", {BANDS} numbers each') from error
    if mean.shape != (BANDS,) or inverse_deviation.shape != (BANDS,):
        raise StopwavError(
            f"stats={path}: {_shape(mean)} and {_shape(inverse_deviation)} values, but there are {BANDS} mel bands"
        )
    return Statistics(mean, inverse_deviation)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a checkpoint, by their names."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise StopwavError(f"{path}: {error.strerror or error}") from error
    except pickle.UnpicklingError as error:
        raise StopwavError(
            f"{path}: not a plain state dict; refused, because anything else may run code when it is loaded"
        ) from error
    except Exception as error:  # bytes that are not a checkpoint may raise any error
        reason = str(error).partition("\n")[0] or "it is empty or cut off"
        raise StopwavError(f"{path}: not a checkpoint that torch can read ({reason})") from error
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in content.items()
    ):
        kind = type(content).__name__
        raise StopwavError(f"{path}: contains a {kind}; expected a state dict, names to tensors")
    return content


def _shape(tensor: Tensor) -> str:
    return "×".join(str(size) for size in tensor.shape) or "a scalar"


INCLUDED = Path(__file__).parent / "names"


@dataclass(frozen=True)
class Rule:
    """Every match of the pattern in a name becomes the replacement; `None` drops the tensor."""

    pattern: re.Pattern[str]
    replacement: str | None


def read_rules(names: str) -> list[Rule]:
    """Read the rules of an included layout, such as `espnet`, or a file: `{"rules": [[pattern, replacement], …]}`."""
    included = {path.stem: path for path in sorted(INCLUDED.glob("*.json"))}
    path = included.get(names, Path(names))
    try:
        rules = json.loads(path.read_text())["rules"]
        return [_rule(names, pattern, replacement) for pattern, replacement in rules]
    except OSError as error:
        raise StopwavError(
            f"names={names}: {error.strerror}; give a file of rules, or one of {', '.join(included)}"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise StopwavError(
            f'names={names}: expected JSON with "rules", a list of [pattern, replacement or null]'
        ) from error


def rename(tensors: Mapping[str, Tensor], rules: Sequence[Rule], path: Path) -> dict[str, Tensor]:
    """Return the tensors by their new names, after applying every rule in order."""
    renamed: dict[str, Tensor] = {}
    origin: dict[str, str] = {}
    for name, tensor in tensors.items():
        new = _renamed(name, rules)
        if new is None:
            continue
        if new in renamed:
            raise StopwavError(f"{path}: {origin[new]} and {name} would both become {new}; check the rules of names=…")
        renamed[new], origin[new] = tensor, name
    return renamed


def _renamed(name: str, rules: Sequence[Rule]) -> str | None:
    for rule in rules:
        if rule.replacement is None:
            if rule.pattern.search(name):
                return None
        else:
            name = rule.pattern.sub(rule.replacement, name)
    return name


def _rule(names: str, pattern: object, replacement: object) -> Rule:
    if not isinstance(pattern, str) or not isinstance(replacement, str | None):
        raise StopwavError(f"names={names}: {pattern!r} → {replacement!r}: expected a pattern, and a text or null")
    try:
        # A replacement that refers to a missing group would fail at the first match; with an alternative that always
        # matches it fails now.
        re.sub(f"{pattern}|", replacement or "", "")
        return Rule(re.compile(pattern), replacement)
    except re.error as error:
        raise StopwavError(
            f"names={names}: {pattern!r} → {replacement!r} is not a valid regular expression ({error})"
        ) from error


# Rows for which oneDNN chooses the layout; a streaming step has 5, a beam 10.
PACKED_FOR_ROWS = 8


class Linear(Protocol):
    """A linear layer, alone and with the operation that follows it in a network."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return `x` times the weights, plus the bias."""
        ...

    def gelu(self, x: Tensor) -> Tensor:
        """Return GELU of the layer's result."""
        ...

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """Return the layer's result plus another tensor."""
        ...


class DenseLinear:
    """Weights as PyTorch keeps them."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        """Return `x` times the weights, plus the bias."""
        return functional.linear(x, self._weight, self._bias)

    def gelu(self, x: Tensor) -> Tensor:
        """Return GELU of the layer's result."""
        return functional.gelu(self(x))

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """Return the layer's result plus another tensor."""
        return other + self(x)


class PackedLinear:
    """Weights in oneDNN's blocked layout, for the CPU; the operation after the product is done in registers."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PACKED_FOR_ROWS)
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        """Return `x` times the weights, plus the bias."""
        return torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")

    def gelu(self, x: Tensor) -> Tensor:
        """Return GELU of the layer's result, in its exact form."""
        return torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "gelu", [], "none")

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """Return the layer's result plus another tensor."""
        return torch.ops.mkldnn._linear_pointwise.binary(x, other, self._weight, self._bias, "add")


class Int8Linear:
    """Weights in 8 bits with one scale per row, and activations scaled to 8 bits at every call; for the CPU."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        scales = weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny).double() / 127
        zeros = torch.zeros(len(weight), dtype=torch.long)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch recommends another package for quantised training
            quantised = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self._packed = torch.ops.quantized.linear_prepack(quantised, bias)

    def __call__(self, x: Tensor) -> Tensor:
        """Return `x` times the weights, plus the bias."""
        # Reduced range keeps sums from overflowing on processors without 8-bit dot products.
        return torch.ops.quantized.linear_dynamic(x, self._packed, True)

    def gelu(self, x: Tensor) -> Tensor:
        """Return GELU of the layer's result."""
        return functional.gelu(self(x))

    def plus(self, x: Tensor, other: Tensor) -> Tensor:
        """Return the layer's result plus another tensor."""
        return other + self(x)


def fastest_linear(device: torch.device, precision: str, compiled: bool = False) -> type[Linear]:
    """Return the kind of layer that is fastest on a device in a precision."""
    if precision == "int8":
        return Int8Linear
    # A compiler packs the weights itself, and the GPU's libraries need them as they are.
    packs = device.type == "cpu" and not compiled and precision in ("float32", "bfloat16")
    return PackedLinear if packs and hasattr(torch.ops.mkldnn, "_linear_pointwise") else DenseLinear


def fuse(kind: type[Linear], *layers: nn.Linear) -> Linear:
    """Return layers of the same input as one layer, their results side by side."""
    biases = [layer.bias.detach() for layer in layers if layer.bias is not None]
    # A single layer keeps its own bias tensor, so that later changes to it take effect.
    bias = torch.cat(biases) if len(biases) > 1 else next(iter(biases), None)
    return kind(torch.cat([layer.weight.detach() for layer in layers]), bias)  # type: ignore[call-arg]


def disable_amx_in_vm() -> None:
    """Keep oneDNN from using AMX inside a virtual machine: some announce it and then kill the process that uses it.

    A streaming step loses nothing: AMX speeds up arithmetic, and its time is the reading of weights.
    """
    cpuinfo = Path("/proc/cpuinfo")
    flags = cpuinfo.read_text().split() if cpuinfo.is_file() else []
    if "hypervisor" in flags and "amx_tile" in flags:
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
