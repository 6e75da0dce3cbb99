"""Many streams of the Emformer RNN-T, advanced together: their state in slots of shared tensors on the device."""

from __future__ import annotations

import copy
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stopwav.engines.emformer_session import SharedParts
from stopwav.errors import StopwavError
from stopwav.measure.stages import stage
from stopwav.models.batched_beam import BatchedBeam
from stopwav.models.batched_encoder import BatchedEncoder, BatchedFeatures
from stopwav.models.batched_greedy import BatchedGreedy, NewText, Rows, SearchWork
from stopwav.models.features import HOP, LOGMEL_HALF_WINDOW
from stopwav.models.step_graphs import StepGraphs
from stopwav.speech.events import Hypothesis

# Slot 0 holds the state of rows that only fill up a batch.
PADDING = 0
NO_AUDIO = np.zeros(0, np.float32)

Item = TypeVar("Item")
MakeSearch = Callable[[int, Rows, StepGraphs], BatchedGreedy | BatchedBeam]


class SlotStream:
    """A stream of the batch: its slot, its audio that does not fill a segment yet, and its text."""

    def __init__(self, slot: int, release: Callable[[int], None]) -> None:
        self.slot = slot
        self.waiting = NO_AUDIO
        self.ended = False
        self.symbols: list[int] = []
        # Whether symbols changed since the text was made, and whether they did so at the end only.
        self.changed, self.only_more = False, True
        self.text, self.text_symbols = "", 0
        # A stream that is dropped without its end frees its slot too.
        self.release = weakref.finalize(self, release, slot)

    def take(self, new: NewText) -> None:
        """Take note of new symbols."""
        if new.kept >= 0:
            self.only_more = self.only_more and new.kept >= self.text_symbols
            del self.symbols[new.kept :]
        self.symbols += new.symbols
        self.changed = True


