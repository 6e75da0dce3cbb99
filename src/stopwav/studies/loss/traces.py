"""`stopwav loss --profile`: traces of each loss under torch.profiler, from a pass that no number comes from."""

from __future__ import annotations

import re
from pathlib import Path

from stopwav.measure.plan import Plan
from stopwav.profiling.schedule import Schedule, parse_schedule
from stopwav.record import Piece, Record
from stopwav.speech.batches import Batch
from stopwav.studies.loss.batch_sets import BatchSet, batch_seed, batch_sets
from stopwav.studies.loss.loss_step import LossRunner, LossSetup, loss_setup
from stopwav.studies.loss.spec import LossSpec, plan_of
from stopwav.studies.traces import traces_folder
from stopwav.studies.worker import Worker, outcome_to_piece


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


class ProfiledSteps:
    """Inside its worker: steps under the profiler, one batch after the other."""

    def __init__(self, setup: LossSetup, plan: Plan) -> None:
        self._runner = LossRunner(setup, plan)

    def run(self, batches: tuple[Batch, ...], seeds: tuple[int, ...], folder: Path, schedule: Schedule) -> list[str]:
        """Return the names of the trace files, one for each repetition of the schedule."""
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
        return [path.name for path in tracer.files]


def _trace(spec: LossSpec, name: str, batch_set: BatchSet, schedule: Schedule, folder: Path) -> Piece:
    label, batches = batch_set.setting.label, batch_set.batches
    own = folder / re.sub(r"[^\w.-]+", "-", f"{name}-{label}")
    seeds = tuple(batch_seed(spec, number) for number in range(len(batches)))
    arguments = (loss_setup(spec, name, batch_set.setting.vocab), plan_of(spec))
    with Worker(ProfiledSteps, arguments, "loss", spec.time_limit_s) as worker:
        # The profiler slows steps down, and there are as many as the schedule says.
        limit_s = spec.time_limit_s * max(1, schedule.repeat)
        outcome = worker.call("run", batches, seeds, own, schedule, time_limit_s=limit_s)
    data = {"files": [f"{folder.name}/{own.name}/{file}" for file in outcome.value]} if outcome.ok else {}
    return outcome_to_piece(["trace", name, label], outcome, data)
