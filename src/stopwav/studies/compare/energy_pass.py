"""The energy of a comparison as it is measured: few rounds, one engine after the other, in the time that there is."""

from __future__ import annotations

from pathlib import Path

from stopwav.measure.energy import IDLE_S, MIN_WINDOW_S
from stopwav.measure.energy_series import MIN_WINDOWS, external_window_s
from stopwav.measure.launcher import ask_machine
from stopwav.measure.meter import NoMeter
from stopwav.measure.meters import find_meters
from stopwav.measure.rounds import alternating_order
from stopwav.studies.budget import time_text
from stopwav.studies.compare.engine_rounds import EngineRounds
from stopwav.studies.compare.external_meter import log_interval_s
from stopwav.studies.compare.passes import engine_worker, find_run_meters, measure_energy
from stopwav.studies.compare.spec import ENERGY_ROUNDS, CompareSpec, energy_rounds, plan_of

# Of what is left after the first sweep: the other half is for verdicts on latency.
ENERGY_SHARE = 0.5


def run_energy(spec: CompareSpec, rounds: EngineRounds) -> None:
    """Measure the energy of every length in few rounds; skipped without a meter, and where a budget is too small."""
    if not spec.energy or not find_run_meters(spec, rounds.record):
        return
    count, time_s = _sizes(spec, rounds)
    named = list(rounds.engines.items())
    total, done = count * len(spec.frames) * len(named), 0
    for index in range(count):
        for which in alternating_order(len(named), index):
            name, engine = named[which]
            # One at a time: an engine that is loaded and waits would add to the joules of the other.
            with engine_worker(engine, rounds.budget) as worker:
                for frames in spec.frames:
                    key = ("energy", index, name, frames)
                    measure_energy(spec, rounds.record, worker, key, time_s, rounds.budget)
                    done += 1
                    spec.report("energy", done, total)


def shortest_window_s(spec: CompareSpec) -> float | None:
    """Return the shortest window that the meters of this machine need; None where energy will not be measured."""
    if not spec.energy:
        return None
    own_s = ask_machine(_meter_window_s)
    window_s = max(MIN_WINDOW_S, own_s or 0.0)
    if spec.meter_csv is not None:
        return max(window_s, external_window_s(log_interval_s(Path(spec.meter_csv))))
    return None if own_s is None else window_s


def _meter_window_s() -> float | None:
    """The shortest window of this machine's meters; None where it has none."""
    meter = find_meters().joined()
    return None if isinstance(meter, NoMeter) else meter.min_window_s


def _sizes(spec: CompareSpec, rounds: EngineRounds) -> tuple[int, float]:
    """How many rounds there are, and for how many seconds the work repeats at each length of one."""
    planned = energy_rounds(spec)
    if not spec.is_budgeted:
        return planned, spec.energy_time_s / planned
    window_s, visits = shortest_window_s(spec) or MIN_WINDOW_S, len(rounds.engines) * len(spec.frames)
    others_s = rounds.load_s + len(rounds.engines) * max(IDLE_S, window_s) + visits * plan_of(spec).warmup_s
    part_s, shortest_s = ENERGY_SHARE * rounds.budget.left_s, others_s + visits * MIN_WINDOWS * window_s
    count = min(ENERGY_ROUNDS, int(part_s / shortest_s))
    if count == 0:
        enough_s = rounds.budget.spent_s + shortest_s / ENERGY_SHARE
        rounds.spec.say(
            f"no energy: its windows take {time_text(shortest_s)}, and half of what is left is {time_text(part_s)}; "
            f"--budget {enough_s:.0f}s has time for them, fewer --frames take less"
        )
        return 0, 0.0
    return count, min(spec.energy_time_s / planned, (part_s / count - others_s) / visits)
