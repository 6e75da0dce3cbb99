"""Whether a cell is faster than real time, by a rule that fits how its rounds were stopped; and whether that can be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import mean
from typing import Literal

from stopwav.measure.rounds import Measurement, Round
from stopwav.stats import UNDECIDED, Rule, paired_verdict, side_of
from stopwav.stats.estimate import FEW_UNITS, inverse, scaled
from stopwav.stats.neighbours import implausible_cells
from stopwav.studies.budget import FEWEST_ROUNDS, PRECISION, half_width
from stopwav.studies.grid.cell import GridCell

Side = Literal["above", "below", "undecided"]

# Where a recogniser is exactly as fast as the speaker.
REAL_TIME = 1.0


@dataclass(frozen=True)
class RealTimeVerdict:
    """On which side of real time a cell is, the rule of that verdict, and the rounds that would settle the rest.

    `more_rounds` are those until the side is decided and the interval is narrow; 0 where both are there, None where no
    number of rounds is known to do.
    """

    side: Side
    rule: Rule
    more_rounds: int | None


def real_time_verdict(
    cell: GridCell, measured: Measurement, rule: Rule, precision: float = PRECISION
) -> RealTimeVerdict:
    """Return on which side of real time a measured cell is.

    Under `fixed` the interval that is printed decides. Under `anytime` a confidence sequence over rounds does, which
    may be looked at after each of them; one process decides nothing.
    """
    if rule == "fixed":
        return RealTimeVerdict(side_of(inverse(scaled(measured.time, 1 / cell.audio_s)), REAL_TIME), rule, 0)
    medians_s = [round_.median_s for round_ in measured.good]
    verdict = paired_verdict([cell.audio_s] * len(medians_s), medians_s, threshold=0.0, rule=rule)
    side: Side = {"faster": "above", "slower": "below"}.get(verdict.kind, UNDECIDED)  # type: ignore[assignment]
    narrow = _rounds_to_precision(measured, precision)
    if side != UNDECIDED or len(medians_s) < FEW_UNITS:
        return RealTimeVerdict(side, rule, max(narrow, int(side == UNDECIDED)))
    return RealTimeVerdict(side, rule, None if verdict.more_rounds is None else max(verdict.more_rounds, narrow))


def more_s(measured: Measurement, verdict: RealTimeVerdict) -> float | None:
    """Return the seconds that the rounds take which would settle a cell: as long as those so far, loading included."""
    if verdict.more_rounds is None:
        return None
    return verdict.more_rounds * mean(round_seconds(round_) for round_ in measured.good)


def round_seconds(round_: Round) -> float:
    """Return the seconds of a visit: first call, warm-up and values, and loading where it opened its process."""
    samples = round_.samples
    if samples is None:
        return 0.0
    load_s = (round_.load_s or 0.0) if round_.opened else 0.0
    return load_s + samples.first_s + sum(samples.warmup_s) + samples.loops * sum(samples.values_s)


def implausible(measured: Mapping[GridCell, Measurement]) -> list[GridCell]:
    """Return the measured cells whose times do not fit to those of their neighbours of the same engine."""
    times: dict[str, dict[tuple[float, float], float]] = {}
    for cell, measurement in measured.items():
        if measurement.good and (time := measurement.time.value):
            times.setdefault(cell.lane, {})[cell.duration_s, float(cell.batch_size)] = time
    return [
        GridCell(duration_s, int(size), lane)
        for lane, places in times.items()
        for duration_s, size in implausible_cells(places)
    ]


def _rounds_to_precision(measured: Measurement, precision: float) -> int:
    """How many more rounds should make the interval narrow: its width falls with their square root.

    From few rounds the spread is known to a factor of two only, and nothing is planned but to have more of them.
    """
    count, width = len(measured.good), half_width(measured.time)
    if count >= FEWEST_ROUNDS and width <= precision:
        return 0
    if count < FEW_UNITS or not math.isfinite(width):
        return max(1, FEW_UNITS - count)
    return math.ceil(count * (width / precision) ** 2) - count
