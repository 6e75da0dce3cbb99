"""The sizes of the two reference families; the defaults are those of the published comparison, to the parameter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ConformerShape:
    """A Conformer encoder with a Transformer decoder."""

    bands: int = 80
    width: int = 512
    heads: int = 8
    feed_forward: int = 2048
    kernel: int = 31  # of the convolution over time in each block
    blocks: int = 12
    decoder_blocks: int = 6
    tokens: int = 5000
    # Encoder frames for which there are positions: ESPnet's table, 200 s at 40 ms.
    longest: int | None = 5000

    def frames(self, features: int) -> int:
        """How many encoder frames so many feature frames become: two convolutions of 3 by steps of 2, no padding."""
        return ((features - 1) // 2 - 1) // 2

    @property
    def shortest(self) -> int:
        """The fewest feature frames that make one encoder frame."""
        return 7


@dataclass(frozen=True)
class LstmShape:
    """Bidirectional LSTM layers with projections, and an LSTM decoder with location-aware attention."""

    bands: int = 80
    width: int = 320
    # How many frames become one behind each layer. The parameter counts do not pin it: this is ESPnet's default.
    steps: tuple[int, ...] = (2, 2, 1, 1)
    filters: int = 10
    filter_frames: int = 201
    tokens: int = 27
    longest: int | None = None  # nothing in it ends

    def frames(self, features: int) -> int:
        """How many encoder frames so many feature frames become; a group that is not full counts."""
        for step in self.steps:
            features = -(-features // step)
        return features

    @property
    def shortest(self) -> int:
        """The fewest feature frames that make one encoder frame."""
        return 1
