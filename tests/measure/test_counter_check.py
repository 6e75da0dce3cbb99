"""The resolution of counters with known steps, and sampled power against integrals by hand; no test waits."""

import time
from collections.abc import Callable

import pytest
from fake_machine import Bench, FakeNvml

from stopwav.measure import energy_series
from stopwav.measure import sampled_power as sampling
from stopwav.measure.counter_check import STEPS, WATCH_S, counter_resolutions
from stopwav.measure.energy_series import MIN_WINDOWS, WindowEnergy, work_windows
from stopwav.measure.meter import Counter, Meter, Meters
from stopwav.measure.meters import nvml_meter
from stopwav.measure.nvml import NoNvml, load_nvml
from stopwav.measure.sampled_power import PowerLog, sampled_power


def meters(*counters: Counter, tick_s: float = 0.1) -> Meters:
    return Meters((Meter("bench", counters, tick_s),), (), ())


def stepped(bench: Bench, every_s: float, watts: float) -> Callable[[], int]:
    """A counter at so many watts that shows what was spent as of its last step."""
    return lambda: round(int(bench.now_s / every_s + 1e-9) * every_s * watts * 1e6)


def test_the_step_and_its_interval_come_back() -> None:
    """80 W shown every 100 ms are steps of 8 J."""
    bench = Bench()
    resolution = counter_resolutions(meters(Counter("gpu", stepped(bench, 0.1, 80))), bench)["gpu"]
    assert resolution.step_j == pytest.approx(8)
    assert resolution.interval_s == pytest.approx(0.1, rel=0.05)
    assert bench.now_s == pytest.approx(STEPS * 0.1, abs=0.1)


def test_the_coarser_of_two_counters_speaks_for_their_part() -> None:
    bench = Bench()
    both = [Counter("cpu package", stepped(bench, 0.1, watts)) for watts in (20, 50)]
    assert counter_resolutions(meters(*both), bench)["cpu package"].step_j == pytest.approx(5)


def test_a_counter_too_coarse_to_wait_for_or_dead_says_so() -> None:
    bench = Bench()
    slow = Counter("battery", stepped(bench, 1.5, 20))
    resolution = counter_resolutions(meters(slow, tick_s=0.5), bench)["battery"]
    assert (resolution.step_j, resolution.interval_s) == (None, None)
    assert "advanced 1 times" in resolution.note
    assert bench.now_s < WATCH_S + 0.1

    def lost() -> int:
        raise OSError("GPU is lost")

    assert "GPU is lost" in counter_resolutions(meters(Counter("gpu", lost)), bench)["gpu"].note


# --- sampled power ---


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


def test_a_power_that_cannot_be_read_gives_the_reason() -> None:
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


def test_work_that_blocks_the_sampling_gives_no_integral() -> None:
    log = sampled(FakeNvml(0), [100_000] * 5, every_s=0.75)
    joules, why = log.joules("gpu", 0.0, 3.0)
    assert joules is None
    assert "not read for 0.8 s" in why


def test_a_counter_without_power_has_no_cross_check_and_no_thread() -> None:
    bench = Bench()
    bench.part("cpu package", 10, 40)
    with sampled_power(Meter("RAPL", (bench.counter("cpu package"),), 0.001), bench) as log:
        bench.work(1)()
    assert log.times_s == []
    joules, why = log.joules("cpu package", 0.0, 1.0)
    assert joules is None
    assert why.startswith("no cross-check")


def test_windows_of_work_carry_both_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A power that never changes: however late the samples are, they add up to power × time."""
    monkeypatch.setattr(energy_series, "MIN_WINDOW_S", 0.1)
    monkeypatch.setattr(sampling, "LONGEST_GAP_S", 600.0)
    begin_s = time.perf_counter()
    with_power = Counter("gpu", lambda: round(250e6 * (time.perf_counter() - begin_s)), read_w=lambda: 250.0)
    without_power = Counter("cpu package", with_power.read_uj)
    windows = work_windows(
        lambda: time.sleep(0.02), Meter("bench", (with_power, without_power), 0.001, sample_s=0.01), time_s=0.3
    )
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
