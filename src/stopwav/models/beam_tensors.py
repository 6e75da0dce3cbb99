"""The tensors of the batched beam search: beams by slot, the texts of a frame, and those that may still grow."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class BeamSlots:
    """The beam of each stream, in its slot: `(slots, beam, …)`."""

    scores: Tensor
    lengths: Tensor
    hashes: Tensor
    predictions: Tensor
    states: Tensor
    symbols: Tensor
    # The best text as it was last shown, `(slots, …)`.
    shown: Tensor
    shown_lengths: Tensor


@dataclass
class FrameRecords:
    """The texts of a frame, `(rows + 1, records, …)`; a score of minus infinity is no text."""

    scores: Tensor
    lengths: Tensor
    hashes: Tensor
    # The text of the beam that each grew from, and by what.
    roots: Tensor
    grown: Tensor
    predictions: Tensor
    states: Tensor


@dataclass
class ActiveTexts:
    """The texts that may grow, `(rows + 1, beam, …)`: from which record, by which symbol, and what may follow."""

    scores: Tensor
    parents: Tensor
    symbols: Tensor
    blank: Tensor
    next_scores: Tensor
    next_symbols: Tensor


@dataclass(frozen=True)
class BeamSizes:
    """From what the tensors are made: the beam, the rows of a batch, and one prediction and state of the predictor."""

    beam: int
    rows: int
    prediction: Tensor
    state: Tensor

    def beams(self, slots: int, length: int) -> BeamSlots:
        """Return the beams of so many slots, with room for texts of a length."""
        whole = self._whole(slots, self.beam)
        return BeamSlots(
            scores=whole.float(),
            lengths=whole,
            hashes=whole.clone(),
            predictions=self.prediction.new_zeros(slots, self.beam, *self.prediction.shape),
            states=self.state.new_zeros(slots, self.beam, *self.state.shape),
            symbols=torch.zeros(slots, self.beam, length, dtype=torch.int16, device=whole.device),
            shown=torch.zeros(slots, length, dtype=torch.int16, device=whole.device),
            shown_lengths=whole.new_zeros(slots),
        )

    def records(self, levels: int) -> FrameRecords:
        """Return the records of a frame in which texts grow by so many symbols."""
        rows, count = self.rows + 1, (levels + 1) * self.beam
        whole = self._whole(rows, count)
        return FrameRecords(
            scores=whole.float(),
            lengths=whole,
            hashes=whole.clone(),
            roots=whole.clone(),
            grown=torch.zeros(rows, count, levels, dtype=torch.int16, device=whole.device),
            predictions=self.prediction.new_zeros(rows, count, *self.prediction.shape),
            states=self.state.new_zeros(rows, count, *self.state.shape),
        )

    def active(self) -> ActiveTexts:
        """Return the texts that may grow."""
        whole = self._whole(self.rows + 1, self.beam)
        symbols = self._whole(self.rows + 1, self.beam, self.beam)
        return ActiveTexts(whole.float(), whole, whole.clone(), whole.float(), symbols.float(), symbols)

    def _whole(self, *shape: int) -> Tensor:
        return torch.zeros(*shape, dtype=torch.long, device=self.state.device)
