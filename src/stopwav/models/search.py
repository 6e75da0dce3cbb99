"""Search over a transducer's scores: one stream, frame by frame, with its state, and the scorer that it asks."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stopwav.models.transducer import Graph, JoinerStep, PredictorStep

# More symbols than this in one frame of 40 ms are not speech; the published decoder's limit.
MAX_SYMBOLS_PER_FRAME = 100
# Twice the spread of untrained logits: greedy and beams then emit 3.2 to 3.7 symbols a second, without it 1.4 to 4.7.
HOLD_NATS = 1.0


@dataclass(frozen=True)
class SymbolRate:
    """A rate at which untrained weights are held, so that every search over them emits as often.

    A text is offered its next symbol for a higher score while it is behind the rate, for a lower one while it is ahead.
    """

    per_frame: float

    def bonus(self, texts: Sequence[Prefix], frames: int) -> NDArray[np.float32]:
        """Return what to add to the scores of each text's symbols, after so many frames of the stream."""
        lengths = np.array([text.length for text in texts], np.float32)
        return np.float32(HOLD_NATS) * (np.float32(self.per_frame * frames) - lengths)


class BeamSearch:
    """The likeliest texts of one stream, best first, and their log-probabilities.

    In each frame texts grow by symbols until none of them is likelier than the worst of the `beam` best texts that
    ended the frame with a blank; texts that are reached on several paths are one, with the sum of their probabilities.
    Texts are ranked by their score per symbol, where the blank at the root and an end count as symbols.
    """

    def __init__(
        self,
        scorer: Scorer,
        blank: int,
        beam: int,
        max_symbols: int = MAX_SYMBOLS_PER_FRAME,
        rate: SymbolRate | None = None,
    ) -> None:
        self._scorer = scorer
        self._beam = beam
        self._max_symbols = max_symbols
        self._rate = rate
        self._frames = 0
        self.texts = [Prefix(None, blank)]
        self.scores = np.zeros(1, np.float32)
        self._cached: set[Prefix] = set()

    def advance(self, encodings: Tensor) -> None:
        """Search the next frames."""
        self._scorer.start_segment(encodings)
        scored = set(self.texts)
        for frame in range(len(encodings)):
            self._advance(frame, scored)
        # A text of the beam was scored in these frames; the predictions of all others are not needed any more.
        self._scorer.slots.release(self._cached - scored)
        self._cached = scored

    def best(self) -> list[int]:
        """Return the best text so far."""
        return self.texts[0].symbols()

    def close(self) -> None:
        """Release the slots of the stream."""
        self._scorer.slots.release(self._cached)
        self._cached = set()

    def _advance(self, frame: int, scored: set[Prefix]) -> None:
        active, scores = self.texts, self.scores
        self._frames += 1
        ended: dict[Prefix, np.float32] = {}
        for emitted in range(self._max_symbols + 1):
            next_symbols = self._scorer.next_symbols(frame, active)
            scored.update(active)
            for text, score in zip(active, scores + next_symbols.blank, strict=True):
                ended[text] = np.logaddexp(ended[text], score) if text in ended else score
            if emitted == self._max_symbols:
                break
            total = scores[:, None] + next_symbols.scores
            if self._rate is not None:
                total += self._rate.bonus(active, self._frames)[:, None]
            active, scores = self._grow(active, total, next_symbols.symbols, self._floor(ended))
            if not active:
                break
        ranked = heapq.nlargest(self._beam, ended.items(), key=lambda item: item[1] / (item[0].length + 2))
        self.texts = [text for text, _ in ranked]
        self.scores = np.array([score for _, score in ranked], np.float32)

    def _floor(self, ended: dict[Prefix, np.float32]) -> float:
        """Return the score that a growing text must beat: the worst of the best that ended, once these are enough."""
        if len(ended) < self._beam:
            return -np.inf
        return float(heapq.nlargest(self._beam, ended.values())[-1])

    def _grow(
        self, active: list[Prefix], total: np.ndarray, symbols: np.ndarray, floor: float
    ) -> tuple[list[Prefix], np.ndarray]:
        order = np.argsort(-total, axis=None, kind="stable")[: self._beam]
        order = order[total.ravel()[order] > floor]
        rows = order // total.shape[1]
        grown = [active[row].child(int(symbol)) for row, symbol in zip(rows, symbols.ravel()[order], strict=True)]
        return grown, total.ravel()[order]


