"""Whether a share of events is below a limit or above it, by evidence that may be looked at after every event.

"P95 is below a second" says that fewer than 5 % of the events take a second or longer: a claim about a share. Evidence
for it is a betting score: the likelihood of what was counted, averaged over all shares below the limit, against its
likelihood at the limit. If the share is not below the limit, the chance that this score ever reaches 1 / α, however
often one looks, is at most α (Ville's inequality; the averaging is Robbins' method of mixtures).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Each claim is wrong in at most 2.5 % of cases, so that an interval between two of them has 95 %.
ALPHA = 0.025
# Points of the average over shares: enough that its logarithm is right to a thousandth for 10⁶ events.
_POINTS = 20_000

Side = Literal["below", "above", "open"]


@dataclass(frozen=True)
class Share:
    """How many of how many independent events exceeded a limit; neither need be whole where events are clustered."""

    exceeding: float
    events: float

    @property
    def value(self) -> float | None:
        """The share itself; None of no events."""
        return self.exceeding / self.events if self.events else None

    def side_of(self, limit: float, alpha: float = ALPHA) -> Side:
        """Return on which side of a limit the share surely is, or that this is open."""
        needed = -math.log(alpha)
        if log_evidence(self, limit, "below") >= needed:
            return "below"
        return "above" if log_evidence(self, limit, "above") >= needed else "open"


def log_evidence(share: Share, limit: float, side: Literal["below", "above"]) -> float:
    """Return the logarithm of the evidence that a share is on a side of a limit between 0 and 1."""
    if not 0 < limit < 1:
        raise ValueError(f"a limit of a share lies between 0 and 1, not {limit}")
    if share.events <= 0:
        return 0.0
    low, high = (0.0, limit) if side == "below" else (limit, 1.0)
    # Where the likelihood is high, the points have to be dense: half of them within ten deviations of the count.
    centre = min(max(share.exceeding / share.events, low), high)
    reach = 10 * math.sqrt(max(centre * (1 - centre), 1 / share.events) / share.events)
    around = np.linspace(max(low, centre - reach), min(high, centre + reach), _POINTS // 2)
    edges = np.unique(np.concatenate((np.linspace(low, high, _POINTS // 2), around)))
    points, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    logs = _log_likelihood(share, points) - float(_log_likelihood(share, np.array([limit]))[0]) + np.log(widths)
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum())) - math.log(high - low)


def clustered_share(exceeding: ArrayLike, events: ArrayLike) -> Share:
    """Return the share of events of clusters as so many independent events as it is known from.

    Words of one session are late together, so that they are worth fewer events than there are. The worth follows from
    how much the sessions differ, never less than if all events of a session were one.
    """
    counts, sizes = (np.asarray(values, dtype=float).ravel() for values in (exceeding, events))
    kept = sizes > 0
    counts, sizes = counts[kept], sizes[kept]
    total = float(sizes.sum())
    if not total:
        return Share(0.0, 0.0)
    share = float(counts.sum()) / total
    # As if one cluster more had been seen, all of whose events exceeded. Where by chance few did, the share and how
    # much clusters differ are both underestimated: without it, up to one claim in six that a share is below was false,
    # by tests/stats/test_exceedance.py. It is as large as that of a mean event: with none late, a cluster is one event.
    one_more = float(sizes @ sizes) / total
    expected = (float(counts.sum()) + one_more) / (total + one_more)
    residuals = counts - expected * sizes
    variance = float(residuals @ residuals) + ((1 - expected) * one_more) ** 2
    worth = total * (total + one_more) * expected * (1 - expected) / variance if variance else 0.0
    worth = min(total, max(worth, total / one_more))
    return Share(share * worth, worth)


def _log_likelihood(share: Share, points: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        hits = share.exceeding * np.log(points) if share.exceeding else 0.0
        rest = share.events - share.exceeding
        misses = rest * np.log1p(-points) if rest else 0.0
    return np.asarray(hits + misses, dtype=float) + np.zeros_like(points)
