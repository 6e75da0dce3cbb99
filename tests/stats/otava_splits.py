"""Where Apache Otava, which implements the published E-divisive, splits some series: run with it on the path.

pip install --target DIR --no-deps apache-otava==0.8.0
PYTHONPATH=DIR python tests/stats/otava_splits.py > tests/stats/otava-splits.json
"""

import json

import numpy as np

# Its numbers are stored with as many digits as make a difference.
SEED, SERIES = 7, 40


def series(seed: int) -> list[float]:
    """A series of 12 to 40 values with a shift, or one that comes and goes, rounded to what is stored."""
    random = np.random.default_rng([SEED, seed])
    length = int(random.integers(12, 41))
    start = int(random.integers(4, length - 5))
    end = length if seed % 2 else min(length, start + int(random.integers(4, 12)))
    values = random.normal(1, 0.02, length)
    values[start:end] += 0.08
    return [round(float(value), 4) for value in values]


def main() -> None:
    """Print each series with the position and the statistic of its best split."""
    from otava.change_point_divisive.calculator import PairDistanceCalculator  # type: ignore[import-not-found]

    rows = []
    for seed in range(SERIES):
        values = series(seed)
        best = PairDistanceCalculator(np.array(values)).get_candidate_change_point(slice(0, len(values)))
        rows.append({"values": values, "position": int(best.index), "statistic": round(float(best.qhat), 9)})
    print(json.dumps({"otava": "0.8.0", "series": rows}))


if __name__ == "__main__":
    main()
