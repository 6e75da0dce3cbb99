"""Weights and statistics from files, checked before they are used; no code in a file is ever executed."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import torch
from torch import Tensor, nn

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
