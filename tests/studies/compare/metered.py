"""A machine whose GPU draws 200 W all the time, and one without a meter: in this process and in those of a study."""

import time
from collections.abc import Sequence

import pytest

from stopwav.measure import energy_series, sampled_power
from stopwav.measure.meter import Counter, Meter, Meters, NoMeter
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.speech.utterance import Utterance
from stopwav.studies.compare import engine_runner, passes
from stopwav.studies.stored_rounds import RoundPlace


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


def skip_round(record: Record, places: Sequence[RoundPlace], index: int, *arguments: object) -> None:
    """Store a round of each length as skipped: they take a process each, and are not of interest to energy."""
    for key in (place.key(index, 0) for place in places):
        if key not in record:
            record.append(Piece(key=list(key), status="skipped", message="not of interest"))


def skip_sample(record: Record, worker: object, key: tuple[str | int, ...], utterance: Utterance, plan: object) -> None:
    """Store a sample as skipped."""
    if key not in record:
        record.append(Piece(key=list(key), status="skipped", message="not of interest", data={"id": utterance.id}))


def metered_runner(engine: str, device: str) -> engine_runner.EngineRunner:
    """Return the runner of an engine's process in which the GPU is found."""
    meter_steadily(pytest.MonkeyPatch())
    return engine_runner.EngineRunner(engine, device)


def unmetered_runner(engine: str, device: str) -> engine_runner.EngineRunner:
    """Return the runner of an engine's process in which no meter is found."""
    meter_nothing(pytest.MonkeyPatch())
    return engine_runner.EngineRunner(engine, device)
