"""The encoder over many streams at once: one segment of each in one step, their past in slots of shared tensors."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from stopwav.models.features import BANDS, HOP, LOGMEL_FFT_SIZE, LOGMEL_HALF_WINDOW, LogMel
from stopwav.models.ring_attention import Ring, RingStep, attend, has_kernel, plan_step
from stopwav.models.transducer import EncoderStep, LayerStep

# The samples that wait for the next window at the beginning of every segment.
WAITING_SAMPLES = LOGMEL_FFT_SIZE - HOP


def enlarged(tensor: Tensor, count: int) -> Tensor:
    """Return a tensor with more slots, the new ones 0."""
    larger = tensor.new_zeros(count, *tensor.shape[1:])
    larger[: len(tensor)] = tensor
    return larger


class BatchedFeatures:
    """Log-mel features of whole segments of many streams, and the samples and frames that wait in between."""

    def __init__(self, features: LogMel, encoder: EncoderStep, slots: int) -> None:
        self._features = features
        self._shape = shape = encoder.shape
        self._dtype = encoder.dtype
        # A stream begins with silence.
        silence = features.of_windows(features.window.new_zeros(max(1, shape.right_context), LOGMEL_FFT_SIZE))
        self._initial = silence[: shape.right_context].to(self._dtype)
        self._waiting = features.window.new_zeros(slots, WAITING_SAMPLES)
        self._ahead = self._initial.new_zeros(slots, *self._initial.shape)

    def grow(self, slots: int) -> None:
        """Have so many slots."""
        self._waiting, self._ahead = enlarged(self._waiting, slots), enlarged(self._ahead, slots)

    def reset(self, slots: Tensor) -> None:
        """Begin new streams in these slots."""
        self._waiting[slots] = 0.0
        self._ahead[slots] = self._initial

    def push(self, samples: Tensor, slots: Tensor) -> Tensor:
        """Return the frames of a segment and those ahead: `(streams, samples of a segment)` to `(…, frames, bands)`."""
        audio = torch.cat([self._waiting[slots], samples], dim=1)
        self._waiting[slots] = audio[:, -WAITING_SAMPLES:]
        frames = torch.cat([self._ahead[slots], self._of_audio(audio)], dim=1)
        self._ahead[slots] = frames[:, self._shape.segment :]
        return frames

    def finish(self, samples: Tensor, counts: Tensor, slots: Tensor, frames: int) -> Tensor:
        """Return the last frames of streams that end after so many more samples, filled up with 0 to `frames`.

        The end is mirrored, as in a stream alone; after its last frame a stream sees zeros.
        """
        audio = torch.cat([self._waiting[slots], samples], dim=1)
        audio = functional.pad(audio, (0, LOGMEL_HALF_WINDOW))
        ends = (WAITING_SAMPLES + counts)[:, None]
        positions = torch.arange(audio.shape[1], device=audio.device)
        mirrored = torch.where(positions < ends, positions, 2 * ends - 2 - positions).clamp(min=0)
        last = self._of_audio(audio.gather(1, mirrored))
        complete = (WAITING_SAMPLES + counts + LOGMEL_HALF_WINDOW - LOGMEL_FFT_SIZE) // HOP + 1
        present = torch.arange(last.shape[1], device=audio.device) < complete[:, None]
        last = last.masked_fill(~present[:, :, None], 0.0)
        result = torch.cat([self._ahead[slots], last], dim=1)
        return functional.pad(result, (0, 0, 0, max(0, frames - result.shape[1])))[:, :frames]

    def _of_audio(self, audio: Tensor) -> Tensor:
        windows = audio.unfold(1, LOGMEL_FFT_SIZE, HOP)
        frames = self._features.of_windows(windows.reshape(-1, LOGMEL_FFT_SIZE))
        return frames.view(len(audio), -1, BANDS).to(self._dtype)


class BatchedEncoder:
    """The encoder's layers over slots; the past of each stream is a ring of keys and values in every layer."""

    def __init__(self, step: EncoderStep, slots: int) -> None:
        self._step = step
        self.shape = shape = step.shape
        self._ring = Ring(shape.left_context, shape.segment_frames, shape.ahead_frames)
        cache = step.initial_state().cache
        self._caches = [cache.new_zeros(slots, 2, self._ring.places, shape.width) for _ in range(shape.layers)]
        self.frames = torch.zeros(slots, dtype=torch.long, device=cache.device)
        # Without it keys and values of the batch are copied out of their slots in every layer.
        self.has_kernel = has_kernel(cache.device, cache.dtype, shape.width, shape.heads, self._ring)

    def grow(self, slots: int) -> None:
        """Have so many slots."""
        self._caches = [enlarged(cache, slots) for cache in self._caches]
        self.frames = enlarged(self.frames, slots)

    @property
    def slot_bytes(self) -> int:
        """The bytes of keys and values of a stream."""
        return sum(cache[0].nbytes for cache in self._caches)

    def reset(self, slots: Tensor) -> None:
        """Begin new streams in these slots: what they still hold is masked."""
        self.frames[slots] = 0

    def __call__(self, features: Tensor, slots: Tensor, new: Tensor) -> Tensor:
        """Return the encodings of a segment of each stream: `(streams, frames, bands)` to `(streams, …, encoding)`.

        `new` tells how many frames each has; only the last segment of a stream has fewer than a segment's.
        """
        shape, before = self.shape, self.frames[slots]
        x = self._step.reduce(features.flatten(0, 1)).view(len(slots), -1, shape.width)
        ahead = new[:, None] + torch.arange(shape.ahead_frames, device=x.device)
        copies = x.take_along_dim(ahead[:, :, None], dim=1)
        x = torch.cat([copies, x[:, : shape.segment_frames]], dim=1).flatten(0, 1)
        step = plan_step(self._ring, slots, before, new, x.dtype, self.has_kernel)
        for layer, cache in zip(self._step.layers, self._caches, strict=True):
            x = self._layer(layer, x, cache, step)
        self.frames[slots] = before + new
        x = x.view(len(slots), -1, shape.width)[:, shape.ahead_frames :]
        encodings = self._step.norm(self._step.project(x.flatten(0, 1)))
        return encodings.view(len(slots), shape.segment_frames, -1)

    def _layer(self, layer: LayerStep, x: Tensor, cache: Tensor, step: RingStep) -> Tensor:
        """Return a layer's output for `(streams · frames, width)`, and write its keys and values to the cache."""
        projected = layer.project(layer.norms[0](x)).view(len(step.slots), -1, 3 * x.shape[1])
        attended = attend(projected, cache, step, self._ring, layer.heads).flatten(0, 1)
        x = layer.out.plus(attended, x)
        x = layer.narrow.plus(layer.widen.gelu(layer.norms[1](x)), x)
        return layer.norms[2](x)
