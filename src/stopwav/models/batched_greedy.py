"""Greedy search over many streams at once; its decisions are those of `GreedySearch`, stream by stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stopwav.models.batched_encoder import enlarged
from stopwav.models.search import HOLD_NATS, MAX_SYMBOLS_PER_FRAME, SymbolRate
from stopwav.models.step_graphs import StepGraphs
from stopwav.models.transducer import JoinerStep, PredictorStep


@dataclass(frozen=True)
class Rows:
    """The streams of a batch, row by row, in tensors that stay where they are; the last row is for padding."""

    slots: Tensor  # (rows + 1,): where the state of each is; 0 is for padding
    before: Tensor  # (rows + 1,): its frames before this segment
    new: Tensor  # (rows + 1,): its frames in this segment
    encodings: Tensor  # (rows + 1, frames, encoding)

    @property
    def most(self) -> int:
        """How many streams fit."""
        return len(self.slots) - 1


@dataclass(frozen=True)
class NewText:
    """What changed in the text of a row: the symbols that stay, and those that follow them now."""

    row: int
    kept: int
    symbols: list[int]


@dataclass
class SearchWork:
    """The work that searches did: texts that were scored in a frame, and texts that were extended."""

    scored: int = 0
    extended: int = 0


class Hold:
    """The bonus of `SymbolRate`, on the device and for many texts; nothing without a rate."""

    def __init__(self, rate: SymbolRate | None) -> None:
        self._rate = rate

    def bonus(self, frames: Tensor, lengths: Tensor) -> Tensor:
        """Return what to add to the scores of symbols, after so many frames and symbols of each stream."""
        if self._rate is None:
            return torch.zeros((), device=frames.device)
        # In double precision and then rounded, as the host does it.
        return HOLD_NATS * ((frames.double() * self._rate.per_frame).float() - lengths.float())


class BatchedGreedy:
    """The texts of many streams; each takes the likeliest symbol at every step.

    A round scores the text of each stream in all frames of the segment at once, and takes the first symbol that beats
    the blank. The next round has only the streams that took one.
    """

    def __init__(
        self,
        predictor: PredictorStep,
        joiner: JoinerStep,
        blank: int,
        slots: int,
        rows: Rows,
        graphs: StepGraphs,
        max_symbols: int = MAX_SYMBOLS_PER_FRAME,
        rate: SymbolRate | None = None,
    ) -> None:
        self._predictor, self._joiner = predictor, joiner
        self._rows, self._graphs = rows, graphs
        self.work = SearchWork()
        self._max_symbols, self._hold = max_symbols, Hold(rate)
        initial = predictor.initial_state[None]
        first = torch.full((1,), blank, device=initial.device)
        prediction, state = predictor(first, initial, predictor.recurrent_gates(initial))
        self._initial = prediction[0].clone(), state[0].clone()
        self._predictions = prediction.new_zeros(slots, *prediction.shape[1:])
        self._states = state.new_zeros(slots, *state.shape[1:])
        whole = torch.zeros(rows.most + 1, dtype=torch.long, device=initial.device)
        self._lengths = whole.new_zeros(slots)
        # Of the batch: the next frame of each row and the symbols it took there, and the rows of a round and theirs.
        self._frame, self._taken, self._round, self._symbols = (whole.clone() for _ in range(4))
        self._frames = torch.arange(rows.encodings.shape[1], device=initial.device)

    def grow(self, slots: int) -> None:
        """Have so many slots."""
        self._predictions, self._states = enlarged(self._predictions, slots), enlarged(self._states, slots)
        self._lengths = enlarged(self._lengths, slots)

    def reset(self, slots: Tensor) -> None:
        """Begin new streams in these slots."""
        self._predictions[slots], self._states[slots] = self._initial
        self._lengths[slots] = 0

    def record(self, size: int) -> None:
        """Record what a batch of this size needs; the rows must be padding."""
        for count in [*self._graphs.sizes(size)]:
            self._round.fill_(self._rows.most)
            self._graphs.record(("score", count), lambda count=count: self._score(count))  # type: ignore[misc]
            self._graphs.record(("extend", count), lambda count=count: self._extend(count))  # type: ignore[misc]

    def advance(self, count: int, frames: int) -> Iterator[NewText]:
        """Search at most so many frames of the first rows, and yield the texts that changed."""
        self._frame.zero_()
        self._taken.zero_()
        rows = np.arange(count)
        step = "score"
        while len(rows):
            size = self._graphs.size(len(rows), self._rows.most)
            self.work.scored += len(rows) * frames
            self.work.extended += len(rows) if step == "extend" else 0
            self._set(self._round, rows, size, self._rows.most)
            function = self._score if step == "score" else self._extend
            self._graphs.run((step, size), lambda size=size, function=function: function(size))  # type: ignore[misc]
            symbols = self._symbols[: len(rows)].cpu().numpy()
            emitted = symbols >= 0
            rows, symbols = rows[emitted], symbols[emitted]
            yield from (NewText(row, -1, [symbol]) for row, symbol in zip(rows.tolist(), symbols.tolist(), strict=True))
            self._set(self._symbols, symbols, self._graphs.size(max(1, len(rows)), self._rows.most), 0)
            step = "extend"

    def _set(self, target: Tensor, values: NDArray[np.int64], size: int, fill: int) -> None:
        padded = np.full(size, fill, np.int64)
        padded[: len(values)] = values
        target[:size].copy_(torch.from_numpy(padded))

    def _score(self, count: int) -> None:
        """Score the texts of the rows of this round, and leave the symbol that each takes, −1 where it takes none."""
        rows = self._round[:count]
        slots, next_frame, taken = self._rows.slots[rows], self._frame[rows], self._taken[rows]
        logits = self._joiner(self._rows.encodings[rows], self._predictions[slots][:, None])
        best, symbols = logits[..., :-1].max(dim=-1)
        frames = self._rows.before[rows][:, None] + self._frames + 1
        bonus = self._hold.bonus(frames, self._lengths[slots][:, None])
        emits = ~(logits[..., -1].float() >= best.float() + bonus)
        emits &= (self._frames >= next_frame[:, None]) & (self._frames < self._rows.new[rows][:, None])
        end = len(self._frames)
        first = torch.where(emits, self._frames, end).amin(dim=1)
        found = first < end
        symbol = symbols.gather(1, first.clamp(max=end - 1)[:, None])[:, 0]
        taken = torch.where(first == next_frame, taken, 0) + 1
        full = taken >= self._max_symbols
        self._frame[rows] = first + full
        self._taken[rows] = torch.where(full, 0, taken)
        self._lengths[slots] += found
        self._symbols[:count] = torch.where(found, symbol, -1)

    def _extend(self, count: int) -> None:
        """Extend the texts of the rows of this round by the symbols they took, and score them."""
        slots = self._rows.slots[self._round[:count]]
        states = self._states[slots]
        # Rows of padding took none.
        symbols = self._symbols[:count].clamp(min=0)
        predictions, after = self._predictor(symbols, states, self._predictor.recurrent_gates(states))
        self._predictions[slots], self._states[slots] = predictions, after
        self._score(count)