class StreamBatch:
    """All streams of an engine that are advanced together, at most `most` of them in one step."""

    def __init__(self, parts: SharedParts, make_search: MakeSearch, streams: int, most: int, graphs: bool) -> None:
        self._parts = parts
        self._shape = shape = parts.encoder.shape
        self._samples = shape.segment * HOP
        self._device = device = parts.device
        self._graphs = StepGraphs(graphs)
        self._slots = streams + 1
        self._free = deque(range(1, self._slots))
        self._new: list[int] = []
        features = parts.features if device.type == "cpu" else copy.deepcopy(parts.features).to(device)
        self._features = BatchedFeatures(features, parts.encoder, self._slots)
        self._encoder = BatchedEncoder(parts.encoder, self._slots)
        whole = torch.zeros(most + 1, dtype=torch.long, device=device)
        encodings = torch.zeros(
            most + 1, shape.segment_frames, shape.encoding, dtype=parts.encoder.dtype, device=device
        )
        self._rows = Rows(whole, whole.clone(), whole.clone(), encodings)
        self._frames = encodings.new_zeros(most, shape.segment + shape.right_context, shape.bands)
        self._search = make_search(self._slots, self._rows, self._graphs)
        # Whether every stage waits for the device, so that its time is its own; that costs time.
        self.separate_stages = False
        # Memory that the device can read while the host goes on.
        self._audio = torch.zeros(most, self._samples, pin_memory=device.type == "cuda")

    @property
    def most(self) -> int:
        """How many streams a step has at most."""
        return self._rows.most

    @property
    def has_kernel(self) -> bool:
        """Whether attention reads the past of the streams in place, and does not copy it."""
        return self._encoder.has_kernel

    @property
    def work(self) -> SearchWork:
        """The work that the searches did so far."""
        return self._search.work

    @property
    def slot_bytes(self) -> int:
        """The bytes of keys and values of a stream."""
        return self._encoder.slot_bytes

    def open(self) -> SlotStream:
        """Return a new stream in a free slot."""
        if not self._free:
            self._grow()
        slot = self._free.popleft()
        self._new.append(slot)
        return SlotStream(slot, self._free.append)

    def prepare(self, count: int) -> None:
        """Record the graphs of all batches up to this size before they are needed."""
        with torch.inference_mode():
            # The largest first, whose memory the others then share.
            for size in reversed(self._graphs.sizes(min(count, self.most))):
                self._record(self._graphs.size(size, self.most))

    @torch.inference_mode()
    def advance(self, calls: Sequence[tuple[SlotStream, NDArray[np.float32] | None]]) -> list[list[Hypothesis]]:
        """Push samples to each stream, or finish it for `None`; return the text of each if it changed."""
        if any(stream.ended for stream, _ in calls):
            raise StopwavError("the stream has ended: open a new one")
        self._reset_new()
        segments: list[list[tuple[SlotStream, NDArray[np.float32]]]] = [[]]
        for stream, samples in calls:
            if samples is None:
                continue
            if len(samples) == self._samples and not len(stream.waiting):
                segments[0].append((stream, samples))
            else:
                self._cut(stream, samples, segments)
        for together in segments:
            for part in _parts(together, self.most):
                self._push(part)
        for ending in _parts([stream for stream, samples in calls if samples is None], self.most):
            self._finish(ending)
        with stage("post"):
            return [self._changed_text(stream) for stream, _ in calls]

    def _cut(
        self,
        stream: SlotStream,
        samples: NDArray[np.float32],
        segments: list[list[tuple[SlotStream, NDArray[np.float32]]]],
    ) -> None:
        """Add the whole segments of a stream's samples to the steps, its n-th to the n-th, and keep the rest."""
        audio = np.concatenate([stream.waiting, samples])
        count = len(audio) // self._samples
        for number in range(count):
            if number == len(segments):
                segments.append([])
            segments[number].append((stream, audio[number * self._samples :][: self._samples]))
        stream.waiting = audio[count * self._samples :]

    def _push(self, part: Sequence[tuple[SlotStream, NDArray[np.float32]]]) -> None:
        """Advance streams by a segment each."""
        count = len(part)
        slots = self._place([stream for stream, _ in part])
        size = len(slots)
        with stage("copy"):
            np.concatenate([samples for _, samples in part], out=self._audio[:count].view(-1).numpy())
            audio = self._audio[:size].to(self._device, non_blocking=True)
            self._end_stage()
        with stage("features"):
            self._frames[:size] = self._features.push(audio, slots)
            self._end_stage()
        self._step([stream for stream, _ in part], np.full(count, self._shape.segment_frames))

    def _finish(self, ending: Sequence[SlotStream]) -> None:
        """End streams: the last frames see silence ahead of them."""
        shape = self._shape
        slots = self._place(ending).clone()
        counts = np.zeros(len(slots), np.int64)
        counts[: len(ending)] = [len(stream.waiting) for stream in ending]
        audio = np.zeros((len(slots), self._samples), np.float32)
        for row, stream in zip(audio, ending, strict=False):  # rows of padding have no stream
            row[: len(stream.waiting)] = stream.waiting
        # Frames of the mirrored end, those that waited for the ones ahead of them, and the silence ahead of the last.
        left = (LOGMEL_HALF_WINDOW - HOP + counts[: len(ending)]) // HOP + 1 + 2 * shape.right_context
        longest = int(left.max()) + shape.segment + shape.right_context
        lengths = torch.from_numpy(counts).to(self._device)
        with stage("features"):
            frames = self._features.finish(torch.from_numpy(audio).to(self._device), lengths, slots, longest)
        for start in range(0, longest, shape.segment):
            usable = np.minimum(left - start, shape.segment + shape.right_context) // shape.stride
            rows = np.flatnonzero(left - start >= shape.stride + shape.right_context)
            if not len(rows):
                break
            streams = [ending[row] for row in rows.tolist()]
            self._place(streams)
            window = frames[:, start : start + shape.segment + shape.right_context]
            self._frames[: len(rows)] = window[torch.from_numpy(rows).to(self._device)]
            self._step(streams, usable[rows] - shape.ahead_frames)
        for stream in ending:
            stream.ended = True
            stream.release()

    def _step(self, streams: Sequence[SlotStream], new: NDArray[np.int64]) -> None:
        """Encode and search the frames of the first rows, whose slots are in place."""
        count, rows = len(streams), self._rows
        size = self._graphs.size(count, self.most)
        rows.new[:count].copy_(torch.from_numpy(new))
        with stage("inference"):
            with stage("encoder"):
                self._graphs.run(("encode", size), lambda: self._encode(size))
                self._end_stage()
            with stage("search"):
                for text in self._search.advance(count, int(new.max())):
                    streams[text.row].take(text)

    def _end_stage(self) -> None:
        if self.separate_stages and self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def _encode(self, size: int) -> None:
        rows = self._rows
        slots = rows.slots[:size]
        rows.before[:size] = self._encoder.frames[slots]
        rows.encodings[:size] = self._encoder(self._frames[:size], slots, rows.new[:size])

    def _place(self, streams: Sequence[SlotStream]) -> Tensor:
        """Put streams into the first rows, padding into the others of the batch's size, and return all their slots."""
        count, rows = len(streams), self._rows
        size = self._graphs.size(count, self.most)
        self._record(size)
        slots = np.full(size, PADDING, np.int64)
        slots[:count] = [stream.slot for stream in streams]
        rows.slots[:size].copy_(torch.from_numpy(slots))
        rows.new[count:size] = 0
        return rows.slots[:size]

    def _record(self, size: int) -> None:
        """Record the graphs of a size, over padding."""
        if not self._graphs.enabled:
            return
        self._rows.slots.fill_(PADDING)
        self._rows.new.zero_()
        self._graphs.record(("encode", size), lambda: self._encode(size))
        self._search.record(size)

    def _reset_new(self) -> None:
        if self._new:
            slots = torch.tensor(self._new, device=self._device)
            self._new.clear()
            for part in (self._features, self._encoder, self._search):
                part.reset(slots)

    @torch.inference_mode()
    def _grow(self) -> None:
        """Have twice as many slots."""
        before, self._slots = self._slots, 2 * self._slots
        self._free.extend(range(before, self._slots))
        self._graphs.clear()
        for part in (self._features, self._encoder, self._search):
            part.grow(self._slots)

    def _changed_text(self, stream: SlotStream) -> list[Hypothesis]:
        if not stream.changed:
            return []
        pieces, symbols = self._parts.pieces, stream.symbols
        known = stream.text_symbols
        text = pieces.extended(stream.text, symbols, known) if stream.only_more else pieces.text(symbols)
        same, stream.text = text == stream.text, text
        stream.text_symbols, stream.changed, stream.only_more = len(symbols), False, True
        return [] if same else [Hypothesis(text)]


def _parts(items: Sequence[Item], most: int) -> Iterable[Sequence[Item]]:
    """Cut a sequence into parts of at most so many."""
    return (items[begin : begin + most] for begin in range(0, len(items), most))
