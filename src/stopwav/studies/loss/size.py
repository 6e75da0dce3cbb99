"""The size of a loss run's batches: the largest that fits processor, memory and budget, or the one asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from stopwav.errors import Caution
from stopwav.speech.batches import Batch
from stopwav.speech.shapes import Shapes
from stopwav.studies.budget import BUDGET_S
from stopwav.studies.loss.spec import BATCH_SIZE, BATCHES, LossSpec
from stopwav.studies.machine_speed import MachineSpeed, round_text

# Utterances per batch and batches, from the published size to the smallest: fewer batches first, as a padded batch of
# one utterance is none, and then fewer utterances in each of three, the fewest with an interval over batches.
CANDIDATES = (
    (BATCH_SIZE, BATCHES),
    (30, 5),
    (20, 5),
    (16, 5),
    (12, 5),
    (8, 5),
    (8, 3),
    (6, 3),
    (4, 3),
    (3, 3),
    (2, 3),
    (1, 3),
    (1, 1),
)
# A round may take this share of the budget: six of them decide between losses that differ by a tenth.
ROUND_SHARE = 1 / 6
# Calls of a batch in a short visit: the first, one to warm up, two values, one for memory.
CALLS = 5
# A fresh process that imports PyTorch.
START_S = 4.0
# Multiplications and additions of a cell: 2 · dim · vocab forward, and twice that backward.
OPERATIONS = 6
# A padded step takes 15 to 18 µs per cell of 500 symbols and 512 dimensions on two cores whose matrix products alone
# would take 8.5 µs: `stopwav loss --batch-size 1 --batches 2 --rounds 1`.
SLOWDOWN = 2.1
# Copies of the joiner's outputs and of the logits that a padded loss keeps at its peak: 6,400 to 8,800 bytes per cell
# of 500 symbols and 512 dimensions in the same run.
COPIES = 2.2
_BYTES = {"float64": 8}
# Of a pruned or fused loss the peak is a fraction of that of padded logits.
_SMALL_LOGITS = "joiner"


@dataclass(frozen=True)
class LossSize:
    """The size of a run, a sentence on why it is so, and what a round of it should take."""

    choice: str
    text: str
    round_s: float
    padded_bytes: float

    def to_json(self) -> dict[str, object]:
        """Return it as the header of a run holds it."""
        return asdict(self)


def predicted(spec: LossSpec, batch_lists: Sequence[Sequence[Batch]], machine: MachineSpeed) -> tuple[float, float]:
    """Return the seconds of a short round of all losses, and the bytes of the largest batch with padded logits."""
    cells = [[batch.padded_cells for batch in batches] for batches in batch_lists]
    operations = OPERATIONS * spec.dim * max(spec.vocab) * sum(map(sum, cells))
    call_s = SLOWDOWN * operations / machine.operations_per_s
    per_cell = COPIES * (spec.dim + max(spec.vocab)) * _BYTES.get(spec.dtype, 4)
    return len(spec.losses) * (len(cells) * START_S + CALLS * call_s), per_cell * max(map(max, cells))


def fit_size(spec: LossSpec, shapes: Shapes, machine: MachineSpeed) -> tuple[LossSpec, LossSize]:
    """Return the settings with the largest batches that fit, and what to say of them."""
    from stopwav.studies.loss.batch_sets import make_sets

    round_s = (spec.total_s if spec.is_budgeted else BUDGET_S) * ROUND_SHARE
    possible = [size for size in CANDIDATES if size[0] <= len(shapes)] or [CANDIDATES[-1]]
    for batch_size, batches in possible:
        sized = spec.model_copy(update={"batch_size": [batch_size], "batches": batches})
        seconds, size_bytes = predicted(sized, [batch_set.batches for batch_set in make_sets(sized, shapes)], machine)
        if seconds <= round_s and machine.fits(size_bytes):
            break
    count = f"{batches} batch{'' if batches == 1 else 'es'}"
    text = f"{count} of {batch_size}, the published size"
    if (batch_size, batches) != CANDIDATES[0]:
        text = (
            f"{count} of {batch_size} instead of {BATCHES} of {BATCH_SIZE}: {round_text(seconds, round_s)} here "
            f"({machine.text}); --size published for the published size"
        )
    return sized, LossSize("fit", text, seconds, size_bytes)


def given_size(spec: LossSpec, batch_lists: Sequence[Sequence[Batch]], machine: MachineSpeed) -> LossSize:
    """Return what to say of a size that was asked for: nothing, but what it should take."""
    return LossSize("given", "", *predicted(spec, batch_lists, machine))


def memory_caution(spec: LossSpec, size: LossSize, machine: MachineSpeed) -> Caution | None:
    """Return a warning where losses of padded logits should run out of memory; that is a result, as others may fit."""
    from stopwav.losses.registry import BUILT_IN, split_name

    small = {listed.name for listed in BUILT_IN if listed.needs.logits == _SMALL_LOGITS}
    padded = [name for name in spec.losses if split_name(name)[0] not in small]
    if not padded or machine.free_bytes is None or size.padded_bytes <= machine.free_bytes:
        return None
    message = (
        f"the largest batch should take about {size.padded_bytes / 1e9:.0f} GB with {', '.join(padded)}, and "
        f"{machine.free_bytes / 1e9:.0f} GB are free: it will run out of memory; give a smaller --batch-size, or "
        "leave sizes out for one that fits"
    )
    return Caution("memory-short", message)


def size_text(corpus: Mapping[str, object]) -> str:
    """Return what the header of a run says of the size of its batches; runs of older versions say nothing."""
    size = corpus.get("size")
    return str(size.get("text", "")) if isinstance(size, Mapping) else ""
