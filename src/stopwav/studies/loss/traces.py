"""`stopwav loss --profile`: traces of each loss under torch.profiler, from a pass that no number comes from."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.measure.plan import Plan
from stopwav.piece import Piece
from stopwav.profiling.schedule import Schedule, parse_schedule
from stopwav.record import Record
from stopwav.speech.batches import Batch
from stopwav.studies.loss.batch_sets import BatchSet, batch_seed, batch_sets
from stopwav.studies.loss.loss_step import LossRunner, LossSetup, loss_setup
from stopwav.studies.loss.spec import LossSpec, plan_of
from stopwav.studies.traces import traces_folder
from stopwav.studies.worker import Worker, outcome_to_piece

# Operators of a step times the steps in a trace: more than 170 MB take Perfetto long to open.
MOST_OPERATORS = 250_000
# Operators and kernels that the run file keeps; the trace has them all.
MOST_KEPT = 40


def trace_losses(spec: LossSpec, record: Record) -> None:
    """Trace every loss that was measured and has no trace yet; how each pass ended is recorded at once."""
    schedule = parse_schedule(spec.profile_schedule)
    measured = {tuple(piece.key[2:4]) for piece in record.pieces if piece.key[0] == "step" and piece.status == "ok"}
    passes = [
        (name, batch_set)
        for batch_set in batch_sets(record.header)
        for name in spec.losses
        if (name, batch_set.setting.label) in measured
    ]
    for done, (name, batch_set) in enumerate(passes, start=1):
        if ("trace", name, batch_set.setting.label) not in record:
            record.append(_trace(spec, name, batch_set, schedule, traces_folder(record)))
        spec.report("profiling", done, len(passes))


def profiles_of(record: Record) -> list[Piece]:
    """Return the traces of a run with the tables that its page shows; traces of older runs have none."""
    return [piece for piece in record.pieces if piece.key[0] == "trace" and "operators" in piece.data]


def recorded_text(piece: Piece) -> str:
    """Return how many steps a loss's traces hold, and why they are fewer than were asked for."""
    files, active, asked = len(piece.data["files"]), piece.data["active"], piece.data["asked"]
    fewer = f", not {asked}: a trace has at most {MOST_OPERATORS:,} operators" if active < asked else ""
    return f"{files} trace{'' if files == 1 else 's'} of {active} step{'' if active == 1 else 's'}{fewer}"


class ProfiledSteps:
    """Inside its worker: steps under the profiler, one batch after the other."""

    def __init__(self, setup: LossSetup, plan: Plan) -> None:
        self._runner = LossRunner(setup, plan)

    def run(
        self, batches: tuple[Batch, ...], seeds: tuple[int, ...], folder: Path, schedule: Schedule
    ) -> dict[str, Any]:
        """Return the trace files, one for each repetition of the schedule, and their operators, kernels and memory."""
        bounded = self._bounded(schedule, max(batches, key=lambda batch: batch.padded_cells))
        files = self._trace(batches, seeds, folder, bounded)
        steps = {"active": bounded.active, "asked": schedule.active}
        return {"files": [file.name for file in files], **steps, **_tables(folder, files)}

    def _bounded(self, schedule: Schedule, largest: Batch) -> Schedule:
        """The schedule with no more active steps than a trace of reasonable size can hold."""
        operators = count_operators(self._runner.step(largest, 0), MOST_OPERATORS)
        if operators > MOST_OPERATORS:
            raise StopwavError(
                f"a step has more than {MOST_OPERATORS:,} operators, and its trace would be too large to open; "
                "profile shorter utterances (--shapes) or smaller batches (--batch-size)"
            )
        return replace(schedule, active=min(schedule.active, max(1, MOST_OPERATORS // max(1, operators))))

    def _trace(
        self, batches: tuple[Batch, ...], seeds: tuple[int, ...], folder: Path, schedule: Schedule
    ) -> list[Path]:
        from stopwav.profiling.schedule import Tracer

        tracer = Tracer(folder, schedule)
        number = 0
        for _ in range(schedule.repeat):
            tracer.begin_cycle()
            try:
                for _ in range(schedule.cycle_steps):
                    position = number % len(batches)
                    self._runner.run_once(batches[position], seeds[position])
                    tracer.end_step()
                    number += 1
            finally:
                tracer.stop()
        return tracer.files


def count_operators(step: Callable[[], object], most: int) -> int:
    """Return how many operators PyTorch dispatches in a step, which is stopped once they are more than `most`."""
    from torch.utils._python_dispatch import TorchDispatchMode

    count = 0

    class OperatorCounter(TorchDispatchMode):
        def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal count
            count += 1
            if count > most:
                raise OverflowError
            return operator(*args, **(kwargs or {}))

    try:
        with OperatorCounter():  # type: ignore[no-untyped-call]
            step()
    except Exception:  # PyTorch may wrap what is raised in a backward pass
        if count <= most:
            raise
    return count


def _tables(folder: Path, files: Sequence[Path]) -> dict[str, Any]:
    """The operators and kernels that took most of all traces, the device's idle share, and the memory in the first."""
    from stopwav.profiling.analysis import analyse

    tables = analyse(folder, report=False)
    operators = [operator for operator in tables.operators if operator.kind == "cpu_op"][:MOST_KEPT]
    timelines = [line for line in tables.memory if line.file == files[0].name]
    # A device's memory runs out first.
    memory = max(timelines, key=lambda line: line.device != "cpu", default=None)
    return {
        "operators": [[operator.name, operator.calls, operator.self_s, operator.total_s] for operator in operators],
        "kernels": [[kernel.name, kernel.calls, kernel.total_s] for kernel in tables.kernels[:MOST_KEPT]],
        "idle_share": tables.idle_share,
        "memory": None if memory is None else {"device": memory.device, "points": memory.points},
    }


def _trace(spec: LossSpec, name: str, batch_set: BatchSet, schedule: Schedule, folder: Path) -> Piece:
    label, batches = batch_set.setting.label, batch_set.batches
    own = folder / re.sub(r"[^\w.-]+", "-", f"{name}-{label}")
    seeds = tuple(batch_seed(spec, number) for number in range(len(batches)))
    arguments = (loss_setup(spec, name, batch_set.setting.vocab), plan_of(spec))
    with Worker(ProfiledSteps, arguments, "loss", spec.time_limit_s) as worker:
        # The profiler slows steps down, and there are as many as the schedule says.
        limit_s = spec.time_limit_s * max(1, schedule.repeat)
        outcome = worker.call("run", batches, seeds, own, schedule, time_limit_s=limit_s)
    data: dict[str, Any] = outcome.value if outcome.ok else {}
    if outcome.ok:
        data["files"] = [f"{folder.name}/{own.name}/{file}" for file in data["files"]]
    return outcome_to_piece(["trace", name, label], outcome, data)
