"""The lengths of the utterances of a padded batch, its targets, and the reduction of its losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from stopwav.errors import StopwavError

Reduction = Literal["none", "sum", "mean"]
REDUCTIONS = ("none", "sum", "mean")


@dataclass(frozen=True)
class Lengths:
    """Frames and labels of every utterance, on the device of the batch, and on the host if they were given there."""

    frames: Tensor
    labels: Tensor
    on_host: tuple[tuple[int, int], ...] | None

    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Frames and labels of every utterance as numbers; this waits for the device if they are only there."""
        if self.on_host is not None:
            return self.on_host
        return tuple(zip(self.frames.tolist(), self.labels.tolist(), strict=True))


def checked_lengths(
    frame_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    batch: int,
    frames: int,
    labels: int,
    device: torch.device,
) -> Lengths:
    """The lengths of a batch that is padded to `frames` and `labels`.

    Lengths on the host are checked. Reading lengths from a device would wait for it, so those are clamped to the padded
    sizes instead.
    """
    given = torch.as_tensor(frame_lengths), torch.as_tensor(target_lengths)
    for name, tensor in zip(("frame_lengths", "target_lengths"), given, strict=True):
        if tensor.shape != (batch,) or tensor.dtype.is_floating_point:
            shape = tuple(tensor.shape)
            raise StopwavError(f"{name} of shape {shape} and {tensor.dtype}; give {batch} integers, one per utterance")
    if all(tensor.device.type == "cpu" for tensor in given):
        on_host = tuple(zip(given[0].tolist(), given[1].tolist(), strict=True))
        for index, (frame_count, label_count) in enumerate(on_host):
            if not 1 <= frame_count <= frames:
                raise StopwavError(f"utterance {index} has {frame_count} frames; the batch has room for 1 to {frames}")
            if not 0 <= label_count <= labels:
                raise StopwavError(f"utterance {index} has {label_count} labels; the batch has room for 0 to {labels}")
        # Nothing needs clamping.
        frame_counts, label_counts = on_device([tensor.tolist() for tensor in given], device)
        return Lengths(frame_counts, label_counts, on_host)
    frame_counts, label_counts = (tensor.to(device, torch.int64, non_blocking=True) for tensor in given)
    return Lengths(frame_counts.clamp(0, frames), label_counts.clamp(0, labels), None)


def on_device(rows: Any, device: torch.device) -> list[Tensor]:
    """Copy rows of equal length to a device at once; each begins at a multiple of 16 bytes, as kernels like it."""
    rows = np.asarray(rows, np.int64)
    table = np.zeros((len(rows), rows.shape[1] + rows.shape[1] % 2), np.int64)
    table[:, : rows.shape[1]] = rows
    return [row[: rows.shape[1]] for row in torch.from_numpy(table).to(device, non_blocking=True)]


def checked_targets(targets: Tensor, lengths: Lengths, symbols: int, blank: int, device: torch.device) -> Tensor:
    """The labels on the device, clamped to valid symbols, padding included; labels on the host are checked."""
    if targets.dim() != 2 or targets.shape[0] != len(lengths.frames) or targets.dtype.is_floating_point:
        shape = tuple(targets.shape)
        raise StopwavError(f"targets of shape {shape} and {targets.dtype}; give integers, one row per utterance")
    if not 0 <= blank < symbols:
        raise StopwavError(f"blank {blank} is not one of the {symbols} symbols; give one from 0 to {symbols - 1}")
    if targets.device.type == "cpu" and lengths.on_host is not None:
        counts = torch.tensor([count for _, count in lengths.on_host])
        real = torch.arange(targets.shape[1]) < counts[:, None]
        wrong = (real & ((targets < 0) | (targets >= symbols) | (targets == blank))).nonzero()
        if len(wrong):
            index, position = wrong[0].tolist()
            label = int(targets[index, position])
            rule = f"give one from 0 to {symbols - 1} that is not the blank {blank}"
            raise StopwavError(f"utterance {index} has the label {label}; {rule}")
    # The kernels need contiguous rows.
    return targets.to(device, torch.int64, non_blocking=True).clamp(0, symbols - 1).contiguous()


def reduced(losses: Tensor, reduction: Reduction) -> Tensor:
    """The losses, their sum, or their mean over utterances."""
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    if reduction == "mean":
        return losses.mean()
    raise StopwavError(f"reduction {reduction!r}; give one of {', '.join(REDUCTIONS)}")
