"""The batches of a loss run: for each setting, a batch size and a vocabulary, those that all its losses get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import Header
from stopwav.speech.batches import (
    COLUMNS,
    SHUFFLED,
    Batch,
    covered_range,
    invented_pairs,
    make_batches,
    padding_efficiency,
    spread,
)
from stopwav.speech.shapes import Shapes, load_shapes, shapes_to_json
from stopwav.studies.loss.spec import BATCHES, LossSpec


@dataclass(frozen=True)
class Setting:
    """The settings that vary: utterances per batch (`None` where the frames are limited instead) and symbols."""

    batch_size: int | None
    vocab: int

    @property
    def label(self) -> str:
        """Its name in the keys of a run file."""
        return f"b{self.batch_size or '-'} v{self.vocab}"


@dataclass(frozen=True)
class BatchSet:
    """The batches of a setting, and how they represent the corpus."""

    setting: Setting
    batches: tuple[Batch, ...]
    # Of all batches of the corpus, not of those that are measured.
    corpus_padding_efficiency: float
    # The share of utterances below the shortest that is measured, and up to the longest.
    covered: tuple[float, float]
    # The share of pairs of T and U that no utterance has; 0 unless the columns were sorted independently.
    invented: float = 0.0

    @property
    def padding_efficiency(self) -> float:
        """Real cells over padded ones, of the batches that are measured."""
        return padding_efficiency(self.batches)


def load_spec_shapes(spec: LossSpec) -> Shapes:
    """Return the shapes that a run draws its batches from."""
    return load_shapes(
        spec.shapes, tokenizer=spec.tokenizer, frames=spec.frames, subsampling=spec.subsampling, seed=spec.seed
    )


def corpus_of(spec: LossSpec, shapes: Shapes | None = None) -> dict[str, Any]:
    """Return what the header of a run holds of its shapes: their source, and every batch that is measured."""
    shapes = shapes or load_spec_shapes(spec)
    return {**shapes_to_json(shapes), "settings": [asdict(batch_set) for batch_set in make_sets(spec, shapes)]}


def make_sets(spec: LossSpec, shapes: Shapes) -> list[BatchSet]:
    """Return the batches of each setting of a run."""
    sizes: Sequence[int | None] = spec.batch_size or [None]
    return [_make_set(spec, Setting(size, vocab), shapes) for size in sizes for vocab in spec.vocab]


def batch_sets(header: Header) -> list[BatchSet]:
    """Return the batches of each setting of a run, as its header has them."""
    return [_from_json(fields) for fields in header.corpus["settings"]]


def batch_seed(spec: LossSpec, number: int) -> int:
    """Return the seed of a batch's inputs: the same for every loss and round."""
    return 1000 * spec.seed + number


def _make_set(spec: LossSpec, setting: Setting, shapes: Shapes) -> BatchSet:
    everything = make_batches(
        shapes,
        batch_size=setting.batch_size or 1,
        max_frames=spec.max_frames,
        order=spec.order or SHUFFLED,
        buckets=spec.buckets,
        seed=spec.seed,
    )
    measured = _chosen(spec, everything)
    return BatchSet(
        setting,
        tuple(measured),
        padding_efficiency(everything),
        covered_range(measured, shapes),
        invented_pairs(everything, shapes) if spec.order == COLUMNS else 0.0,
    )


def _chosen(spec: LossSpec, batches: Sequence[Batch]) -> Sequence[Batch]:
    """The batches that are measured: the first ones where that was asked for, else some over the whole range."""
    if spec.first is None:
        return spread(batches, spec.batches or BATCHES)
    if spec.skip >= len(batches):
        raise StopwavError(f"--skip {spec.skip}: {len(batches)} batches in all; skip fewer")
    return batches[spec.skip : spec.skip + spec.first]


def _from_json(fields: Mapping[str, Any]) -> BatchSet:
    batches = tuple(Batch(tuple(batch["frames"]), tuple(batch["tokens"])) for batch in fields["batches"])
    low, high = fields["covered"]
    efficiency, invented = fields["corpus_padding_efficiency"], fields["invented"]
    return BatchSet(Setting(**fields["setting"]), batches, efficiency, (low, high), invented)
