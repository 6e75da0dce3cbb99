"""Which steps of a loop are slow? Cycles of wait, warm-up and active steps; a table when the block ends."""

import numpy as np

import stopwav

random = np.random.default_rng(0)
weights = random.standard_normal((256, 256))


def batches(count: int) -> list[np.ndarray]:
    """Batches of which every twentieth is eight times as long."""
    return [random.standard_normal((4000 if index % 20 == 19 else 500, 256)) for index in range(count)]


with stopwav.profile_steps(wait=1, warmup=2, active=20, repeat=2) as steps:
    for batch in steps.over(batches(50)):
        with stopwav.stage("forward"):
            outputs = np.tanh(batch @ weights)
        with stopwav.stage("loss"):
            float((outputs**2).mean())

print(f"{len(steps.active)} steps measured of {steps.index}")
chart = steps.chart
if chart.mean is not None and chart.limit is not None:
    print(f"mean {1e3 * chart.mean:.2f} ms, upper control limit {1e3 * chart.limit:.2f} ms")
for step in steps.above_limit:
    print(f"step {step.index} took {1e3 * step.wall_s:.2f} ms")