class GreedySearch:
    """The text of one stream that takes the likeliest symbol at every step."""

    def __init__(
        self, scorer: Scorer, blank: int, max_symbols: int = MAX_SYMBOLS_PER_FRAME, rate: SymbolRate | None = None
    ) -> None:
        self._scorer = scorer
        self._max_symbols = max_symbols
        self._rate = rate
        self._frames = 0
        self._text = Prefix(None, blank)

    def advance(self, encodings: Tensor) -> None:
        """Search the next frames."""
        self._scorer.start_segment(encodings)
        for frame in range(len(encodings)):
            self._frames += 1
            for _ in range(self._max_symbols):
                next_symbols = self._scorer.next_symbols(frame, [self._text])
                self._release(self._text.parent)
                bonus = 0.0 if self._rate is None else self._rate.bonus([self._text], self._frames)[0]
                if next_symbols.blank[0] >= next_symbols.scores[0, 0] + bonus:
                    break
                self._text = self._text.child(int(next_symbols.symbols[0, 0]))

    def best(self) -> list[int]:
        """Return the text so far."""
        return self._text.symbols()

    def close(self) -> None:
        """Release the slots of the stream."""
        self._release(self._text)
        self._release(self._text.parent)

    def _release(self, text: Prefix | None) -> None:
        if text is not None:
            self._scorer.slots.release([text])


# A beam of 10 holds some 30 predictions; slots are added where many streams are open.
FIRST_SLOTS = 512
# Slot 0 holds the state before any symbol; slot 1 takes the results of the padded rows of a graph.
INITIAL, SCRATCH = 0, 1


class Prefix:
    """A text so far, as a tree: its parent and one more symbol; equal texts are one object.

    `slot` is where its prediction is cached, `None` where it is not.
    """

    __slots__ = ("children", "length", "parent", "slot", "symbol")

    def __init__(self, parent: Prefix | None, symbol: int) -> None:
        self.parent = parent
        self.symbol = symbol
        self.length: int = 0 if parent is None else parent.length + 1
        self.children: dict[int, Prefix] = {}
        self.slot: int | None = None

    def child(self, symbol: int) -> Prefix:
        """Return this text with one more symbol."""
        child = self.children.get(symbol)
        if child is None:
            child = self.children[symbol] = Prefix(self, symbol)
        return child

    def symbols(self) -> list[int]:
        """Return the text, without the blank at its root."""
        symbols = []
        node = self
        while node.parent is not None:
            symbols.append(node.symbol)
            node = node.parent
        return symbols[::-1]

    def cut(self) -> None:
        """Remove this text from the tree, and every ancestor that only led here."""
        node = self
        while node.parent is not None and node.slot is None and not node.children:
            del node.parent.children[node.symbol]
            node = node.parent


class Slots:
    """The free slots for predictions; all streams of an engine share them."""

    def __init__(self) -> None:
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._free)

    def take(self) -> int:
        """Return a free slot, which is then in use."""
        return self._free.pop()

    def release(self, prefixes: Iterable[Prefix]) -> None:
        """Free the slots of these prefixes, and cut those that lead to no other."""
        for prefix in prefixes:
            if prefix.slot is not None:
                self._free.append(prefix.slot)
                prefix.slot = None
                prefix.cut()

    def add(self, slots: range) -> None:
        """Add free slots."""
        self._free.extend(reversed(slots))


@dataclass(frozen=True)
class NextSymbols:
    """For each text: the log-probability of blank, and of the likeliest symbols, best first."""

    blank: NDArray[np.float32]  # (texts,)
    scores: NDArray[np.float32]  # (texts, best)
    symbols: NDArray[np.float32]  # (texts, best), whole numbers


