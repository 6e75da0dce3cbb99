"""One round of steps, in a worker or in this process: each step, and in the first round the passes without times."""

from __future__ import annotations

from typing import Protocol

from stopwav.errors import StopwavError
from stopwav.measure.process import Outcome
from stopwav.measure.worker import describe_error, is_out_of_memory
from stopwav.record import Record
from stopwav.studies.step.spec import StepSpec
from stopwav.studies.step.step_runner import StepRunner
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


def measure_round(spec: StepSpec, record: Record, index: int, process: StepProcess) -> None:
    """Measure what is not in the record yet; each step is recorded at once, and one that fails ends the round."""
    missing = [number for number in range(spec.steps) if ("step", index, number) not in record]
    passes = ["memory", *(["profile"] if spec.profile else [])]
    if not missing and (index or all((name, 0) in record for name in passes)):
        return
    ready = process.call("warm_up", time_limit_s=spec.time_limit_s)
    if ("ready", index) not in record:
        record.append(outcome_to_piece(("ready", index), ready))
    if not ready.ok:
        return
    for number in missing:
        outcome = process.call("measure", number, time_limit_s=spec.time_limit_s)
        record.append(outcome_to_piece(("step", index, number), outcome))
        spec.report("measuring", index * spec.steps + number + 1, spec.rounds * spec.steps)
        if not outcome.ok:
            return
    if index == 0:
        _run_passes(spec, record, process)


def _run_passes(spec: StepSpec, record: Record, process: StepProcess) -> None:
    """Measure memory and, where it is asked for, profile, on the batch that takes most."""
    largest = process.call("largest", time_limit_s=spec.time_limit_s)
    number = largest.value if largest.ok else 0
    if ("memory", 0) not in record:
        outcome = process.call("memory", number, time_limit_s=spec.time_limit_s)
        record.append(outcome_to_piece(("memory", 0), outcome))
    if spec.profile and ("profile", 0) not in record:
        outcome = process.call("profile", traces_folder(record), number, time_limit_s=spec.time_limit_s)
        record.append(outcome_to_piece(("profile", 0), outcome))
