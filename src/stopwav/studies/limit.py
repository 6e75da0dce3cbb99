"""A limit of a metric as people write it, such as `word_latency_p95 < 800ms`: in an objective, and in a gate."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Literal

from stopwav.errors import StopwavError

Relation = Literal["<", "<=", ">", ">="]

# Each unit that a limit may be written in: the unit that results have, and how much of that it is.
UNITS: dict[str, tuple[str, float]] = {
    "us": ("s", 1e-6),
    "µs": ("s", 1e-6),
    "ms": ("s", 1e-3),
    "s": ("s", 1.0),
    "min": ("s", 60.0),
    "%": ("", 0.01),
    "B": ("B", 1.0),
    "kB": ("B", 1e3),
    "MB": ("B", 1e6),
    "GB": ("B", 1e9),
    "KiB": ("B", 2.0**10),
    "MiB": ("B", 2.0**20),
    "GiB": ("B", 2.0**30),
    "mJ": ("J", 1e-3),
    "J": ("J", 1.0),
    "W": ("W", 1.0),
}
_LIMIT = re.compile(
    r"(?P<metric>[^\s<>=]+)\s*(?P<relation>[<>]=?)\s*(?P<number>[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(?P<unit>[a-zA-Zµ%]*)"
)


@dataclass(frozen=True)
class Limit:
    """The number below or above which a metric has to be, in the unit that results have."""

    metric: str
    relation: Relation
    number: float
    # The unit of results that it was written in, as a multiple of it or as it is; None where it was written without.
    unit: str | None = None
    # The number with its unit, as it was written.
    written: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """The limit as it is written; read again, it is the same where it was read from a text."""
        return f"{self.metric} {self.relation} {self.written or f'{self.number:.12g}'}"


def parse_limit(text: str) -> Limit | None:
    """Return the limit that a text states; None where it is not of that form at all."""
    match = _LIMIT.fullmatch(text.strip())
    if match is None:
        return None
    try:
        number = float(match["number"])
    except ValueError:
        raise StopwavError(f"{text!r}: {match['number']!r} is not a number") from None
    if not math.isfinite(number):
        raise StopwavError(f"{text!r}: {match['number']} is larger than any number here")
    relation: Relation = match["relation"]  # type: ignore[assignment]
    if not match["unit"]:
        return Limit(match["metric"], relation, number, written=match["number"])
    if match["unit"] not in UNITS:
        raise StopwavError(f"{text!r}: unknown unit {match['unit']!r}; there are {', '.join(UNITS)}")
    unit, factor = UNITS[match["unit"]]
    # 12.5 % is 0.125, and not 0.12500000000000003: a limit is shown as it was written.
    written = match["number"] + match["unit"]
    return Limit(match["metric"], relation, float(f"{number * factor:.15g}"), unit, written)
