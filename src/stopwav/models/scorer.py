"""What may follow each text in each frame: predictor and joiner over all hypotheses of a step at once.

Two things are never computed twice. The prediction of a text does not depend on the audio, so it is kept for as long as
the search may come back to it. And a text that is scored in one frame is scored in the remaining frames of the segment
with it: a text mostly stays in the beam, the joiner's weights are read once in place of four times, and a device is
waited for once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
        slots = [prefix.slot for prefix in new for _ in ahead]
        frames = list(ahead) * len(new)
        padding = self._rows - len(slots) if self._graphs else 0
        plan = [*frames, *[0] * padding, *slots, *[WASTE] * padding]
        packed = self._score(self._plan(plan)).cpu().numpy()[: len(slots)]
        for prefix, rows in zip(new, packed.reshape(len(new), len(ahead), -1), strict=True):
            self._known[prefix] = frame, rows

    def _predict_new(self, new: list[Prefix]) -> None:
        if not new:
            return
        if len(self.slots) < len(new):
            self._make_room(2 * len(self._predictions))
        # A text grows only from one that was just scored, so that its parent's prediction is still there.
        parents = [NOTHING if one.parent is None else one.parent.slot for one in new]
        for prefix in new:
            prefix.slot = self.slots.take()
        targets = [one.slot for one in new]
        symbols = [one.symbol for one in new]
        padding = self._texts - len(new) if self._graphs else 0
        nothing = [NOTHING] * padding
        self._predict(self._plan([*parents, *nothing, *symbols, *nothing, *targets, *[WASTE] * padding]))

    def _plan(self, numbers: list[int | None]) -> Tensor:
        plan = torch.tensor(numbers)
        return plan.pin_memory() if self._graphs else plan.to(self._predictions.device)

    def _predict_tensors(self, plan: Tensor) -> None:
        parents, symbols, targets = plan.chunk(3)
        predictions, states = self._predictor(symbols, self._states[parents])
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
        missing = count - before
        self._predictions = torch.cat(
            [self._predictions, self._predictions.new_zeros(missing, *self._predictions.shape[1:])]
        )
        self._states = torch.cat([self._states, self._states.new_zeros(missing, *self._states.shape[1:])])
        self.slots.add(range(max(before, WASTE + 1), count))
        self._predict: Callable[[Tensor], object] = self._predict_tensors
        self._score: Callable[[Tensor], Tensor] = self._score_tensors
        if self._graphs:
            plan = torch.full((3 * self._texts,), WASTE, device=self._states.device)
            self._predict = Graph(self._predict_tensors, [plan])
            plan = torch.zeros(2 * self._rows, dtype=torch.long, device=self._states.device)
            self._score = Graph(self._score_tensors, [plan])
