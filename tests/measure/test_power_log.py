"""Sampled power beside a counter: integrals worked out by hand, and every reason for which there is none."""

import time

import pytest
from fake_machine import Bench, FakeNvml

from stopwav.measure import energy_series, power_log
from stopwav.measure.counter_check import PowerLog, sampled_power
from stopwav.measure.energy_series import MIN_WINDOWS, WindowEnergy, work_windows
from stopwav.measure.meters import Counter, Meter, nvml_meter
from stopwav.measure.nvml import NoNvml, load_nvml


def metered(nvml: FakeNvml) -> Meter:
    meter = nvml_meter(nvml)
    assert isinstance(meter, Meter)
    return meter


def sampled(nvml: FakeNvml, milliwatts: list[int], every_s: float = 0.25) -> PowerLog:
    """A log of the first GPU, which drew so many milliwatts at 0 s, at 0.25 s, and so on."""
    bench = Bench()
    log = PowerLog(metered(nvml), bench)
    for power in milliwatts:
        nvml.power_mw[0] = power
        log.sample()
        bench.sleep(every_s)
    return log


def test_the_integral_of_sampled_power_by_hand() -> None:
    """200 W, then 400 W from the third sample on: ¼ s each at 200, (200 + 400) / 2, 400 and 400 W."""
    log = sampled(FakeNvml(0), [200_000, 200_000, 400_000, 400_000, 400_000])
    assert log.joules("gpu", 0.0, 1.0) == (pytest.approx(50 + 75 + 100 + 100), "")
    # A window that opens and closes between samples: ⅛ s at 200 W, then the slope, then ⅛ s at 400 W.
    assert log.joules("gpu", 0.125, 0.625) == (pytest.approx(25 + 75 + 50), "")


def test_each_gpu_has_its_own_integral() -> None:
    nvml = FakeNvml(0, 0)
    log = sampled(nvml, [300_000] * 5)
    assert log.joules("gpu 0", 0.0, 1.0) == (pytest.approx(300), "")
    assert log.joules("gpu 1", 0.0, 1.0) == (pytest.approx(100), "")


def test_a_power_that_is_not_told_or_stops_being_told_says_so() -> None:
    silent, breaking = FakeNvml(0), FakeNvml(0)
    silent.power_mw[0] = None
    bench = Bench()
    log = PowerLog(metered(silent), bench)
    log.sample()
    assert log.joules("gpu", 0.0, 0.1) == (None, "its power could not be read (Not Supported)")
    log = sampled(breaking, [100_000] * 3)
    breaking.power_mw[0] = None
    log.sample()
    assert log.joules("gpu", 0.0, 0.5) == (None, "its power could not be read (Not Supported)")


def test_work_that_holds_up_the_sampling_gives_no_integral() -> None:
    log = sampled(FakeNvml(0), [100_000] * 5, every_s=0.75)
    found, why = log.joules("gpu", 0.0, 3.0)
    assert found is None
    assert "not read for 0.8 s" in why


def test_a_counter_without_a_power_reading_has_no_second_reading_and_no_thread() -> None:
    bench = Bench()
    bench.part("cpu package", 10, 40)
    with sampled_power(Meter("RAPL", (bench.counter("cpu package"),), 0.001), bench) as log:
        bench.work(1)()
    assert log.times_s == []
    found, why = log.joules("cpu package", 0.0, 1.0)
    assert found is None
    assert why.startswith("no second reading")


def test_windows_of_work_carry_both_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A power that never changes: however late the samples are, they add up to power × time."""
    monkeypatch.setattr(energy_series, "MIN_WINDOW_S", 0.1)
    monkeypatch.setattr(power_log, "SAMPLE_S", 0.01)
    monkeypatch.setattr(power_log, "LONGEST_GAP_S", 600.0)
    begin_s = time.perf_counter()
    told = Counter("gpu", lambda: round(250e6 * (time.perf_counter() - begin_s)), read_w=lambda: 250.0)
    untold = Counter("cpu package", told.read_uj)
    windows = work_windows(lambda: time.sleep(0.02), Meter("bench", (told, untold), 0.001), time_s=0.3)
    assert len(windows) >= MIN_WINDOWS
    for window in windows:
        assert window.sampled_joules == {"gpu": pytest.approx(250 * window.seconds)}
        assert window.joules["gpu"] >= 250 * window.seconds
        assert set(window.unsampled) == {"cpu package"}


@pytest.mark.gpu
def test_on_a_steady_load_sampled_power_and_the_counter_agree_within_a_tenth() -> None:
    torch = pytest.importorskip("torch")
    nvml = load_nvml()
    if isinstance(nvml, NoNvml) or not torch.cuda.is_available():
        pytest.skip("needs a GPU that NVML sees")
    meter = nvml_meter(nvml)
    if not isinstance(meter, Meter):
        pytest.skip(meter.reason)
    matrix = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)

    def work() -> None:
        for _ in range(20):
            matrix @ matrix
        torch.cuda.synchronize()

    # Recent GPUs tell their power as the mean of the last second: what came before must be over.
    end_s = time.perf_counter() + 3
    while time.perf_counter() < end_s:
        work()
    found: list[WindowEnergy] = work_windows(work, meter, time_s=6.0)
    # With several GPUs, the one that worked; the others idle, and agree too.
    for window in found:
        assert window.seconds >= 2
        assert window.sampled_joules.keys() == window.joules.keys()
        for part, joules in window.joules.items():
            assert window.sampled_joules[part] == pytest.approx(joules, rel=0.1), part
