"""The share of independent events for which something holds, such as sessions that failed."""

from __future__ import annotations

import math
from statistics import NormalDist

from stopwav.stats.estimate import Estimate, is_rough


def binomial_share(count: int, total: int, confidence: float = 0.95) -> Estimate:
    """Return count / total with Wilson's score interval, which never leaves 0 to 1 and has a width at 0 and 1 too."""
    if not 0 <= count <= total:
        raise ValueError(f"a share needs 0 to {total} events of {total}, not {count}")
    if not total:
        return Estimate(None, note="no events")
    share = count / total
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    weight = total + z * z
    centre = (count + z * z / 2) / weight
    half = z * math.sqrt(total * share * (1 - share) + z * z / 4) / weight
    # Rounding must not move an end past the value itself.
    low, high = max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))
    return Estimate(share, low if count else 0.0, high if count < total else 1.0, n=total, rough=is_rough(total))
