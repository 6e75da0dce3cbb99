"""The calls of a comparison to an engine's process, each stored as a piece: its size, its inputs, and its energy."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from stopwav.measure.counter_check import counter_resolutions
from stopwav.measure.energy_series import MIN_WINDOWS, external_window_s
from stopwav.measure.meter import NoMeter
from stopwav.measure.meters import find_meters
from stopwav.measure.plan import Plan
from stopwav.measure.process import Outcome
from stopwav.measure.sampler import MAX_WARMUP_S
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.speech.corpus import Utterance
from stopwav.studies.compare.engine_runner import EngineRunner, device_of
from stopwav.studies.compare.external_meter import copy_readings, log_interval_s
from stopwav.studies.compare.pieces import METERS
from stopwav.studies.compare.spec import CompareSpec, energy_rounds, plan_of
from stopwav.studies.worker import MAX_DEATHS, Worker, outcome_to_piece

# Kind, round, engine, and the place of the input or the length in frames.
Key = tuple[str, int, str, int]


def engine_worker(engine: str, max_deaths: int = MAX_DEATHS) -> Worker:
    """Return a worker for an engine, timed by the clock of its device."""
    return Worker(EngineRunner, (engine, device_of(engine)), max_deaths=max_deaths)


def describe_engine(spec: CompareSpec, record: Record, name: str, engine: str) -> None:
    """Store the engine's description, its parameters, and its operations at each length; failures are stored too."""
    calls: list[tuple[list[str | int], str, tuple[int, ...]]] = [(["model", name], "describe", (spec.depth,))]
    for frames in spec.frames:
        calls.append((["operations", name, frames], "operations", (frames, spec.depth, spec.seed)))
    # It may die at one length; the next one has a new process.
    with engine_worker(engine, max_deaths=len(calls) + 1) as worker:
        for key, method, arguments in calls:
            if tuple(key) in record:
                continue
            loaded = worker.load()
            if not loaded.ok:
                record.append(outcome_to_piece(key, loaded, {"loaded": False}))
                return
            record.append(outcome_to_piece(key, worker.call(method, *arguments, time_limit_s=spec.time_limit_s)))


def measure_sample(record: Record, worker: Worker, key: Key, utterance: Utterance, plan: Plan) -> None:
    """Transcribe one input, after the warm-up of a new process, and store how it went, unless the record has it."""
    if key in record:
        return
    outcome = Outcome("ok") if worker.warm else _warm_up(record, worker, key, utterance, plan)
    if outcome.ok:
        outcome = worker.call("transcribe", utterance, time_limit_s=plan.time_limit_s)
    data = {"id": utterance.id, **(outcome.value if outcome.ok else {})}
    record.append(outcome_to_piece(key, outcome, data))


def _warm_up(record: Record, worker: Worker, key: Key, utterance: Utterance, plan: Plan) -> Outcome:
    """Warm the process up and store what loading it took; where that fails, the next input tries again."""
    limit_s = MAX_WARMUP_S + 2 * plan.time_limit_s
    outcome = worker.call("warm_up", utterance, plan, time_limit_s=limit_s)
    if outcome.ok:
        worker.warm = True
        _, index, name, _ = key
        attempt = sum(piece.key[:3] == ["load", index, name] for piece in record.pieces)
        record.append(outcome_to_piece(["load", index, name, attempt], outcome))
    return outcome


def find_run_meters(spec: CompareSpec, record: Record) -> bool:
    """Return whether energy can be measured; the meters found are stored, and why others are missing."""
    meters = find_meters()
    joined = meters.joined()
    if tuple(METERS) not in record:
        missing = [f"{meter.source}: {meter.reason}" for meter in meters.missing]
        source = None if isinstance(joined, NoMeter) else joined.source
        resolutions = {part: asdict(resolution) for part, resolution in counter_resolutions(meters).items()}
        # Readings of an external meter are kept in the run, which older versions did not always do.
        data = {"source": source, "missing": missing, "grains": resolutions, "keeps_log": True}
        record.append(Piece(key=METERS, status="ok", data=data))
    return spec.meter_csv is not None or not isinstance(joined, NoMeter)


def measure_energy(spec: CompareSpec, record: Record, worker: Worker, key: Key) -> None:
    """Measure the energy of one length in this process and store its windows, unless the record has them."""
    if key in record:
        return
    frames, plan = key[3], plan_of(spec)
    log = None if spec.meter_csv is None else Path(spec.meter_csv)
    interval_s = log_interval_s(log) if log else 0.0
    # Seconds for which the work repeats, of those that all rounds have together.
    time_s = spec.energy_time_s / energy_rounds(spec)
    # Idle window, warm-up, then the windows, which wait for the counter in between; each may end late by a call.
    windows_s = (1 + MIN_WINDOWS) * external_window_s(interval_s)
    limit_s = windows_s + MAX_WARMUP_S + 2 * time_s + 2 * plan.time_limit_s
    arguments = (frames, plan.seed, plan, time_s, log is not None, interval_s)
    outcome = worker.call("energy", *arguments, time_limit_s=limit_s)
    record.append(outcome_to_piece(key, outcome))
    if log:
        copy_readings(log, record)
    if not outcome.ok:
        # A device that failed once may fail at everything from then on: the next length has a new process.
        worker.close()
