"""How long a loss run may take: its budget, or its rounds by the time of a cell in earlier runs or by a probe."""

from __future__ import annotations

from stopwav.record import Header, Record
from stopwav.studies.forecast import Forecast, earlier_runs
from stopwav.studies.loss.batch_sets import batch_sets, load_spec_shapes, make_sets
from stopwav.studies.loss.metrics import step_values
from stopwav.studies.loss.rounds import load_rounds
from stopwav.studies.loss.size import OPERATIONS, SLOWDOWN, START_S, fit_size
from stopwav.studies.loss.spec import LossSpec, plan_of
from stopwav.studies.machine_speed import probe_machine
from stopwav.studies.stored_rounds import round_time_s


def forecast(spec: LossSpec) -> Forecast:
    """Return seconds and their basis: the budget, or rounds × the time that the plan gives each batch of each loss."""
    from stopwav.losses.registry import installed_losses

    spec = spec.model_copy(update={"losses": spec.losses or installed_losses(spec.device)})
    shapes = load_spec_shapes(spec)  # raises what is wrong with them
    if spec.is_budgeted:
        return Forecast(
            spec.total_s, (f"losses: {len(spec.losses)}", "the budget; less where everything is decided sooner")
        )
    machine = probe_machine(spec.device, spec.memory_limit_gb)
    sized = fit_size(spec, shapes, machine)[0] if spec.is_fitted else spec
    sets, plan = make_sets(sized, shapes), plan_of(spec)
    earlier = {name: _time_per_cell(spec, name) for name in spec.losses}
    assumed_s = SLOWDOWN * OPERATIONS * spec.dim * max(spec.vocab) / machine.operations_per_s
    round_s = 0.0
    for batch_set in sets:
        for name in spec.losses:
            cell_s = earlier[name] or assumed_s
            calls_s = [cell_s * batch.padded_cells for batch in batch_set.batches]
            round_s += START_S + sum(round_time_s(plan, call_s, 0.0) for call_s in calls_s)
    unknown = [name for name, cell_s in earlier.items() if cell_s is None]
    batches = sum(len(batch_set.batches) for batch_set in sets)
    basis = [f"losses: {len(spec.losses)}, batches: {batches}, rounds: {spec.rounds}"]
    if len(unknown) < len(spec.losses):
        basis.append(f"by earlier runs in {spec.save}")
    if unknown:
        basis.append(f"by a probe of this machine ({machine.text}) for {', '.join(unknown)}")
    if spec.largest_batch:
        basis.append("the search for the largest batch is not included")
    return Forecast((spec.rounds or 1) * round_s, tuple(basis))


def _time_per_cell(spec: LossSpec, loss: str) -> float | None:
    """Seconds per padded cell of a loss in the newest earlier run of the same sizes; None without one."""
    names = ("dim", "vocab", "dtype", "device")

    def same(header: Header) -> bool:
        stored = spec.stored()
        return loss in header.spec.get("losses", ()) and all(header.spec.get(name) == stored[name] for name in names)

    for record in earlier_runs(spec.save, "loss", same):
        if (cell_s := _measured(record, loss)) is not None:
            return cell_s
    return None


def _measured(record: Record, loss: str) -> float | None:
    seconds = cells = 0.0
    for batch_set in batch_sets(record.header):
        for number, rounds in load_rounds(record, loss, batch_set).good.items():
            values = step_values(rounds[-1])
            seconds += sum(values) / len(values)
            cells += batch_set.batches[number].padded_cells
    return seconds / cells if cells else None
