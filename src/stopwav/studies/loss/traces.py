"""`stopwav loss --profile`: traces of each loss under torch.profiler, from a pass of its own that feeds no number."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from stopwav.errors import Caution, StopwavError
from stopwav.measure.process import FreshProcess
from stopwav.profiling.schedule import Schedule
from stopwav.record import Piece, Record
from stopwav.speech.batches import Batch
from stopwav.studies.loss.loss_step import StepPlace, StepRunner, place_of
from stopwav.studies.loss.setting import Fed, batch_seed, fed_of
from stopwav.studies.loss.spec import LossSpec, plan_of
from stopwav.studies.spec import Progress


def traces_folder(record: Record) -> Path:
    """Where the traces of a run lie, a folder for each loss and setting: beside its file."""
    return record.path.with_name(f"{record.path.stem}-traces")


def trace_losses(spec: LossSpec, record: Record, schedule: tuple[int, ...], report: Progress) -> None:
    """Trace every loss that went well and has no trace yet; how each pass ended is recorded at once."""
    if len(schedule) != 4:
        raise StopwavError(f"--profile-schedule {schedule}: give wait, warmup, active and repeat, such as 10,10,20,2")
    plan = Schedule(wait=schedule[0], warmup=schedule[1], active=schedule[2], repeat=schedule[3])
    good = {tuple(piece.key[2:4]) for piece in record.pieces if piece.key[0] == "step" and piece.status == "ok"}
    passes = [(name, fed) for fed in fed_of(record.header) for name in spec.losses if (name, fed.setting.label) in good]
    for done, (name, fed) in enumerate(passes, start=1):
        if ("trace", name, fed.setting.label) not in record:
            record.append(_trace(spec, name, fed, plan, traces_folder(record)))
        report("profiling", done, len(passes))


def trace_cautions(record: Record, loss: str, label: str) -> tuple[Caution, ...]:
    """That a loss has no trace though it was to have one, and why."""
    for piece in record.pieces:
        if tuple(piece.key) == ("trace", loss, label) and piece.status != "ok":
            told = f"no trace ({piece.status}: {piece.message}); the numbers do not need it"
            return (Caution("trace-failed", told),)
    return ()


class ProfiledSteps:
    """Inside its fresh process: steps under the profiler, one batch after the other."""

    def __init__(self, place: StepPlace, plan: Any) -> None:
        self._runner = StepRunner(place, plan)

    def run(self, batches: tuple[Batch, ...], seeds: tuple[int, ...], folder: Path, schedule: Schedule) -> list[str]:
        """The names of the traces' files, one for each repetition of the schedule."""
        from stopwav.profiling.schedule import Tracer

        tracer = Tracer(folder, schedule)
        number = 0
        for _ in range(schedule.repeat):
            tracer.begin_cycle()
            try:
                for _ in range(schedule.cycle_steps):
                    place = number % len(batches)
                    self._runner.once(batches[place], seeds[place])
                    tracer.end_step()
                    number += 1
            finally:
                tracer.stop()
        return [path.name for path in tracer.files]


def _trace(spec: LossSpec, name: str, fed: Fed, schedule: Schedule, folder: Path) -> Piece:
    own = folder / re.sub(r"[^\w.-]+", "-", f"{name}-{fed.setting.label}")
    seeds = tuple(batch_seed(spec, number) for number in range(len(fed.batches)))
    with FreshProcess(ProfiledSteps, place_of(spec, name, fed.setting.vocab), plan_of(spec)) as process:
        outcome = process.start(spec.time_limit_s)
        if outcome.ok:
            # The profiler slows steps down, and there are as many as the schedule says.
            limit_s = spec.time_limit_s * max(1, schedule.repeat)
            outcome = process.call("run", fed.batches, seeds, own, schedule, time_limit_s=limit_s)
    data = {"files": [f"{folder.name}/{own.name}/{file}" for file in outcome.value]} if outcome.ok else {}
    key: list[str | int] = ["trace", name, fed.setting.label]
    return Piece(key=key, status=outcome.status, message=outcome.message, last_words=outcome.last_words, data=data)
