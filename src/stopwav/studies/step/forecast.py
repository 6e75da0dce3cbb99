"""How long a step run may take: its budget, or its rounds by the time of a step in earlier runs or by a probe."""

from __future__ import annotations

from stopwav.record import Header
from stopwav.studies.forecast import Forecast, earlier_runs
from stopwav.studies.machine_speed import probe_machine
from stopwav.studies.step.completed_steps import completed_steps
from stopwav.studies.step.job import batches_of, is_reference, reference_sizes
from stopwav.studies.step.size import START_S, STEPS_PER_BATCH, fit_size, predicted, with_size
from stopwav.studies.step.spec import STEPS, StepSpec

# Steps of a round of the fixed plan besides those of its batches: the first, three to warm up, and one with hooks.
OTHER_STEPS = 5


def forecast(spec: StepSpec) -> Forecast:
    """Return seconds and their basis: the budget, or rounds × the time of their steps."""
    if is_reference(spec.model):
        batches_of(spec)  # raises what is wrong with them
    if spec.is_budgeted:
        return Forecast(spec.total_s, (spec.model, "the budget; less where everything is decided sooner"))
    rounds = spec.rounds or 1
    basis = f"steps: {spec.steps or STEPS}, rounds: {rounds}"
    names = ("model", "max_frames", "batch_size", "device", "dtype", "autocast", "shapes")

    def same(header: Header) -> bool:
        return all(header.spec.get(name) == spec.stored()[name] for name in names)

    for record in earlier_runs(spec.save, "step", same):
        steps = completed_steps(record)
        if steps.pieces:
            count = OTHER_STEPS + STEPS_PER_BATCH * (spec.steps or STEPS)
            round_s = START_S + count * float(steps.clean().mean())
            return Forecast(rounds * round_s, (basis, f"steps as long as in {record.path.stem}"))
    if not is_reference(spec.model):
        return Forecast(None, (basis, f"no earlier run of {spec.model} in {spec.save} to calibrate on"))
    sizes, machine = reference_sizes(spec), probe_machine(spec.device, spec.memory_limit_gb)
    sized = with_size(spec, {"size": fit_size(spec, sizes, machine).to_json()}) if spec.is_fitted else spec
    round_s, _ = predicted(sized, batches_of(sized), sizes, machine)
    return Forecast(rounds * round_s, (basis, f"by a probe of this machine ({machine.text})"))
