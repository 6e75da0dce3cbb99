"""A machine whose GPU draws 200 W throughout, and one without a meter: here, and in the processes of a study."""

import time

import pytest

from stopwav.measure import counter_check, energy_series
from stopwav.measure.meters import Counter, Meter, Meters, NoMeter
from stopwav.studies import compare_passes, compare_runner


def meter_steadily(patch: pytest.MonkeyPatch) -> None:
    """Let this process find such a GPU, by its counter and by its power, however late that is sampled."""
    begin_s = time.perf_counter()
    counter = Counter("gpu", lambda: round(200e6 * (time.perf_counter() - begin_s)), read_w=lambda: 200.0)
    meters = Meters((Meter("NVML", (counter,), tick_s=0.001),), (), ("gpu",))
    for module in (compare_runner, compare_passes):
        patch.setattr(module, "find_meters", lambda: meters)
    for name in ("MIN_WINDOW_S", "IDLE_S"):
        patch.setattr(energy_series, name, 0.05)
    patch.setattr(counter_check, "LONGEST_GAP_S", 600.0)


def meter_nothing(patch: pytest.MonkeyPatch) -> None:
    """Let this process find no meter, and take windows that do not take a test's patience."""
    patch.setattr(compare_runner, "find_meters", lambda: Meters((), (NoMeter("none here", "RAPL"),), ()))
    for name in ("EXTERNAL_WINDOW_S", "MIN_WINDOW_S", "IDLE_S"):
        patch.setattr(energy_series, name, 0.05)


def metered_runner(engine: str, device: str) -> compare_runner.EngineRunner:
    """What a study asks in a process of an engine; the GPU is there too."""
    meter_steadily(pytest.MonkeyPatch())
    return compare_runner.EngineRunner(engine, device)


def unmetered_runner(engine: str, device: str) -> compare_runner.EngineRunner:
    """What a study asks in a process of an engine; there is no meter."""
    meter_nothing(pytest.MonkeyPatch())
    return compare_runner.EngineRunner(engine, device)
