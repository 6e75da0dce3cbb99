"""A step study of the user's own model, in their own process, and with DistributedDataParallel in all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.measure.process import Outcome
from stopwav.measure.training_step import TrainingJob
from stopwav.measure.worker import describe_error, is_out_of_memory
from stopwav.record import Piece, Record, new_path
from stopwav.studies.spec import Progress, header_of
from stopwav.studies.step.run import StepSpec, take_round
from stopwav.studies.step.step_runner import StepRunner


def step_own(spec: StepSpec, job: TrainingJob, folder: Path, report: Progress) -> Record:
    """The record of the steps of a job, taken here; of several processes it holds what each of them measured."""
    job.model.train()
    runner = StepRunner(job, depth=spec.depth, modules=spec.modules, steps=spec.steps)
    rank, count = _rank()
    # Every process measures into a file of its own, and the first one gathers them.
    path = new_path(folder, "step") if rank == 0 else new_path(folder, f"step-rank{rank}")
    with Record.create(path, header_of("step", spec)) as record:
        try:
            take_round(spec, record, 0, _Here(runner), report)
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


class _Here:
    """A runner in this process: running out of memory is an outcome, and anything else an error."""

    def __init__(self, runner: StepRunner) -> None:
        self._runner = runner

    def ask(self, method: str, *arguments: object) -> Outcome:
        """How the method ended."""
        try:
            return Outcome("ok", getattr(self._runner, method)(*arguments))
        except StopwavError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                return Outcome("oom", message=describe_error(error))
            raise StopwavError(f"step: a step broke off: {describe_error(error)}") from error


def _rank() -> tuple[int, int]:
    """Which process this is, and of how many."""
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
