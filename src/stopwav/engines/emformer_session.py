"""One stream through the Emformer RNN-T, stage by stage: features, copy, encoder, search, post."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stopwav.engines.word_pieces import WordPieces
from stopwav.measure.stages import stage
from stopwav.models.emformer import EmformerShape
from stopwav.models.encoder_step import EncoderStep
from stopwav.models.logmel import HALF, HOP, LogMel, LogMelStream
from stopwav.models.search import BeamSearch, GreedySearch
from stopwav.speech.events import Hypothesis


@dataclass(frozen=True)
class Parts:
    """What the streams of an engine share; none of it changes while they run."""

    features: LogMel
    encoder: EncoderStep
    pieces: WordPieces
    device: torch.device

    @property
    def lead(self) -> int:
        """Samples of silence before a stream."""
        return lead_of(self.encoder.shape)


def lead_of(shape: EmformerShape) -> int:
    """Samples of silence before a stream, with which every push of one segment completes one segment.

    A segment is encoded when the frames ahead of it are there, and a frame when its window is, half of which lies
    behind its centre. Without the silence each segment would wait for a whole further push.
    """
    return shape.right_context * HOP + HALF - HOP


class EmformerSession:
    """A stream: features and encodings are carried from push to push, each sample and frame is computed once."""

    def __init__(self, parts: Parts, search: BeamSearch | GreedySearch) -> None:
        self._parts = parts
        self._search = search
        self._features = LogMelStream(parts.features)
        self._state = parts.encoder.initial_state()
        self._shown = ""
        with torch.inference_mode():
            frames = self._features.push(parts.features.window.new_zeros(parts.lead))
            self._frames = frames.to(parts.device, parts.encoder.dtype)

    @torch.inference_mode()
    def push(self, samples: NDArray[np.float32]) -> list[Hypothesis]:
        """The text, where this audio changed it."""
        audio = torch.from_numpy(samples)
        where = self._parts.features.window.device
        if where.type != "cpu":
            with stage("copy"):
                audio = audio.to(where)
                self._settle()
        with stage("features"):
            frames = self._features.push(audio)
            self._settle()
        self._take(frames)
        self._advance(self._parts.encoder.shape.segment)
        return self._changed()

    @torch.inference_mode()
    def finish(self) -> list[Hypothesis]:
        """The final text: the last frames see silence ahead of them."""
        shape = self._parts.encoder.shape
        with stage("features"):
            frames = self._features.finish()
            frames = torch.cat([frames, frames.new_zeros(shape.right_context, shape.bands)])
            self._settle()
        self._take(frames)
        self._advance(shape.stride)
        self._search.close()
        return self._changed()

    def _take(self, frames: Tensor) -> None:
        if frames.device != self._parts.device:
            with stage("copy"):
                frames = frames.to(self._parts.device)
                self._settle()
        self._frames = torch.cat([self._frames, frames.to(self._parts.encoder.dtype)])

    def _advance(self, least: int) -> None:
        """Encode and search segment by segment while at least so many frames, and those ahead of them, are there."""
        shape = self._parts.encoder.shape
        while len(self._frames) >= least + shape.right_context:
            with stage("inference"):
                with stage("encoder"):
                    encodings = self._parts.encoder(self._frames[: shape.segment + shape.right_context], self._state)
                    self._frames = self._frames[shape.segment :]
                    self._settle()
                with stage("search"):
                    self._search.advance(encodings)

    def _changed(self) -> list[Hypothesis]:
        with stage("post"):
            text = self._parts.pieces.text(self._search.best())
        if text == self._shown:
            return []
        self._shown = text
        return [Hypothesis(text)]

    def _settle(self) -> None:
        """Wait for the device at the end of a stage, so that each stage holds its own work and no other's."""
        if self._parts.device.type == "cuda":
            torch.cuda.synchronize(self._parts.device)
