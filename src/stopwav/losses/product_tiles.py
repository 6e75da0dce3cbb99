"""The arithmetic and the tiles of the Triton kernels that multiply."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import torch

from stopwav.losses.kernel_launch import next_power_of_2
from stopwav.losses.precision import Arithmetic, tf32_allowed

# How Triton multiplies; `split` is float32 by three products in TF32, each four times as fast as one in float32.
TileArithmetic = Literal["tf32", "ieee", "split"]
# The first compute capability with TF32.
TF32_CAPABILITY = (8, 0)
# Shared memory that Triton needs beside the blocks of the factors.
RESERVED_BYTES = 4096


@dataclass(frozen=True)
class Tile:
    """The tile of a product that a program computes, by blocks of `depth` of which `stages` are loaded ahead."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int

    def shared_bytes(self, item_bytes: int, rights: int) -> int:
        """The shared memory of the blocks, of one left and so many right factors."""
        return (self.rows + rights * self.columns) * self.depth * item_bytes * self.stages


# The fastest of 7 to 14 tiles on an H200, D 512 and V 500: for log-sum-exp, and for gradients.
HALF_SCORES, HALF_GRADS = Tile(128, 128, 64, 8, 3), Tile(128, 128, 64, 4, 3)
TF32_TILE, SPLIT_TILE = Tile(128, 256, 32, 8, 3), Tile(64, 128, 32, 4, 3)
# Without matrix units for the type, a tile must fit the registers.
PLAIN_TILE = Tile(32, 32, 16, 4, 1)


@dataclass(frozen=True)
class Tiles:
    """How a batch is multiplied: for the scores of its cells, and for the gradients of its logits."""

    arithmetic: TileArithmetic
    scores: Tile
    grads: Tile

    @property
    def depth(self) -> int:
        """Rows of both factors are padded to multiples of this."""
        return self.scores.depth

    @property
    def columns(self) -> int:
        """The number of rows of the right factor is padded to multiples of this."""
        return max(self.scores.columns, self.grads.columns)


def choose_tiles(arithmetic: Arithmetic, symbols: int, device: torch.device) -> Tiles:
    """Return how to multiply on a device."""
    if device.type != "cuda":
        # Interpreted: small, so that small tests have several tiles, and deeper than wide, as tiles of a GPU may be.
        tile = Tile(16, max(16, next_power_of_2(symbols) // 4), 32, 4, 1)
        return Tiles(_tile_arithmetic(arithmetic, TF32_CAPABILITY), tile, tile)
    properties: Any = torch.cuda.get_device_properties(device)
    kind = _tile_arithmetic(arithmetic, (properties.major, properties.minor))
    return tiles_of(kind, arithmetic.dtype, symbols, properties.shared_memory_per_block_optin)


def _tile_arithmetic(arithmetic: Arithmetic, capability: tuple[int, int]) -> TileArithmetic:
    if arithmetic.dtype != torch.float32 or capability < TF32_CAPABILITY:
        return "ieee"
    allowed = tf32_allowed() if arithmetic.tf32 is None else arithmetic.tf32
    return "tf32" if allowed else "split"


@cache
def tiles_of(kind: TileArithmetic, dtype: torch.dtype, symbols: int, shared_limit_bytes: int) -> Tiles:
    """Return the tiles as far as they fit the shared memory of a device, and no wider than the vocabulary."""
    tile = {"tf32": TF32_TILE, "split": SPLIT_TILE, "ieee": PLAIN_TILE}[kind]
    pair = (HALF_SCORES, HALF_GRADS) if dtype in (torch.float16, torch.bfloat16) else (tile, tile)
    rights = 2 if kind == "split" else 1
    return Tiles(kind, *(_fitting(tile, dtype.itemsize, rights, symbols, shared_limit_bytes) for tile in pair))


def _fitting(tile: Tile, item_bytes: int, rights: int, symbols: int, shared_limit_bytes: int) -> Tile:
    tile = replace(tile, columns=min(tile.columns, max(16, next_power_of_2(symbols))))
    while tile.shared_bytes(item_bytes, rights) > shared_limit_bytes - RESERVED_BYTES:
        if tile.stages > 2 or tile.columns <= 64:
            tile = replace(tile, stages=max(1, tile.stages - 1))
        else:
            tile = replace(tile, columns=tile.columns // 2)
    return tile
