"""Is the new one faster? Rounds in turn (AB BA AB …), compared in pairs, with a verdict."""

import numpy as np

import stopwav

audio = np.random.default_rng(0).standard_normal(160_000).astype(np.float32)


def by_loop() -> float:
    """The energy of each frame of 10 ms, frame by frame."""
    return max(
        float(np.dot(audio[start : start + 160], audio[start : start + 160])) for start in range(0, 160_000, 160)
    )


def at_once() -> float:
    """The same by one call."""
    frames = audio.reshape(-1, 160)
    return float(np.einsum("ij,ij->i", frames, frames).max())


# A small plan, so that this takes seconds; the default of a race is ten rounds per side.
plan = stopwav.Plan(rounds=4, warmup_s=0.1, min_values_s=0.1, max_values_s=0.3)
race = stopwav.race(by_loop, at_once, plan)

verdict = race.verdict
print(f"at_once against by_loop: {verdict}")
if verdict.ratio is None or verdict.low is None or verdict.high is None:
    raise SystemExit(verdict.note)
print(
    f"takes {verdict.ratio:.3f} [{verdict.low:.3f} to {verdict.high:.3f}] of the time, from {verdict.n} rounds per side"
)
