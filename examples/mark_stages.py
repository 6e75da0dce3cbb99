"""Which part of a call takes the time? Mark the parts; the marks may stay in production code."""

from collections.abc import Callable, Mapping

import numpy as np

import stopwav


class Recogniser:
    """A workload: `setup` is not timed, runs in the fresh process, and returns the call that is."""

    name = "recogniser"
    params: Mapping[str, int] = {"seconds": 5}

    def setup(self) -> Callable[[], object]:
        """The call to time; the audio and the weights are made here."""
        random = np.random.default_rng(0)
        audio, weights = random.standard_normal(80_000), random.standard_normal((4, 257, 257))

        def call() -> object:
            with stopwav.stage("features"):
                frames = np.abs(np.fft.rfft(audio.reshape(-1, 160), 512))
            with stopwav.stage("inference"):
                for layer in weights:
                    with stopwav.stage("layer"):  # inside: counted as inference/layer
                        frames = np.tanh(frames @ layer)
            return frames.argmax(axis=1)

        return call


plan = stopwav.Plan(rounds=2, warmup_s=0.2, min_values_s=0.2, max_values_s=0.5)
measurement = stopwav.measure(Recogniser(), plan)

total_s = measurement.time.value or 0.0
print(f"{measurement.name}: {1e3 * total_s:.2f} ms per call")
for path, part in measurement.stages.items():
    part_s = part.value or 0.0
    print(f"  {path:16} {1e3 * part_s:6.2f} ms  {part_s / total_s:4.0%}")
