"""Attention of many streams over their own past, which lies in rings: by a kernel, or by PyTorch over copies.

Attention has no order, so a slot is a ring of the past and the present segment: what leaves the past is overwritten,
and nothing is moved. The frames ahead of a segment have their own places after the ring.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

# Slots, streams, heads and width of the first comparison of the kernel with PyTorch.
CHECK_SLOTS, CHECK_STREAMS, CHECK_HEADS, CHECK_WIDTH = 5, 3, 2, 64


@dataclass(frozen=True)
class Ring:
    """The sizes of a ring: frames of the past, of a segment, and ahead of it."""

    left: int
    segment: int
    ahead: int

    @property
    def size(self) -> int:
        """The places of the ring itself."""
        return self.left + self.segment

    @property
    def places(self) -> int:
        """All places, those of the frames ahead too."""
        return self.size + self.ahead


@dataclass(frozen=True)
class RingStep:
    """The streams of a step: their slots, their frames before it and in it, and what follows from these."""

    slots: Tensor
    before: Tensor
    new: Tensor
    # Where keys and values go, and minus infinity for places that are empty, too old, or of no frame. The kernel needs
    # neither.
    places: Tensor | None = None
    bias: Tensor | None = None


def plan_step(ring: Ring, slots: Tensor, before: Tensor, new: Tensor, dtype: torch.dtype, kernel: bool) -> RingStep:
    """Return a step, with what PyTorch's attention needs unless the kernel is used."""
    if kernel:
        return RingStep(slots, before, new)
    places = torch.arange(ring.places, device=slots.device)
    own = (before[:, None] + places[: ring.segment]) % ring.size
    ahead = places[ring.size :].expand(len(slots), -1)
    last = (before + new - 1)[:, None]
    frame_at = last - (last - places[: ring.size]) % ring.size
    hidden = (frame_at < 0) | (frame_at < before[:, None] - ring.left)
    bias = torch.zeros(hidden.shape, dtype=dtype, device=slots.device).masked_fill(hidden, -torch.inf)
    bias = functional.pad(bias, (0, ring.ahead))[:, None, None]
    return RingStep(slots, before, new, torch.cat([ahead, own], dim=1), bias)


def attend(projected: Tensor, cache: Tensor, step: RingStep, ring: Ring, heads: int) -> Tensor:
    """Return the attended values of `(streams, frames, 3 · width)`: queries, keys and values, frames ahead first.

    Keys and values are written to the streams' slots of the cache, `(slots, 2, places, width)`.
    """
    if step.places is None:
        from stopwav.models.ring_attention_kernel import attend_by_kernel

        return attend_by_kernel(projected, cache, step.slots, step.before, step.new, heads, ring.left, ring.segment)
    streams, frames, width = projected.shape[0], projected.shape[1], projected.shape[2] // 3
    query, key_value = projected.split([width, 2 * width], dim=-1)
    cache[step.slots[:, None], :, step.places] = key_value.unflatten(-1, (2, width))
    keys, values = cache[step.slots].unflatten(-1, (heads, -1)).transpose(2, 3).unbind(1)
    query = query.view(streams, frames, heads, -1).transpose(1, 2)
    attended = functional.scaled_dot_product_attention(query, keys, values, attn_mask=step.bias)
    return attended.transpose(1, 2).flatten(2)


@lru_cache
def has_kernel(device: torch.device, dtype: torch.dtype, width: int, heads: int, ring: Ring) -> bool:
    """Whether the kernel compiles for a device and gives what PyTorch gives; Triton needs a C compiler too."""
    try:
        from stopwav.models.ring_attention_kernel import check_device, fits

        check_device(device)
        return fits(width, heads) and kernel_agrees(device, dtype, ring)
    except Exception:  # a missing compiler or package raises errors of any kind
        return False


def kernel_agrees(device: torch.device, dtype: torch.dtype, ring: Ring) -> bool:
    """Whether kernel and PyTorch attend alike, to rings that are empty, half full, and full."""
    torch_cache, own_cache = (
        torch.zeros(CHECK_SLOTS, 2, ring.places, CHECK_WIDTH, device=device, dtype=dtype) for _ in range(2)
    )
    generator = torch.Generator().manual_seed(0)
    slots = torch.tensor([3, 1, 4], device=device)
    before = torch.tensor([0, ring.left // 2, ring.left * 3], device=device)
    for number in range(2 * ring.size // ring.segment):
        new = torch.full_like(before, ring.segment)
        if number % 4 == 3:
            new -= torch.arange(CHECK_STREAMS, device=device).clamp(max=ring.segment - 1)
        shape = CHECK_STREAMS, ring.segment + ring.ahead, 3 * CHECK_WIDTH
        projected = torch.randn(shape, generator=generator).to(device, dtype)
        steps = [plan_step(ring, slots, before, new, dtype, kernel) for kernel in (False, True)]
        expected = attend(projected, torch_cache, steps[0], ring, CHECK_HEADS)
        attended = attend(projected, own_cache, steps[1], ring, CHECK_HEADS)
        tolerance = 1e-4 if dtype == torch.float32 else 3e-2
        if not torch.allclose(attended.float(), expected.float(), atol=tolerance, rtol=tolerance):
            return False
        before = before + ring.segment
    return True
