"""The parameters of a torch network, counted: in all, by module, and which tensors several modules share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ROOT = "(itself)"


def count_parameters(network: Any, depth: int) -> dict[str, Any]:
    """Parameters, trainable ones and bytes, in all and of each module down to `depth`, and the tensors that are shared.

    A tensor that several modules hold counts once, for the first that holds it, and is named with all its names; so
    the parts add up to the whole.
    """
    names: dict[object, list[str]] = {}
    tensors: dict[object, Any] = {}
    for name, tensor in network.named_parameters(remove_duplicate=False):
        identity = _identity(tensor)
        names.setdefault(identity, []).append(name)
        tensors.setdefault(identity, tensor)
    counted = {names[identity][0]: tensor for identity, tensor in tensors.items()}
    return {
        **_sums(counted),
        "modules": [{"name": part, **_sums(held)} for part, held in _by_module(counted, depth).items()],
        "shared": [
            {"names": names[identity], "parameters": tensors[identity].numel()}
            for identity in names
            if len(names[identity]) > 1
        ],
    }


def _sums(tensors: Mapping[str, Any]) -> dict[str, int]:
    return {
        "parameters": sum(tensor.numel() for tensor in tensors.values()),
        "trainable": sum(tensor.numel() for tensor in tensors.values() if tensor.requires_grad),
        "bytes": sum(tensor.numel() * tensor.element_size() for tensor in tensors.values()),
    }


def _by_module(counted: Mapping[str, Any], depth: int) -> dict[str, dict[str, Any]]:
    """The tensors of each module, by its path, at every level down to `depth`."""
    found: dict[str, dict[str, Any]] = {}
    for name, tensor in counted.items():
        path = name.split(".")[:-1]
        levels = range(1, min(depth, len(path)) + 1)
        for part in [".".join(path[:level]) for level in levels] or ([ROOT] if depth else []):
            found.setdefault(part, {})[name] = tensor
    return found


def _identity(tensor: Any) -> object:
    """What two names of the same numbers have in common: the object, or the place in memory."""
    if tensor.is_meta or not tensor.numel():
        return id(tensor)
    return tensor.device, tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.numel()
