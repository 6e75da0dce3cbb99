"""The size of a step run's batches: the largest that fits processor, memory and budget, or the one asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from stopwav.errors import Caution, StopwavError
from stopwav.speech.batches import Batch
from stopwav.speech.shapes import SUBSAMPLING
from stopwav.studies.budget import BUDGET_S, SWEEP_SHARE
from stopwav.studies.machine_speed import MachineSpeed, round_text
from stopwav.studies.step.reference import Sizes
from stopwav.studies.step.spec import MAX_FRAMES, STEPS, StepSpec

# Input frames of a batch at most, and steps of a round, from the published size down; the longest utterance of
# LibriSpeech has 2,723 frames. Then single utterances, over the whole range of lengths.
CANDIDATES = (
    (MAX_FRAMES, STEPS),
    (MAX_FRAMES, 5),
    (20_000, 5),
    (15_000, 5),
    (10_000, 5),
    (7_500, 5),
    (5_000, 5),
    (5_000, 3),
    (2_800, 3),
    (None, 5),
    (None, 3),
    (None, 1),
)
# A fresh process that imports PyTorch, makes a model of 79 million parameters and its batches.
START_S = 6.0
# Steps of a round besides three for each batch: the first, one to warm up, and a slow one for memory.
OTHER_STEPS, STEPS_PER_BATCH = 3.5, 3
# Multiplications and additions per parameter and encoder frame, forward and backward.
OPERATIONS = 6
# Convolutions before the layers, predictor, joiner and loss cost as much as a layer of so many parameters would.
FIXED_PARAMETERS = 3_500_000
# A step takes about four times as long as its matrix products alone would: attention, norms and the optimiser's state
# are bound by memory. It only chooses a size: how many steps a round has time for is decided by its first one.
SLOWDOWN = 4.0
# Numbers that are saved for the backward pass, per encoder frame and layer: multiples of the width and of the inner
# width, and of heads × frames for attention. With them the published batch takes 18 GB, as measured.
_WIDTHS, _INNER_WIDTHS, _SCORES = 24, 10, 3
# Weights, gradients and two moments of AdamW.
_STATES = 4
_BYTES = {"float32": 4, "tf32": 4, "bfloat16": 2, "float16": 2}
# Beyond this multiple of free memory a step is refused: the arithmetic is not off by as much.
MOST_OF_FREE = 1.3


@dataclass(frozen=True)
class StepSize:
    """The size of a run, a sentence on why it is so, and what a round of it should take."""

    max_frames: int | None
    batch_size: int | None
    steps: int
    text: str = ""
    round_s: float | None = None
    peak_bytes: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as the header of a run holds it."""
        return asdict(self)


def with_size(spec: StepSpec, corpus: Mapping[str, Any]) -> StepSpec:
    """Return the settings with the size that the header of a run says, where it was chosen."""
    size = corpus.get("size")
    if not isinstance(size, Mapping) or spec.steps is not None:
        return spec if spec.steps is not None else spec.model_copy(update={"steps": STEPS})
    names = ("max_frames", "batch_size", "steps")
    return spec.model_copy(update={name: size[name] for name in names})


def size_text(corpus: Mapping[str, Any]) -> str:
    """Return what the header of a run says of the size of its batches; runs of older versions say nothing."""
    size = corpus.get("size")
    return str(size.get("text", "")) if isinstance(size, Mapping) else ""


def predicted(spec: StepSpec, batches: list[Batch], sizes: Sizes, machine: MachineSpeed) -> tuple[float, float]:
    """Return the seconds of a round, and the bytes of the step that takes most."""
    parameters = sizes.layers * (4 * sizes.width * sizes.feed_forward + 8 * sizes.width**2)
    frames = [len(batch) * max(batch.frames) / SUBSAMPLING for batch in batches]
    work = parameters + FIXED_PARAMETERS
    step_s = [SLOWDOWN * OPERATIONS * work * count / machine.operations_per_s for count in frames]
    seconds = START_S + STEPS_PER_BATCH * sum(step_s) + OTHER_STEPS * sum(step_s) / len(step_s)
    largest = max(batches, key=lambda batch: len(batch) * max(batch.frames))
    scores = _SCORES * sizes.heads * max(largest.frames) / SUBSAMPLING
    numbers = sizes.layers * (_WIDTHS * sizes.width + _INNER_WIDTHS * sizes.feed_forward + scores)
    return seconds, max(frames) * numbers * _BYTES[spec.dtype] + 4 * _STATES * parameters


def fit_size(spec: StepSpec, sizes: Sizes, machine: MachineSpeed) -> StepSize:
    """Return the largest batches whose first round fits into its part of the budget and into memory."""
    from stopwav.studies.step.job import batches_of, longest_of

    round_s = (spec.total_s if spec.is_budgeted else BUDGET_S) * SWEEP_SHARE
    longest = longest_of(spec)
    for max_frames, steps in (size for size in CANDIDATES if size[0] is None or size[0] >= longest):
        batch_size = 1 if max_frames is None else None
        sized = spec.model_copy(update={"max_frames": max_frames, "batch_size": batch_size, "steps": steps})
        seconds, peak_bytes = predicted(sized, batches_of(sized), sizes, machine)
        if seconds <= round_s and machine.fits(peak_bytes):
            break
    text = f"{steps} batches of up to {max_frames or 0:,} frames, the published size"
    if (max_frames, steps) != CANDIDATES[0]:
        count = f"{steps} batch{'' if steps == 1 else 'es'}"
        chosen = f"{count} of one utterance" if max_frames is None else f"{count} of up to {max_frames:,} frames"
        text = (
            f"{chosen} instead of {STEPS} of up to {MAX_FRAMES:,} frames: {round_text(seconds, round_s)} here "
            f"({machine.text}); --size published for the published size"
        )
    return StepSize(max_frames, batch_size, steps, text, seconds, peak_bytes)


def check_memory(spec: StepSpec, peak_bytes: float, machine: MachineSpeed) -> Caution | None:
    """Raise where a step cannot fit into memory, and return a warning where it may not."""
    if machine.free_bytes is None or machine.fits(peak_bytes):
        return None
    message = (
        f"the largest step should take about {peak_bytes / 1e9:.0f} GB, and {machine.free_bytes / 1e9:.0f} GB are free"
    )
    way_out = "give fewer --max-frames or a smaller --batch-size, or leave sizes out for one that fits"
    if peak_bytes > MOST_OF_FREE * machine.free_bytes:
        raise StopwavError(f"step {spec.model!r}: {message}; {way_out}")
    return Caution("memory-short", f"{message}: it may run out of memory; {way_out}")