class Scorer:
    """Scores for all streams of an engine: at most `texts` in a call, the `texts` likeliest symbols of each.

    `frames` is the largest number of frames in a segment.
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
        # By prefix: the first frame that was scored, and the scores from there on.
        self._scored: dict[Prefix, tuple[int, NDArray[np.float32]]] = {}
        initial = predictor.initial_state
        self._encodings = initial.new_zeros(frames, predictor.encoding)
        self._predictions = initial.new_zeros(0, predictor.encoding)
        self._states = initial.new_zeros(0, *initial.shape)
        self._gates = initial.new_zeros(0, initial.shape[0], 4 * initial.shape[2])
        # The slots whose recurrent gates are computed; before the first symbol they are 0.
        self._with_gates = {INITIAL}
        self.slots = Slots()
        self._add_slots(FIRST_SLOTS)

    def start_segment(self, encodings: Tensor) -> None:
        """Set the encodings of the frames that the next calls refer to."""
        self._scored.clear()
        self._frames = len(encodings)
        self._encodings[: self._frames].copy_(encodings)

    def next_symbols(self, frame: int, prefixes: Sequence[Prefix]) -> NextSymbols:
        """Return what may follow these texts in a frame of the segment; frames must be requested in order."""
        new = [prefix for prefix in prefixes if prefix not in self._scored]
        if new:
            self._score_new(frame, new)
        rows = np.stack([rows[frame - first] for first, rows in map(self._scored.__getitem__, prefixes)])
        return NextSymbols(rows[:, 0], rows[:, 1 : self._texts + 1], rows[:, self._texts + 1 :])

    def _score_new(self, frame: int, new: list[Prefix]) -> None:
        self._predict_new([prefix for prefix in new if prefix.slot is None])
        remaining = range(frame, self._frames)
        slots = [cast(int, prefix.slot) for prefix in new for _ in remaining]
        length = self._rows if self._graphs else 0
        indices = [*_padded(list(remaining) * len(new), length, 0), *_padded(slots, length, SCRATCH)]
        packed = self._score(self._index_tensor(indices)).cpu().numpy()[: len(slots)]
        for prefix, rows in zip(new, packed.reshape(len(new), len(remaining), -1), strict=True):
            self._scored[prefix] = frame, rows

    def _predict_new(self, new: list[Prefix]) -> None:
        if not new:
            return
        if len(self.slots) < len(new):
            self._add_slots(2 * len(self._predictions))
        # Only a text that was just scored is extended, so its prediction is still cached.
        parents = [INITIAL if prefix.parent is None else cast(int, prefix.parent.slot) for prefix in new]
        without_gates = sorted({slot for slot in parents if slot not in self._with_gates})
        rows = self._texts if self._graphs else 0
        if without_gates:
            self._compute_gates(self._index_tensor(_padded(without_gates, rows, SCRATCH)))
            self._with_gates.update(without_gates)
        for prefix in new:
            prefix.slot = self.slots.take()
            self._with_gates.discard(prefix.slot)
        symbols, slots = [prefix.symbol for prefix in new], [cast(int, prefix.slot) for prefix in new]
        columns = (parents, INITIAL), (symbols, 0), (slots, SCRATCH)
        self._predict(self._index_tensor([index for column, fill in columns for index in _padded(column, rows, fill)]))

    def _index_tensor(self, indices: list[int]) -> Tensor:
        tensor = torch.tensor(indices)
        return tensor.pin_memory() if self._graphs else tensor.to(self._predictions.device)

    def _compute_gates_tensors(self, slots: Tensor) -> None:
        """Compute what texts add to all that extend them, once, for the few that are extended."""
        self._gates.index_copy_(0, slots, self._predictor.recurrent_gates(self._states[slots]))

    def _predict_tensors(self, indices: Tensor) -> None:
        parents, symbols, slots = indices.chunk(3)
        predictions, states = self._predictor(symbols, self._states[parents], self._gates[parents])
        self._predictions.index_copy_(0, slots, predictions)
        self._states.index_copy_(0, slots, states)

    def _score_tensors(self, indices: Tensor) -> Tensor:
        """Return blank's score, the best scores and the best symbols in one tensor, so that one copy suffices."""
        frames, slots = indices.chunk(2)
        logits = self._joiner(self._encodings[frames], self._predictions[slots])
        scores = logits.float().log_softmax(-1)
        best, symbols = scores[:, :-1].topk(self._texts)
        return torch.cat([scores[:, -1:], best, symbols.float()], dim=1)

    def _add_slots(self, count: int) -> None:
        """Add slots up to a count and keep the contents of the present ones."""
        before = len(self._predictions)
        self._predictions, self._states, self._gates = (
            torch.cat([tensor, tensor.new_zeros(count - before, *tensor.shape[1:])])
            for tensor in (self._predictions, self._states, self._gates)
        )
        self.slots.add(range(max(before, SCRATCH + 1), count))
        self._compute_gates: Callable[[Tensor], object] = self._compute_gates_tensors
        self._predict: Callable[[Tensor], object] = self._predict_tensors
        self._score: Callable[[Tensor], Tensor] = self._score_tensors
        if self._graphs:
            scratch = torch.full((max(3 * self._texts, 2 * self._rows),), SCRATCH, device=self._states.device)
            self._compute_gates = Graph(self._compute_gates_tensors, [scratch[: self._texts]])
            self._predict = Graph(self._predict_tensors, [scratch[: 3 * self._texts]])
            self._score = Graph(self._score_tensors, [torch.zeros_like(scratch[: 2 * self._rows])])


def _padded(indices: list[int], length: int, fill: int) -> list[int]:
    """Return the indices, filled up to a length: a graph has the same number of rows every time."""
    return [*indices, *[fill] * (length - len(indices))]
