"""How long does a function take? Three rounds in fresh processes, one number with its interval."""

import numpy as np

import stopwav

audio = np.random.default_rng(0).standard_normal(160_000).astype(np.float32)  # 10 s at 16 kHz
window = np.hanning(400)


def spectrum() -> object:
    """The power spectrum of frames of 25 ms, 10 ms apart."""
    frames = np.lib.stride_tricks.sliding_window_view(audio, 400)[::160] * window
    return np.abs(np.fft.rfft(frames, 512)) ** 2


# Shorter than the default plan, which takes at least 1 s of warm-up and 1 s of values in each round.
plan = stopwav.Plan(rounds=3, warmup_s=0.2, min_values_s=0.3, max_values_s=1.0)
measurement = stopwav.measure(spectrum, plan)

time = measurement.time
if time.value is None or time.low is None or time.high is None:
    raise SystemExit(f"spectrum: {measurement.status}: {time.note}")
print(f"spectrum: {1e3 * time.value:.2f} ms [{1e3 * time.low:.2f} to {1e3 * time.high:.2f}], {time.n} values")
for round_ in measurement.good:
    assert round_.samples is not None
    first_ms, median_ms = 1e3 * round_.samples.first_s, 1e3 * round_.median_s
    print(f"  round {round_.index}: first call {first_ms:.2f} ms, then {median_ms:.2f} ms")
print(f"  {measurement.outliers.count} of {measurement.outliers.n} values are outliers: shown, never removed")
for caution in measurement.cautions:
    print(f"  ! {caution.code}: {caution.message}")
