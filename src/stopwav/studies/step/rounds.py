"""Rounds of steps, in a worker or in the user's own process: each step, then in the first round memory and profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from stopwav.errors import StopwavError
from stopwav.measure.process import Outcome, describe_error, is_out_of_memory
from stopwav.measure.training_step import TrainingJob
from stopwav.piece import Piece
from stopwav.profiling.schedule import parse_schedule
from stopwav.record import Record
from stopwav.run_paths import new_path
from stopwav.studies.piece_kinds import finish_run
from stopwav.studies.spec import make_header
from stopwav.studies.step.spec import STEPS, StepSpec
from stopwav.studies.step.step_runner import StepRunner
from stopwav.studies.step.stored_pieces import missing_keys
from stopwav.studies.traces import traces_folder
from stopwav.studies.worker import outcome_to_piece


class StepProcess(Protocol):
    """The process that runs the steps, a worker's or this one: it calls methods of a StepRunner."""

    def call(self, method: str, *arguments: object, time_limit_s: float) -> Outcome: ...


class ThisProcess:
    """A runner in this process: running out of memory is an outcome, and anything else an error."""

    def __init__(self, runner: StepRunner) -> None:
        self._runner = runner

    def call(self, method: str, *arguments: object, time_limit_s: float) -> Outcome:
        """Return the outcome of a call; no time limit can be kept here."""
        try:
            return Outcome("ok", getattr(self._runner, method)(*arguments))
        except StopwavError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                return Outcome("oom", message=describe_error(error))
            raise StopwavError(f"step: a step failed: {describe_error(error)}") from error


class RoundPlan(Protocol):
    """Which steps a round takes, and for how many of them there is time."""

    @property
    def numbers(self) -> Sequence[int]: ...

    @property
    def limit_s(self) -> float: ...

    @property
    def budget_left_s(self) -> float | None: ...

    def warm_up_s(self) -> float | None: ...

    def keeps(self, status: str) -> bool: ...

    def learn(self, step_s: float) -> None: ...

    def has_time(self, done: int) -> bool: ...

    def warms(self, remaining: int) -> bool: ...


class FixedRound:
    """A round of a fixed plan: every step, whatever it takes."""

    def __init__(self, spec: StepSpec) -> None:
        self.numbers, self.limit_s = range(spec.steps or STEPS), spec.time_limit_s
        self.budget_left_s: float | None = None

    def warm_up_s(self) -> float | None:
        """No limit."""
        return None

    def keeps(self, status: str) -> bool:
        """However it ends, it is a result."""
        return True

    def learn(self, step_s: float) -> None:
        """Times change nothing."""

    def has_time(self, done: int) -> bool:
        """Always."""
        return True

    def warms(self, remaining: int) -> bool:
        """Every batch."""
        return True


def measure_round(
    spec: StepSpec, record: Record, index: int, process: StepProcess, plan: RoundPlan | None = None
) -> None:
    """Measure what is not in the record yet; each step is recorded at once, and one that fails ends the round."""
    plan = plan or FixedRound(spec)
    missing = [number for number in plan.numbers if ("step", index, number) not in record]
    passes = [name for name in _passes(spec, index) if (name, 0) not in record]
    if has_failed(record, index) or not (missing or passes):
        return
    spec.report("warming up", 0, 1)
    ready = process.call("warm_up", plan.warm_up_s(), time_limit_s=plan.limit_s)
    if not plan.keeps(ready.status):
        return
    if ("ready", index) not in record:
        record.append(outcome_to_piece(("ready", index), ready))
    elif not ready.ok:
        # The round was ready before it was interrupted: what is missing failed, and the record has to say so.
        keys = [("step", index, missing[0])] if missing else [(name, 0) for name in passes]
        for key in keys:
            record.append(outcome_to_piece(key, ready))
    if not ready.ok:
        return
    spec.report("warming up", 1, 1)
    plan.learn(min([ready.value["first_s"], *ready.value["warmup_s"]]))
    if _measure_steps(spec, record, index, process, missing, plan) and passes:
        _run_passes(spec, record, process, plan)


def _measure_steps(
    spec: StepSpec, record: Record, index: int, process: StepProcess, missing: Sequence[int], plan: RoundPlan
) -> bool:
    """Measure these steps as far as there is time; return whether none failed."""
    before = len(plan.numbers) - len(missing)
    for done, number in enumerate(missing):
        if not plan.has_time(before + done):
            break
        outcome = process.call("measure", number, plan.warms(len(missing) - done), time_limit_s=plan.limit_s)
        if not plan.keeps(outcome.status):
            return False
        record.append(outcome_to_piece(("step", index, number), outcome))
        spec.report(f"round {index + 1}", before + done + 1, len(plan.numbers))
        spec.show(record, f"round {index + 1}", plan.budget_left_s)
        if not outcome.ok:
            return False
        plan.learn(outcome.value["clean"]["wall_s"])
    return True


def _passes(spec: StepSpec, index: int) -> list[str]:
    """The passes of a round after its steps: memory and, where it is asked for, the profile, in the first."""
    return ["memory", *(["profile"] if spec.profile else [])] if index == 0 else []


def has_failed(record: Record, index: int) -> bool:
    """Return whether a round ended with a failure."""
    pieces = (piece for piece in record.pieces if piece.key[:2] in (["ready", index], ["step", index]))
    return any(piece.status != "ok" for piece in pieces)


def _run_passes(spec: StepSpec, record: Record, process: StepProcess, plan: RoundPlan) -> None:
    """Measure memory and, where it is asked for, profile, on the batch that takes most."""
    spec.report("memory", 0, 1)
    largest = process.call("largest", time_limit_s=plan.limit_s)
    number = largest.value if largest.ok else 0
    if ("memory", 0) not in record:
        outcome = process.call("memory", number, time_limit_s=plan.limit_s)
        record.append(outcome_to_piece(("memory", 0), outcome))
    spec.report("memory", 1, 1)
    if spec.profile and ("profile", 0) not in record:
        schedule = parse_schedule(spec.profile_schedule)
        # The profiler slows steps down, and there are as many as the schedule says.
        limit_s = spec.time_limit_s * schedule.steps_of(schedule.repeat)
        if spec.is_budgeted:
            limit_s = min(limit_s, plan.limit_s)
        folder = traces_folder(record)
        outcome = process.call("profile", folder, number, spec.profile_schedule, time_limit_s=limit_s)
        record.append(outcome_to_piece(("profile", 0), outcome))


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
    runner = StepRunner(job, depth=spec.depth, modules=spec.modules, steps=spec.steps or STEPS)
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
        finish_run(record, missing_keys(record))
    if rank:
        record.load()
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

    own = [piece.to_json() for piece in record.pieces if piece.key[0] == "step"]
    gathered: list[Any] | None = [None] * count if rank == 0 else None
    dist.gather_object(own, gathered)
    for other, pieces in enumerate(gathered or ()):
        for fields in pieces if other else ():
            del fields["kind"]
            record.append(Piece(**{**fields, "key": ["rank", other, *fields["key"]]}))
