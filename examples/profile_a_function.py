"""Where does my program's time go? Decorate a function or name a block; a table comes at exit, on standard error."""

import numpy as np

import stopwav

audio = np.random.default_rng(0).standard_normal((80, 160_000)).astype(np.float32)  # 80 times 10 s at 16 kHz


@stopwav.profile
def spectrum(samples: np.ndarray) -> np.ndarray:
    """The power spectrum of frames of 25 ms, 10 ms apart."""
    with stopwav.stage("frames"):
        frames = np.lib.stride_tricks.sliding_window_view(samples, 400)[::160] * np.hanning(400)
    with stopwav.stage("transform"):
        return np.abs(np.fft.rfft(frames, 512)) ** 2


for samples in audio:
    spectrum(samples)

with stopwav.profile("sort everything") as measured:
    np.sort(audio, axis=None)

# The same numbers from Python, at any time.
seen = stopwav.profiles()["spectrum"]
p95 = seen.p95.value
print(f"spectrum: {seen.calls} calls, P95 {'none' if p95 is None else f'{1e3 * p95:.2f} ms'}")
print(f"frames: {seen.stages['frames'].total_s / seen.total_s:.0%} of it")
if measured.host is not None:
    print(f"sort everything: {measured.host.over_baseline_bytes / 2**20:.0f} MiB on top")
print(f"sort everything: P95 {measured.p95.note}")
