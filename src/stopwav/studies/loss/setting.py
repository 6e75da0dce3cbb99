"""The settings of a loss run: a batch size and a vocabulary each, with the batches that all its losses are fed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from stopwav.record import Header
from stopwav.speech.batches import (
    COLUMNS,
    Batch,
    covered_range,
    invented_pairs,
    make_batches,
    padding_efficiency,
    spread,
)
from stopwav.speech.shapes import Shapes, load_shapes

if TYPE_CHECKING:
    from stopwav.studies.loss.spec import LossSpec


@dataclass(frozen=True)
class Setting:
    """What is varied: utterances a batch (`None` where the frames are limited instead) and symbols."""

    batch_size: int | None
    vocab: int

    @property
    def label(self) -> str:
        """What tells it from others in the keys of a run file."""
        return f"b{self.batch_size or '-'} v{self.vocab}"


@dataclass(frozen=True)
class Fed:
    """The batches of a setting, and what they are of the corpus."""

    setting: Setting
    batches: tuple[Batch, ...]
    # Of all batches of the corpus, not of those that are measured.
    corpus_padding_efficiency: float
    # The share of utterances below the shortest that is measured, and up to the longest.
    covered: tuple[float, float]
    # The share of pairs of T and U that no utterance has; 0 unless the columns were sorted for themselves.
    invented: float = 0.0

    @property
    def padding_efficiency(self) -> float:
        """Real cells over padded ones, of the batches that are measured."""
        return padding_efficiency(self.batches)


def settings_of(spec: LossSpec) -> list[Setting]:
    """Every setting of a run."""
    sizes: Sequence[int | None] = spec.batch_size or [None]
    return [Setting(size, vocab) for size in sizes for vocab in spec.vocab]


def shapes_of(spec: LossSpec) -> Shapes:
    """The shapes that a run draws its batches from."""
    return load_shapes(spec.shapes, tokenizer=spec.tokenizer, subsampling=spec.subsampling, seed=spec.seed)


def corpus_of(spec: LossSpec) -> dict[str, Any]:
    """What the header of a run holds of its shapes: where they come from, and every batch that is measured."""
    shapes = shapes_of(spec)
    fed = [_fed(spec, setting, shapes) for setting in settings_of(spec)]
    return {
        "name": shapes.name,
        "digest": shapes.digest,
        "note": shapes.note,
        "count": len(shapes),
        "settings": [asdict(one) for one in fed],
    }


def fed_of(header: Header) -> list[Fed]:
    """The settings of a run with their batches, as its header has them."""
    return [_from_json(fields) for fields in header.corpus["settings"]]


def _fed(spec: LossSpec, setting: Setting, shapes: Shapes) -> Fed:
    everything = make_batches(
        shapes,
        batch_size=setting.batch_size or 1,
        max_frames=spec.max_frames,
        sort=spec.sort or None,
        buckets=spec.buckets,
        seed=spec.seed,
    )
    taken = spread(everything, spec.batches)
    return Fed(
        setting,
        tuple(taken),
        padding_efficiency(everything),
        covered_range(taken, shapes),
        invented_pairs(everything, shapes) if spec.sort == COLUMNS else 0.0,
    )


def _from_json(fields: Mapping[str, Any]) -> Fed:
    batches = tuple(Batch(tuple(one["frames"]), tuple(one["tokens"])) for one in fields["batches"])
    low, high = fields["covered"]
    efficiency, invented = fields["corpus_padding_efficiency"], fields["invented"]
    return Fed(Setting(**fields["setting"]), batches, efficiency, (low, high), invented)


def batch_seed(spec: LossSpec, number: int) -> int:
    """The seed of a batch's inputs: the same for every loss and round."""
    return 1000 * spec.seed + number
