"""The calls of a comparison to an engine's process, each stored as a piece: its size, its inputs, and its energy."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from stopwav.measure.counter_check import counter_resolutions
from stopwav.measure.energy_series import MIN_WINDOWS, external_window_s
from stopwav.measure.launcher import ask_machine
from stopwav.measure.meter import NoMeter
from stopwav.measure.meters import find_meters
from stopwav.measure.plan import Plan
from stopwav.measure.process import Outcome
from stopwav.measure.sampler import MAX_WARMUP_S, MIN_WARMUP_CALLS
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.speech.corpus import Utterance
from stopwav.studies.budget import Budget, time_text
from stopwav.studies.compare.engine_runner import EngineRunner, device_of
from stopwav.studies.compare.external_meter import copy_readings, log_interval_s
from stopwav.studies.compare.pieces import METERS
from stopwav.studies.compare.spec import CompareSpec, plan_of
from stopwav.studies.worker import LOAD_LIMIT_S, MAX_DEATHS, Worker, outcome_to_piece

# Kind, round, engine, and the place of the input or the length in frames.
Key = tuple[str, int, str, int]


def engine_worker(engine: str, budget: Budget, max_deaths: int = MAX_DEATHS) -> Worker:
    """Return a worker for an engine, timed by the clock of its device, which loads within the budget."""
    limit_s = within(budget, LOAD_LIMIT_S)
    return Worker(EngineRunner, (engine, device_of(engine)), max_deaths=max_deaths, load_limit_s=limit_s)


def within(budget: Budget, limit_s: float) -> float:
    """Return how long a call may take: up to the end of the budget, where that is sooner than its limit."""
    return min(limit_s, max(1.0, budget.left_s))


def describe_engine(spec: CompareSpec, record: Record, name: str, engine: str, budget: Budget, time_s: float) -> None:
    """Store the engine's description, its parameters, and its operations at each length; failures are stored too.

    Where counting at a length would take longer than is left of `time_s`, that is stored in its place.
    """
    # It may die at one length; the next one has a new process.
    with engine_worker(engine, budget, max_deaths=len(spec.frames) + 2) as worker:
        loaded = _describe(spec, record, worker, ["model", name], budget, "describe", spec.depth)
        deadline_s, expected_s = budget.spent_s + time_s, 0.0
        for frames in spec.frames if loaded else ():
            begin_s = budget.spent_s
            key: list[str | int] = ["operations", name, frames]
            if begin_s + expected_s * frames > deadline_s and tuple(key) not in record:
                data = {"multiply_adds": None, "reason": f"counting takes more than {time_text(time_s)} of the budget"}
                record.append(Piece(key=key, status="ok", data=data))
            elif not _describe(spec, record, worker, key, budget, "operations", frames, spec.depth, spec.seed):
                return
            else:
                # Operations grow with the length, or faster.
                expected_s = max(expected_s, (budget.spent_s - begin_s) / frames)


def _describe(
    spec: CompareSpec, record: Record, worker: Worker, key: list[str | int], budget: Budget, *call: str | int
) -> bool:
    """Store what a call of a description returns, unless the record has it; return whether the engine loaded."""
    if tuple(key) in record:
        return (piece := record.find(tuple(key))) is not None and "loaded" not in piece.data
    loaded = worker.load()
    if loaded.status == "timeout" and worker.load_limit_s < LOAD_LIMIT_S:
        return False  # the end of the budget cut it short, which is no result
    if not loaded.ok:
        spec.say(f"{key[1]}: {loaded.message}")
        record.append(outcome_to_piece(key, loaded, {"loaded": False}))
        return False
    method, *arguments = call
    limit_s = within(budget, spec.time_limit_s)
    record.append(outcome_to_piece(key, worker.call(str(method), *arguments, time_limit_s=limit_s)))
    return True


def measure_sample(record: Record, worker: Worker, key: Key, utterance: Utterance, plan: Plan, budget: Budget) -> bool:
    """Transcribe one input, after the warm-up of a new process, and store how it went, unless the record has it.

    Return whether it is stored: what the end of the budget cut short is no result.
    """
    if key in record:
        return True
    _, index, name, _ = key
    limit_s = within(budget, plan.time_limit_s)
    outcome = warm_worker(record, worker, (index, name), utterance, plan, budget)
    if outcome.ok:
        outcome = worker.call("transcribe", utterance, time_limit_s=limit_s)
    if outcome.status == "timeout" and limit_s < plan.time_limit_s:
        return False
    data = {"id": utterance.id, **(outcome.value if outcome.ok else {})}
    record.append(outcome_to_piece(key, outcome, data))
    return True


def warm_worker(
    record: Record, worker: Worker, place: tuple[int, str], utterance: Utterance, plan: Plan, budget: Budget
) -> Outcome:
    """Warm a new process up and store what loading it took; where that fails, the next call tries again."""
    if worker.warm:
        return Outcome("ok")
    limit_s = min(MAX_WARMUP_S + 2 * plan.time_limit_s, within(budget, math.inf))
    fewest = 1 if math.isfinite(budget.total_s) else MIN_WARMUP_CALLS
    outcome = worker.call("warm_up", utterance, plan, fewest, time_limit_s=limit_s)
    if outcome.ok:
        worker.warm = True
        attempt = sum(key[:3] == ("load", *place) for key in record.keys)
        record.append(outcome_to_piece(["load", *place, attempt], outcome))
    return outcome


def find_run_meters(spec: CompareSpec, record: Record) -> bool:
    """Return whether energy can be measured; the meters found are stored, and why others are missing."""
    if tuple(METERS) not in record:
        # Readings of an external meter are kept in the run, which older versions did not always do.
        record.append(Piece(key=METERS, status="ok", data={**ask_machine(_describe_meters), "keeps_log": True}))
    return spec.meter_csv is not None or ask_machine(_has_meter)


def _has_meter() -> bool:
    return not isinstance(find_meters().joined(), NoMeter)


def _describe_meters() -> dict[str, Any]:
    """The meters of this machine, why others are missing, and the smallest step of each."""
    meters = find_meters()
    joined = meters.joined()
    return {
        "source": None if isinstance(joined, NoMeter) else joined.source,
        "missing": [f"{meter.source}: {meter.reason}" for meter in meters.missing],
        "grains": {part: asdict(resolution) for part, resolution in counter_resolutions(meters).items()},
    }


def measure_energy(spec: CompareSpec, record: Record, worker: Worker, key: Key, time_s: float, budget: Budget) -> None:
    """Measure the energy of one length for `time_s` in this process and store it, unless the record has it."""
    if key in record:
        return
    frames, plan = key[3], plan_of(spec)
    log = None if spec.meter_csv is None else Path(spec.meter_csv)
    interval_s = log_interval_s(log) if log else 0.0
    # Idle window, warm-up, then the windows, which wait for the counter in between; each may end late by a call.
    windows_s = (1 + MIN_WINDOWS) * external_window_s(interval_s)
    limit_s = within(budget, windows_s + MAX_WARMUP_S + 2 * time_s + 2 * plan.time_limit_s)
    arguments = (frames, plan.seed, plan, time_s, log is not None, interval_s)
    outcome = worker.call("energy", *arguments, time_limit_s=limit_s)
    record.append(outcome_to_piece(key, outcome))
    if log:
        copy_readings(log, record)
    if not outcome.ok:
        # A device that failed once may fail at everything from then on: the next length has a new process.
        worker.close()
