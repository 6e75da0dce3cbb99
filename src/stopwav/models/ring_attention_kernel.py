"""The Triton kernel of attention over rings: it reads the past in place, and writes the present over the oldest."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

# Products of tiles have at least so many rows and columns.
LEAST_TILE = 16


@triton.jit
def ring_attention_kernel(
    projected,
    cache,
    slots,
    before,
    new,
    attended,
    scale,
    HEADS: tl.constexpr,
    HEAD: tl.constexpr,
    LEFT: tl.constexpr,
    SEGMENT: tl.constexpr,
    AHEAD: tl.constexpr,
    PLACES: tl.constexpr,
    PAST_TILE: tl.constexpr,
    NEW_TILE: tl.constexpr,
):
    """Attend with one head of one stream: to the past in its ring, and to the frames of this step among themselves.

    The places that are written are those that the past has left, so no value is read that this program writes.
    """
    stream = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    WIDTH: tl.constexpr = HEADS * HEAD
    RING: tl.constexpr = LEFT + SEGMENT
    FRAMES: tl.constexpr = SEGMENT + AHEAD
    slot = tl.load(slots + stream)
    begin = tl.load(before + stream).to(tl.int32)
    count = tl.load(new + stream).to(tl.int32)
    columns = head * HEAD + tl.arange(0, HEAD)
    frames = tl.arange(0, NEW_TILE)
    own = (stream * FRAMES + frames)[:, None] * (3 * WIDTH) + columns[None, :]
    is_frame = (frames < FRAMES)[:, None]
    query = tl.load(projected + own, mask=is_frame, other=0.0)
    new_keys = tl.load(projected + own + WIDTH, mask=is_frame, other=0.0)
    new_values = tl.load(projected + own + 2 * WIDTH, mask=is_frame, other=0.0)
    # The past: a place holds the last frame before this segment that is congruent to it.
    places = tl.arange(0, PAST_TILE)
    age = (begin - 1 - places) % RING
    age = tl.where(age < 0, age + RING, age)
    is_past = (places < RING) & (age < LEFT) & (age < begin)
    past = slot * (2 * PLACES * WIDTH) + places[:, None] * WIDTH + columns[None, :]
    past_keys = tl.load(cache + past, mask=is_past[:, None], other=0.0)
    past_values = tl.load(cache + past + PLACES * WIDTH, mask=is_past[:, None], other=0.0)
    past_scores = tl.dot(query, tl.trans(past_keys), input_precision="ieee") * scale
    past_scores = tl.where(is_past[None, :], past_scores, float("-inf"))
    # Frames ahead come first; of the segment only those that there are.
    is_new = (frames < AHEAD) | ((frames >= AHEAD) & (frames < AHEAD + count))
    new_scores = tl.dot(query, tl.trans(new_keys), input_precision="ieee") * scale
    new_scores = tl.where(is_new[None, :], new_scores, float("-inf"))
    top = tl.maximum(tl.max(past_scores, axis=1), tl.max(new_scores, axis=1))
    past_shares, new_shares = tl.exp(past_scores - top[:, None]), tl.exp(new_scores - top[:, None])
    total = tl.sum(past_shares, axis=1) + tl.sum(new_shares, axis=1)
    mixed = tl.dot(past_shares.to(past_values.dtype), past_values, input_precision="ieee")
    mixed += tl.dot(new_shares.to(new_values.dtype), new_values, input_precision="ieee")
    result = (stream * FRAMES + frames)[:, None] * WIDTH + columns[None, :]
    tl.store(attended + result, (mixed / total[:, None]).to(query.dtype), mask=is_frame)
    is_segment = (frames >= AHEAD) & (frames < FRAMES)
    target = slot * (2 * PLACES * WIDTH) + ((begin + frames - AHEAD) % RING)[:, None] * WIDTH + columns[None, :]
    tl.store(cache + target, new_keys, mask=is_segment[:, None])
    tl.store(cache + target + PLACES * WIDTH, new_values, mask=is_segment[:, None])


def attend_by_kernel(
    projected: Tensor, cache: Tensor, slots: Tensor, before: Tensor, new: Tensor, heads: int, left: int, segment: int
) -> Tensor:
    """Return the attended values of `(streams, frames, 3 · width)`, and write keys and values of the segments."""
    streams, frames, width = projected.shape[0], projected.shape[1], projected.shape[2] // 3
    attended = projected.new_empty(streams, frames, width)
    head = width // heads
    ring_attention_kernel[(streams, heads)](
        projected,
        cache,
        slots,
        before,
        new,
        attended,
        head**-0.5,
        HEADS=heads,
        HEAD=head,
        LEFT=left,
        SEGMENT=segment,
        AHEAD=frames - segment,
        PLACES=cache.shape[2],
        PAST_TILE=max(LEAST_TILE, triton.next_power_of_2(left + segment)),
        NEW_TILE=max(LEAST_TILE, triton.next_power_of_2(frames)),
        num_warps=2,
    )
    return attended


def fits(width: int, heads: int) -> bool:
    """Whether tiles of this width are products that the kernel can compute."""
    head = width // heads
    return head >= LEAST_TILE and head == triton.next_power_of_2(head)


def check_device(device: torch.device) -> None:
    """Raise if the device has no Triton."""
    if device.type != "cuda":
        raise RuntimeError("Triton kernels need an NVIDIA GPU")
