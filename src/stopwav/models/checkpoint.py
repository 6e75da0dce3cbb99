"""Weights and statistics from files, checked before they are used; nothing in a file is ever executed."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import torch
from torch import Tensor, nn

from stopwav.errors import StopwavError
from stopwav.models.logmel import BANDS, Statistics

# Enough to see what kind of mismatch it is; a wrong model would otherwise fill screens.
NAMED = 3


def load_weights(model: nn.Module, path: Path) -> None:
    """Fill a model with a checkpoint's tensors, or say which of them do not fit."""
    fill(model, read_tensors(path), path, "a state dict of torchaudio's emformer_rnnt_base is expected")


def fill(model: nn.Module, found: dict[str, Tensor], path: Path, way_out: str) -> None:
    """Fill a model with the tensors of a file, or say which of them do not fit, and the way out."""
    wanted = model.state_dict()
    missing = [name for name in wanted if name not in found]
    extra = [name for name in found if name not in wanted]
    shapes = [
        f"{name} is {_shape(found[name])} and should be {_shape(wanted[name])}"
        for name in wanted
        if name in found and found[name].shape != wanted[name].shape
    ]
    problems = [
        f"{len(names)} {what} ({'; '.join(names[:NAMED])}{' …' if len(names) > NAMED else ''})"
        for what, names in (("missing", missing), ("of another model", extra), ("of another shape", shapes))
        if names
    ]
    if problems:
        counts = f"of the model's {len(wanted)} tensors and the file's {len(found)}"
        raise StopwavError(f"{path}: {counts}, {', '.join(problems)}; {way_out}")
    model.load_state_dict(found)


def load_statistics(path: Path) -> Statistics:
    """Mean and inverse deviation of the features, from the JSON file that is published with the checkpoint."""
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
    """The tensors of a checkpoint by their names."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise StopwavError(f"{path}: {error.strerror or error}") from error
    except pickle.UnpicklingError as error:
        raise StopwavError(
            f"{path}: not a plain state dict; anything else may run code when it is loaded, and was refused"
        ) from error
    except Exception as error:  # bytes that are no checkpoint fail in the reader in any way
        reason = str(error).partition("\n")[0] or "it is empty or cut off"
        raise StopwavError(f"{path}: not a checkpoint that torch can read ({reason})") from error
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in content.items()
    ):
        kind = type(content).__name__
        raise StopwavError(f"{path}: holds a {kind} where a state dict, names to tensors, is expected")
    return content


def _shape(tensor: Tensor) -> str:
    return "×".join(str(size) for size in tensor.shape) or "a scalar"
