"""A machine whose GPU draws 200 W all the time, and one without a meter: in this process and in those of a study."""

import time

import pytest

from stopwav.measure import energy_series, sampled_power
from stopwav.measure.meter import Counter, Meter, Meters, NoMeter
from stopwav.piece import Piece
from stopwav.studies.compare import engine_runner, passes
from stopwav.studies.compare.engine_rounds import EngineRounds, Work
from stopwav.studies.compare.pieces import length_place
from stopwav.studies.compare.samples import inputs_of


def meter_steadily(patch: pytest.MonkeyPatch) -> None:
    """Let this process find such a GPU, with a counter and with its power, however late that is sampled."""
    begin_s = time.perf_counter()
    counter = Counter("gpu", lambda: round(200e6 * (time.perf_counter() - begin_s)), read_w=lambda: 200.0)
    meters = Meters((Meter("NVML", (counter,), tick_s=0.001),), (), ("gpu",))
    for module in (engine_runner, passes):
        patch.setattr(module, "find_meters", lambda: meters)
    for name in ("MIN_WINDOW_S", "IDLE_S"):
        patch.setattr(energy_series, name, 0.05)
    patch.setattr(sampled_power, "LONGEST_GAP_S", 600.0)


def meter_nothing(patch: pytest.MonkeyPatch) -> None:
    """Let this process find no meter, and measure short windows."""
    patch.setattr(engine_runner, "find_meters", lambda: Meters((), (NoMeter("none here", "RAPL"),), ()))
    for name in ("EXTERNAL_WINDOW_S", "MIN_WINDOW_S", "IDLE_S"):
        patch.setattr(energy_series, name, 0.05)


def skip_round(rounds: EngineRounds, index: int, work: Work) -> None:
    """Store the lengths and inputs of a round as skipped: they are not of interest to energy."""
    record, inputs = rounds.record, inputs_of(rounds.record)
    for name in work.engines:
        keys = {length_place(name, frames).key(index, 0): {} for frames in work.lengths}
        keys |= {("sample", index, name, place): {"id": inputs[place].id} for place in work.places}
        for key, data in keys.items():
            if key not in record:
                record.append(Piece(key=list(key), status="skipped", message="not of interest", data=data))


def metered_runner(engine: str, device: str) -> engine_runner.EngineRunner:
    """Return the runner of an engine's process in which the GPU is found."""
    meter_steadily(pytest.MonkeyPatch())
    return engine_runner.EngineRunner(engine, device)


def unmetered_runner(engine: str, device: str) -> engine_runner.EngineRunner:
    """Return the runner of an engine's process in which no meter is found."""
    meter_nothing(pytest.MonkeyPatch())
    return engine_runner.EngineRunner(engine, device)
