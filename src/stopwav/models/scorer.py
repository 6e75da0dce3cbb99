"""What may follow each text in each frame: predictor and joiner over all hypotheses of a step at once.

Two things are never computed twice. The prediction of a text does not depend on the audio, so it is kept for as long as
the search may come back to it, and so is what it brings into the texts that grow from it. And a text that is scored in
one frame is scored in the remaining frames of the segment too: it mostly stays in the beam, the joiner's weights are
read once in place of four times, and a device is waited for once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stopwav.models.graph import Graph
from stopwav.models.prefixes import Prefix, Slots
from stopwav.models.text_step import JoinerStep, PredictorStep

# A beam of 10 holds some 30 predictions; more places are made where many streams are open.
FIRST_SLOTS = 512
# Place 0 holds the state before any symbol; place 1 takes what the padded rows of a graph compute.
NOTHING, WASTE = 0, 1


@dataclass(frozen=True)
class Following:
    """For each text: the log-probability of blank, and of the likeliest symbols, best first."""

    blank: NDArray[np.float32]  # (texts,)
    scores: NDArray[np.float32]  # (texts, best)
    symbols: NDArray[np.float32]  # (texts, best), whole numbers


class Scorer:
    """Scores for all streams of one engine: at most `texts` in a call, the `texts` likeliest symbols of each.

    `frames` is the most that are heard at once.
    """

    def __init__(
        self, predictor: PredictorStep, joiner: JoinerStep, texts: int, frames: int, graphs: bool = False
    ) -> None:
        self._predictor = predictor
        self._joiner = joiner
        self._texts = texts
        self._rows = texts * frames
        self._graphs = graphs
        self._frames = 0
        self._known: dict[Prefix, tuple[int, NDArray[np.float32]]] = {}
        initial = predictor.initial_state
        self._encodings = initial.new_zeros(frames, predictor.encoding)
        self._predictions = initial.new_zeros(0, predictor.encoding)
        self._states = initial.new_zeros(0, *initial.shape)
        self._pasts = initial.new_zeros(0, initial.shape[0], 4 * initial.shape[2])
        # The places whose pasts are known; nothing comes into a text from before its first symbol.
        self._grown = {NOTHING}
        self.slots = Slots()
        self._make_room(FIRST_SLOTS)

    def hear(self, encodings: Tensor) -> None:
        """Take the encodings of the frames that the next calls ask about."""
        self._known.clear()
        self._frames = len(encodings)
        self._encodings[: self._frames].copy_(encodings)

    def following(self, frame: int, prefixes: Sequence[Prefix]) -> Following:
        """What may follow these texts in a frame of the encodings heard last; frames are asked for in order."""
        new = [prefix for prefix in prefixes if prefix not in self._known]
        if new:
            self._score_new(frame, new)
        rows = np.stack([rows[frame - first] for first, rows in map(self._known.__getitem__, prefixes)])
        return Following(rows[:, 0], rows[:, 1 : self._texts + 1], rows[:, self._texts + 1 :])

    def _score_new(self, frame: int, new: list[Prefix]) -> None:
        self._predict_new([prefix for prefix in new if prefix.slot is None])
        ahead = range(frame, self._frames)
        slots = [cast(int, prefix.slot) for prefix in new for _ in ahead]
        length = self._rows if self._graphs else 0
        plan = [*_padded(list(ahead) * len(new), length, 0), *_padded(slots, length, WASTE)]
        packed = self._score(self._plan(plan)).cpu().numpy()[: len(slots)]
        for prefix, rows in zip(new, packed.reshape(len(new), len(ahead), -1), strict=True):
            self._known[prefix] = frame, rows

    def _predict_new(self, new: list[Prefix]) -> None:
        if not new:
            return
        if len(self.slots) < len(new):
            self._make_room(2 * len(self._predictions))
        # A text grows only from one that was just scored, so that its parent's prediction is still there.
        parents = [NOTHING if one.parent is None else cast(int, one.parent.slot) for one in new]
        fresh = sorted({slot for slot in parents if slot not in self._grown})
        if fresh:
            self._grow(self._plan(_padded(fresh, self._texts if self._graphs else 0, WASTE)))
            self._grown.update(fresh)
        for prefix in new:
            prefix.slot = self.slots.take()
            self._grown.discard(prefix.slot)
        columns = (parents, NOTHING), ([one.symbol for one in new], 0), ([cast(int, one.slot) for one in new], WASTE)
        rows = self._texts if self._graphs else 0
        self._predict(self._plan([number for numbers, fill in columns for number in _padded(numbers, rows, fill)]))

    def _plan(self, numbers: list[int]) -> Tensor:
        plan = torch.tensor(numbers)
        return plan.pin_memory() if self._graphs else plan.to(self._predictions.device)

    def _grow_tensors(self, plan: Tensor) -> None:
        """What texts bring into all that grow from them, computed once, for those few that anything grows from."""
        self._pasts.index_copy_(0, plan, self._predictor.pasts(self._states[plan]))

    def _predict_tensors(self, plan: Tensor) -> None:
        parents, symbols, targets = plan.chunk(3)
        predictions, states = self._predictor(symbols, self._states[parents], self._pasts[parents])
        self._predictions.index_copy_(0, targets, predictions)
        self._states.index_copy_(0, targets, states)

    def _score_tensors(self, plan: Tensor) -> Tensor:
        """Blank's score, the best scores and the best symbols in one tensor: one copy brings them to the host."""
        frames, slots = plan.chunk(2)
        logits = self._joiner(self._encodings[frames], self._predictions[slots])
        scores = logits.float().log_softmax(-1)
        best, symbols = scores[:, :-1].topk(self._texts)
        return torch.cat([scores[:, -1:], best, symbols.float()], dim=1)

    def _make_room(self, count: int) -> None:
        """Make places up to a count and keep what the present ones hold."""
        before = len(self._predictions)
        self._predictions, self._states, self._pasts = (
            torch.cat([tensor, tensor.new_zeros(count - before, *tensor.shape[1:])])
            for tensor in (self._predictions, self._states, self._pasts)
        )
        self.slots.add(range(max(before, WASTE + 1), count))
        self._grow: Callable[[Tensor], object] = self._grow_tensors
        self._predict: Callable[[Tensor], object] = self._predict_tensors
        self._score: Callable[[Tensor], Tensor] = self._score_tensors
        if self._graphs:
            waste = torch.full((max(3 * self._texts, 2 * self._rows),), WASTE, device=self._states.device)
            self._grow = Graph(self._grow_tensors, [waste[: self._texts]])
            self._predict = Graph(self._predict_tensors, [waste[: 3 * self._texts]])
            self._score = Graph(self._score_tensors, [torch.zeros_like(waste[: 2 * self._rows])])


def _padded(numbers: list[int], length: int, fill: int) -> list[int]:
    """The numbers, filled up to a length: a graph has as many rows every time."""
    return [*numbers, *[fill] * (length - len(numbers))]
