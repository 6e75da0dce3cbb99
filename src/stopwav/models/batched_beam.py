"""Beam search over many streams at once; its texts, their order and their scores are those of `BeamSearch`.

All texts that end one frame of a stream are records of that frame: those of the beam first, then those that grew by one
symbol, by two, and so on. Two records of a stream are the same text if they have the same hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from stopwav.models.batched_encoder import enlarged
from stopwav.models.batched_greedy import Hold, NewText, Rows, SearchWork
from stopwav.models.beam_tensors import BeamSizes, BeamSlots
from stopwav.models.best_symbols import best_symbols
from stopwav.models.search import MAX_SYMBOLS_PER_FRAME, SymbolRate
from stopwav.models.step_graphs import StepGraphs
from stopwav.models.transducer import JoinerStep, PredictorStep

# By how many symbols a text may grow in a frame before the tensors are made larger.
FIRST_LEVELS = 6
# Symbols of a text before the tensors are made larger: some two minutes of speech.
FIRST_LENGTH = 512
# The symbols that change in a text at once, nearly always.
SUFFIX = 16
# An odd number whose powers spread over 64 bits.
HASH_FACTOR = 0x5851F42D4C957F2D


class BatchedBeam:
    """The beams of many streams."""

    def __init__(
        self,
        predictor: PredictorStep,
        joiner: JoinerStep,
        blank: int,
        beam: int,
        slots: int,
        rows: Rows,
        graphs: StepGraphs,
        max_symbols: int = MAX_SYMBOLS_PER_FRAME,
        rate: SymbolRate | None = None,
    ) -> None:
        self._predictor, self._joiner, self._beam = predictor, joiner, beam
        self._rows, self._graphs = rows, graphs
        self.work = SearchWork()
        self._max_symbols, self._hold = max_symbols, Hold(rate)
        initial = predictor.initial_state[None]
        self._device = initial.device
        first = torch.full((1,), blank, device=self._device)
        prediction, state = predictor(first, initial, predictor.recurrent_gates(initial))
        self._initial = prediction[0].clone(), state[0].clone()
        self._sizes = BeamSizes(beam, rows.most, *self._initial)
        self._beams = self._sizes.beams(slots, FIRST_LENGTH)
        self._levels = min(FIRST_LEVELS, max_symbols)
        self._records = self._sizes.records(self._levels)
        self._active = self._sizes.active()
        whole = torch.zeros(1, dtype=torch.long, device=self._device)
        # The frame of the segment, by how many symbols the active texts grew in it, how many there are, and where.
        self._frame, self._level, self._count = whole.clone(), whole.clone(), whole.clone()
        self._places = whole.new_zeros(rows.most * beam + 1)
        self._ranks = torch.arange(beam, device=self._device)
        self._all_places = torch.arange(rows.most * beam, device=self._device)
        self._all_records = self._new_record_numbers()
        self._result = torch.zeros(rows.most + 1, 3 + SUFFIX, dtype=torch.int32, device=self._device)
        # No text of any beam is longer.
        self._longest = 0

    def grow(self, slots: int) -> None:
        """Have so many slots."""
        beams = self._beams
        self._beams = BeamSlots(*(enlarged(getattr(beams, field.name), slots) for field in fields(beams)))

    def reset(self, slots: Tensor) -> None:
        """Begin new streams in these slots: the empty text, and no other."""
        beams = self._beams
        beams.scores[slots] = torch.where(self._ranks == 0, 0.0, -torch.inf)
        beams.lengths[slots], beams.hashes[slots], beams.shown_lengths[slots] = 0, 0, 0
        beams.predictions[slots], beams.states[slots] = self._initial

    def record(self, size: int) -> None:
        """Record what a batch of this size needs; the rows must be padding."""
        for name, function in self._functions.items():
            if self._graphs.has((name, size)):
                continue
            self._frame.zero_()
            self._level.zero_()
            self._graphs.record((name, size), lambda function=function: function(size))  # type: ignore[misc]
        for count in self._graphs.sizes(size * self._beam):
            self._places.fill_(self._rows.most * self._beam)
            self._graphs.record(("extend", count), lambda count=count: self._extend(count))  # type: ignore[misc]

    def advance(self, count: int, frames: int) -> Iterator[NewText]:
        """Search at most so many frames of the first rows, and yield the best texts that changed."""
        size = self._graphs.size(count, self._rows.most)
        self._make_room()
        self._run("load", size)
        for _ in range(frames):
            self._run("begin_frame", size)
            self.work.scored += count * self._beam
            for level in range(1, self._max_symbols + 1):
                active = int(self._count)
                if not active:
                    break
                if level == self._levels and level < self._max_symbols:
                    self._add_levels()
                self.work.scored += active
                self.work.extended += active
                places = self._graphs.size(active, size * self._beam)
                self._graphs.run(("extend", places), lambda places=places: self._extend(places))  # type: ignore[misc]
                self._run("end_texts", size)
            self._run("end_frame", size)
        self._run("store", size)
        yield from self._changes(count)

    def beam_of(self, slot: int) -> tuple[list[list[int]], list[float]]:
        """Return the texts of a stream, best first, and their log-probabilities."""
        beams = self._beams
        present = (beams.scores[slot] > -torch.inf).nonzero()[:, 0].tolist()
        texts = [beams.symbols[slot, rank, : int(beams.lengths[slot, rank])].tolist() for rank in present]
        return texts, beams.scores[slot][present].tolist()

    @property
    def _functions(self) -> dict[str, Callable[[int], None]]:
        return {
            "load": self._load,
            "begin_frame": self._begin_frame,
            "end_texts": self._end_texts,
            "end_frame": self._end_frame,
            "store": self._store,
        }

    def _run(self, name: str, size: int) -> None:
        self._graphs.run((name, size), lambda: self._functions[name](size))

    # The steps of a batch.

    def _load(self, size: int) -> None:
        """Copy the beams of the batch from their slots."""
        slots, beams, records, beam = self._rows.slots[:size], self._beams, self._records, self._beam
        for name in ("scores", "lengths", "hashes", "predictions", "states"):
            getattr(records, name)[:size, :beam] = getattr(beams, name)[slots]
        self._frame.zero_()

    def _store(self, size: int) -> None:
        """Copy the beams of the batch to their slots, and leave what changed in the best texts."""
        slots, beams, records, beam = self._rows.slots[:size], self._beams, self._records, self._beam
        for name in ("scores", "lengths", "hashes", "predictions", "states"):
            getattr(beams, name)[slots] = getattr(records, name)[:size, :beam]
        best, length = beams.symbols[slots, 0], records.lengths[:size, 0]
        positions = torch.arange(best.shape[1], device=self._device)
        shorter = torch.minimum(length, beams.shown_lengths[slots])[:, None]
        same = (best == beams.shown[slots]) & (positions < shorter)
        kept = same.int().cumprod(dim=1).sum(dim=1)
        changed = (kept < length) | (length != beams.shown_lengths[slots])
        places = (kept[:, None] + positions[:SUFFIX]).clamp(max=best.shape[1] - 1)
        self._result[:size, 0] = torch.where(changed, kept, -1)
        self._result[:size, 1] = length
        self._result[:size, 2] = records.lengths[:size, :beam].amax(dim=1)
        self._result[:size, 3:] = best.gather(1, places)
        beams.shown[slots], beams.shown_lengths[slots] = best, length

    def _begin_frame(self, size: int) -> None:
        """Score the texts of the beam in the next frame; rows without one keep their beam."""
        records, active, beam = self._records, self._active, self._beam
        has_frame = self._has_frame(size)
        scores = records.scores[:size, :beam].clone()
        active.scores[:size] = torch.where(has_frame, scores, -torch.inf)
        records.scores[:size] = -torch.inf
        records.scores[:size, :beam] = torch.where(has_frame, -torch.inf, scores)
        records.roots[:size, :beam] = self._ranks
        self._level.zero_()
        encodings = self._rows.encodings[:size].index_select(1, self._frame)
        logits = self._joiner(encodings, records.predictions[:size, :beam])
        blank, best, symbols = best_symbols(logits.flatten(0, 1), beam)
        active.blank[:size] = blank.view(size, beam)
        active.next_scores[:size], active.next_symbols[:size] = best.view(size, beam, -1), symbols.view(size, beam, -1)
        self._end_texts(size)

    def _extend(self, count: int) -> None:
        """Predict and score the active texts, which grew by a symbol each; so many, wherever they are."""
        records, active, beam = self._records, self._active, self._beam
        places = self._places[:count]
        rows, ranks = places // beam, places % beam
        states = records.states[rows, active.parents[rows, ranks]]
        gates = self._predictor.recurrent_gates(states)
        predictions, after = self._predictor(active.symbols[rows, ranks], states, gates)
        own = self._level * beam + ranks
        records.predictions[rows, own], records.states[rows, own] = predictions, after
        encodings = self._rows.encodings[rows, self._frame]
        blank, best, symbols = best_symbols(self._joiner(encodings, predictions), beam)
        active.blank[rows, ranks] = blank
        active.next_scores[rows, ranks], active.next_symbols[rows, ranks] = best, symbols

    def _end_texts(self, size: int) -> None:
        """End the active texts with a blank, and leave those that may grow by one more symbol."""
        records, beam = self._records, self._beam
        own = self._level.clamp(max=self._levels) * beam + self._ranks
        self._end(size, own)
        top, chosen = self._candidates(size, own).topk(beam)
        # Of so many that ended, the worst is what a growing text must beat; of fewer, it is minus infinity.
        floor = records.scores[:size].topk(beam).values[:, -1:]
        grows = (top > floor) & (self._level < self._max_symbols)
        self._grow_records(size, own, chosen)
        self._active.scores[:size] = torch.where(grows, top, -torch.inf)
        self._level += 1
        self._find_active(size, grows.flatten())

    def _end(self, size: int, own: Tensor) -> None:
        records, active = self._records, self._active
        scores, hashes = records.scores[:size], records.hashes[:size]
        ended = active.scores[:size] + active.blank[:size]
        same = hashes[:, None] == hashes.index_select(1, own)[:, :, None]
        same &= (self._all_records < own[0]) & (scores > -torch.inf)[:, None] & (ended > -torch.inf)[:, :, None]
        met, earlier = same.any(dim=2), same.int().argmax(dim=2)
        both = torch.logaddexp(scores.gather(1, earlier), ended)
        # Rows without this frame have no active texts, and keep their scores.
        ended = torch.maximum(ended, scores.index_select(1, own))
        scores.scatter_(1, torch.where(met, earlier, own), torch.where(met, both, ended))

    def _candidates(self, size: int, own: Tensor) -> Tensor:
        """Return the scores of all symbols that may follow the active texts: `(rows, beam · beam)`."""
        active = self._active
        frames = self._rows.before[:size, None] + self._frame + 1
        bonus = self._hold.bonus(frames, self._records.lengths[:size].index_select(1, own))
        total = active.scores[:size, :, None] + active.next_scores[:size]
        return (total + (bonus[:, :, None] if bonus.dim() else bonus)).flatten(1)

    def _grow_records(self, size: int, own: Tensor, chosen: Tensor) -> None:
        """Make the records of the texts that grow; of those that do not, they have no score."""
        records, active, beam = self._records, self._active, self._beam
        # The last symbol allowed is taken by texts that do not grow any more: their records are written nowhere else.
        after = torch.minimum(own + beam, self._all_records[-beam:])
        parents = own[0] + chosen // beam
        symbols = active.next_symbols[:size].flatten(1).gather(1, chosen)
        hashes = records.hashes[:size].gather(1, parents) * HASH_FACTOR + symbols + 1
        grown = records.grown[:size].gather(1, parents[:, :, None].expand(-1, -1, self._levels))
        level = self._level.clamp(max=self._levels - 1).expand(size, beam)[:, :, None]
        grown = grown.scatter(2, level, symbols[:, :, None].to(grown.dtype))
        lengths, roots = records.lengths[:size].gather(1, parents) + 1, records.roots[:size].gather(1, parents)
        live = self._level < min(self._levels, self._max_symbols)
        for name, values in {"hashes": hashes, "grown": grown, "lengths": lengths, "roots": roots}.items():
            tensor = getattr(records, name)[:size]
            keep = tensor.index_select(1, after)
            tensor.index_copy_(1, after, torch.where(live, values, keep))
        active.parents[:size], active.symbols[:size] = parents, symbols

    def _find_active(self, size: int, grows: Tensor) -> None:
        """List the places of the active texts, so that no others are computed."""
        places = grows.cumsum(0)
        self._count.copy_(places[-1:])
        nowhere = self._rows.most * self._beam
        self._places.fill_(nowhere)
        target = torch.where(grows, places - 1, nowhere)
        self._places.scatter_(0, target, self._all_places[: len(grows)])
        self._places[nowhere:] = nowhere

    def _end_frame(self, size: int) -> None:
        """Keep the best texts that ended, by their score per symbol."""
        records, beams, beam = self._records, self._beams, self._beam
        slots = self._rows.slots[:size]
        ranks = records.scores[:size] / (records.lengths[:size] + 2)
        best = torch.where(self._has_frame(size), ranks.topk(beam).indices, self._ranks)
        roots = records.roots[:size].gather(1, best)
        lengths, before = records.lengths[:size].gather(1, best), records.lengths[:size, :beam].gather(1, roots)
        grown = records.grown[:size].gather(1, best[:, :, None].expand(-1, -1, self._levels))
        symbols = beams.symbols[slots].take_along_dim(roots[:, :, None], dim=1)
        positions = before[:, :, None] + torch.arange(self._levels, device=self._device)
        last = symbols.shape[2] - 1
        positions = torch.where(positions < lengths[:, :, None], positions, last).clamp(max=last)
        beams.symbols[slots] = symbols.scatter_(2, positions, grown)
        rows = torch.arange(size, device=self._device)[:, None]
        for name in ("scores", "lengths", "hashes", "predictions", "states"):
            tensor = getattr(records, name)
            tensor[:size, :beam] = tensor[rows, best]
        self._frame += 1

    def _has_frame(self, size: int) -> Tensor:
        return (self._frame < self._rows.new[:size])[:, None]

    # What comes back, and tensors that become too small.

    def _changes(self, count: int) -> Iterator[NewText]:
        result = self._result[:count].cpu().numpy()
        self._longest = max(self._longest, int(result[:, 2].max()))
        for row in np.flatnonzero(result[:, 0] >= 0).tolist():
            kept, length, _, *symbols = result[row].tolist()
            if length - kept > SUFFIX:
                symbols = self._beams.symbols[self._rows.slots[row], 0, kept:length].tolist()
            yield NewText(row, kept, symbols[: length - kept])

    def _make_room(self) -> None:
        """Have room for the longest text that the next segment can make, and one place that nobody reads."""
        present = self._beams.symbols.shape[2]
        more = self._longest + self._rows.encodings.shape[1] * self._levels + 1 - present
        if more <= 0:
            return
        beams, more = self._beams, max(more, present)
        beams.symbols = torch.nn.functional.pad(beams.symbols, (0, more))
        beams.shown = torch.nn.functional.pad(beams.shown, (0, more))
        self._graphs.forget("end_frame", "store")

    def _add_levels(self) -> None:
        """Let texts grow by more symbols in a frame, keeping the records of this one."""
        before = self._records
        self._levels = min(2 * self._levels, self._max_symbols)
        self._records = after = self._sizes.records(self._levels)
        count = before.scores.shape[1]
        after.scores.fill_(-torch.inf)
        for field in fields(after):
            old, new = getattr(before, field.name), getattr(after, field.name)
            (new[:, :count, : old.shape[2]] if field.name == "grown" else new[:, :count]).copy_(old)
        self._all_records = self._new_record_numbers()
        self._graphs.forget(*self._functions, "extend")
        self._make_room()

    def _new_record_numbers(self) -> Tensor:
        return torch.arange(self._records.scores.shape[1], device=self._device)
