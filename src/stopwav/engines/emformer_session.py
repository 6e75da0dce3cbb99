"""One stream through the Emformer RNN-T, stage by stage: features, copy, encoder, search, post."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stopwav.engines.tokenizer import WordPieces
from stopwav.measure.stages import stage
from stopwav.models.emformer import EmformerShape
from stopwav.models.features import HOP, LOGMEL_HALF_WINDOW, LogMel, LogMelStream
from stopwav.models.search import BeamSearch, GreedySearch
from stopwav.models.transducer import EncoderStep
from stopwav.speech.events import Hypothesis

if TYPE_CHECKING:
    from stopwav.engines.emformer_batch import SlotStream, StreamBatch


@dataclass(frozen=True)
class SharedParts:
    """The parts that all streams of an engine share; none changes while they run."""

    features: LogMel
    encoder: EncoderStep
    pieces: WordPieces
    device: torch.device

    @property
    def lead_samples(self) -> int:
        """The samples of silence before a stream."""
        return lead_samples(self.encoder.shape)


def lead_samples(shape: EmformerShape) -> int:
    """Return how many samples of silence to put before a stream, so that every push of a segment completes a segment.

    A segment is encoded when the frames ahead of it are complete, and a frame when its window is, half of which lies
    after its centre. Without the silence each segment would wait for one more push.
    """
    return shape.right_context * HOP + LOGMEL_HALF_WINDOW - HOP


class EmformerSession:
    """A stream: features and encodings carry over from push to push, and each frame is computed once."""

    def __init__(self, parts: SharedParts, search: BeamSearch | GreedySearch, batch: Callable[[], StreamBatch]) -> None:
        self.parts = parts
        self._search = search
        self._batch = batch
        self._shown = ""
        # Made when they are first needed: streams that are advanced together never do.
        self._features: LogMelStream | None = None
        self._together: SlotStream | None = None

    def join(self) -> SlotStream | None:
        """Return the stream among those that are advanced together; None if this one is advanced alone.

        That is one that was already, and, with no audio ahead, every one: then the audio itself is mirrored before its
        beginning, not silence, and the first segment is another than all that follow.
        """
        if self._together is None and self._features is None and self.parts.lead_samples > LOGMEL_HALF_WINDOW:
            self._together = self._batch().open()
        return self._together

    def push(self, samples: NDArray[np.float32]) -> list[Hypothesis]:
        """Return the text if this audio changed it."""
        if self._together is not None:
            return self._batch().advance([(self._together, samples)])[0]
        return self._push(samples)

    def finish(self) -> list[Hypothesis]:
        """Return the final text; the last frames see silence ahead of them."""
        if self._together is not None:
            return self._batch().advance([(self._together, None)])[0]
        return self._finish()

    def _begin(self) -> LogMelStream:
        """Return the features, which make the state of the stream when they are first needed."""
        if self._features is None:
            parts = self.parts
            self._features = LogMelStream(parts.features)
            self._state = parts.encoder.initial_state()
            frames = self._features.push(parts.features.window.new_zeros(parts.lead_samples))
            self._frames = frames.to(parts.device, parts.encoder.dtype)
        return self._features

    @torch.inference_mode()
    def _push(self, samples: NDArray[np.float32]) -> list[Hypothesis]:
        features = self._begin()
        audio = torch.from_numpy(samples)
        device = self.parts.features.window.device
        if device.type != "cpu":
            with stage("copy"):
                audio = audio.to(device)
                self._synchronize()
        with stage("features"):
            frames = features.push(audio)
            self._synchronize()
        self._append(frames)
        self._advance(self.parts.encoder.shape.segment)
        return self._changed_text()

    @torch.inference_mode()
    def _finish(self) -> list[Hypothesis]:
        features = self._begin()
        shape = self.parts.encoder.shape
        with stage("features"):
            frames = features.finish()
            frames = torch.cat([frames, frames.new_zeros(shape.right_context, shape.bands)])
            self._synchronize()
        self._append(frames)
        self._advance(shape.stride)
        self._search.close()
        return self._changed_text()

    def _append(self, frames: Tensor) -> None:
        if frames.device != self.parts.device:
            with stage("copy"):
                frames = frames.to(self.parts.device)
                self._synchronize()
        self._frames = torch.cat([self._frames, frames.to(self.parts.encoder.dtype)])

    def _advance(self, min_frames: int) -> None:
        """Encode and search segment by segment while there are so many frames and those ahead of them."""
        shape = self.parts.encoder.shape
        while len(self._frames) >= min_frames + shape.right_context:
            with stage("inference"):
                with stage("encoder"):
                    encodings = self.parts.encoder(self._frames[: shape.segment + shape.right_context], self._state)
                    self._frames = self._frames[shape.segment :]
                    self._synchronize()
                with stage("search"):
                    self._search.advance(encodings)

    def _changed_text(self) -> list[Hypothesis]:
        with stage("post"):
            text = self.parts.pieces.text(self._search.best())
        if text == self._shown:
            return []
        self._shown = text
        return [Hypothesis(text)]

    def _synchronize(self) -> None:
        """Wait for the device at the end of a stage, so that each stage has its own work and no other's."""
        if self.parts.device.type == "cuda":
            torch.cuda.synchronize(self.parts.device)
