"""Steps of a user's own model in the user's own process, and with DistributedDataParallel in all of them."""

from __future__ import annotations

from typing import Any

from stopwav.errors import StopwavError
from stopwav.measure.training_step import TrainingJob
from stopwav.record import Piece, Record, new_path
from stopwav.studies.spec import make_header
from stopwav.studies.step.rounds import ThisProcess, measure_round
from stopwav.studies.step.spec import StepSpec
from stopwav.studies.step.step_runner import StepRunner


def check_own_job(spec: StepSpec, model: Any, make_batch: Any, loss_fn: Any, optimizer: Any) -> TrainingJob:
    """Return the user's job; raise an error that names the part that is missing or of a wrong type."""
    for name, part in (("make_batch", make_batch), ("loss_fn", loss_fn)):
        if not callable(part):
            raise StopwavError(
                f"step: {name}= is missing; with a model of your own give make_batch, loss_fn, optimizer"
            )
    if not hasattr(model, "named_modules"):
        raise StopwavError(f"step: the model is a {type(model).__name__}; give a torch.nn.Module or a name")
    if not hasattr(optimizer, "zero_grad"):
        raise StopwavError(f"step: optimizer={optimizer!r}; with a model of your own give a torch.optim optimiser")
    return TrainingJob(model, make_batch, loss_fn, optimizer, spec.device, spec.dtype if spec.autocast else None)


def device_of(model: Any) -> str:
    """Return the device of a model's first parameter; the CPU where it has none."""
    first = next(iter(model.parameters()), None) if hasattr(model, "parameters") else None
    return "cpu" if first is None else str(first.device)


def run_own_job(spec: StepSpec, job: TrainingJob) -> Record:
    """Return the run of a job's steps, measured here; of several processes it holds the steps of each."""
    job.model.train()
    runner = StepRunner(job, depth=spec.depth, modules=spec.modules, steps=spec.steps)
    rank, count = _rank()
    # Every process measures into a file of its own, and the first one gathers them.
    path = new_path(spec.save, "step") if rank == 0 else new_path(spec.save, f"step-rank{rank}")
    with Record.create(path, make_header("step", spec)) as record:
        try:
            measure_round(spec, record, 0, ThisProcess(runner))
        except StopwavError:
            if not record.pieces:
                path.unlink()
            raise
        if count > 1:
            _gather(record, rank, count)
        record.finish()
    if rank:
        path.unlink()
    return record


def _rank() -> tuple[int, int]:
    """The number of this process, and how many there are."""
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def _gather(record: Record, rank: int, count: int) -> None:
    """Add the steps of the other processes to the record of the first."""
    import torch.distributed as dist

    own = [piece.model_dump() for piece in record.pieces if piece.key[0] == "step"]
    gathered: list[Any] | None = [None] * count if rank == 0 else None
    dist.gather_object(own, gathered)
    for other, pieces in enumerate(gathered or ()):
        for fields in pieces if other else ():
            record.append(Piece(**{**fields, "key": ["rank", other, *fields["key"]]}))
