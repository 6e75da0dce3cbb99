"""The cost of a cell in time and memory: measured, or predicted from the cells that were."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from stopwav.measure.rounds import Measurement
from stopwav.measure.visit import LONG_CALL_S
from stopwav.studies.forecast import ASSUMED_LOAD_S
from stopwav.studies.grid.cell import GridCell
from stopwav.studies.grid.spec import GridSpec, device_of, plan_of

# From this share of the memory on a cell has a process of its own: what those before it leave may be as much again.
NEAR_SHARE = 0.5


@dataclass(frozen=True)
class Costs:
    """The seconds of a call of each measured cell, and of loading each engine."""

    calls_s: Mapping[GridCell, float]
    # By lane, of those that were measured.
    loads_s: Mapping[str, float]

    @property
    def load_s(self) -> float:
        """The seconds of loading every engine once."""
        return sum(self.loads_s.values()) or ASSUMED_LOAD_S

    def load_of(self, cell: GridCell) -> float:
        """The seconds of loading the engine of a cell."""
        return self.loads_s.get(cell.lane, ASSUMED_LOAD_S)

    def call_s(self, cell: GridCell) -> float | None:
        """The seconds of a call: measured, or in proportion those of the engine's cell with the nearest audio."""
        if cell in self.calls_s:
            return self.calls_s[cell]
        own = [other for other in self.calls_s if other.lane == cell.lane]
        if not own:
            return None
        nearest = min(own, key=lambda other: abs(math.log(other.audio_s / cell.audio_s)))
        return self.calls_s[nearest] * cell.audio_s / nearest.audio_s

    def least_s(self, cell: GridCell, *, peaks: bool) -> float:
        """The seconds of the shortest visit: one call, and one more for memory where that is asked for."""
        call_s = self.call_s(cell) or 0.0
        return 2 * call_s if peaks and call_s < LONG_CALL_S else call_s


def costs_of(measured: Mapping[GridCell, Measurement]) -> Costs:
    """Return the costs that the rounds so far show."""
    good = {cell: measurement.good for cell, measurement in measured.items() if measurement.good}
    loads_s: dict[str, list[float]] = {}
    for cell, rounds in good.items():
        own = loads_s.setdefault(cell.lane, [])
        own += [round_.load_s for round_ in rounds if round_.opened and round_.load_s]
    calls_s = {cell: median(round_.median_s for round_ in rounds) for cell, rounds in good.items()}
    return Costs(calls_s, {lane: median(seconds) for lane, seconds in loads_s.items() if seconds})


def is_near_limit(
    spec: GridSpec, machine: Mapping[str, Any], measured: Mapping[GridCell, Measurement], cell: GridCell
) -> bool:
    """Return whether a cell may come near the limit of the machine's memory, of the host or of the device.

    It takes no more than a cell that is at least as long and as wide. Without one, its peak is that of the largest cell
    below it, in proportion to the audio, and to the duration once more where that is longer: the memory of attention
    grows with its square.
    """
    share = partial(_largest_share, spec, machine, cell.lane)
    measured = {other: measurement for other, measurement in measured.items() if other.lane == cell.lane}
    larger = [
        share(measurement, 1.0)
        for other, measurement in measured.items()
        if other.duration_s >= cell.duration_s and other.batch_size >= cell.batch_size
    ]
    if known := [peak_share for peak_share in larger if peak_share is not None]:
        return min(known) > NEAR_SHARE
    below = [other for other in measured if other.audio_s <= cell.audio_s and measured[other].good]
    if not below:
        return False
    nearest = max(below, key=lambda other: (other.audio_s, other.duration_s))
    growth = cell.audio_s / nearest.audio_s * max(1.0, cell.duration_s / nearest.duration_s)
    return (share(measured[nearest], growth) or 0.0) > NEAR_SHARE


def _largest_share(
    spec: GridSpec, machine: Mapping[str, Any], lane: str, measurement: Measurement, growth: float
) -> float | None:
    """The largest share of a limit that a cell takes whose peaks are so many times these over the loaded model."""
    shares = []
    for round_ in measurement.good:
        host, cuda = round_.memory, round_.cuda_memory
        peaks = [] if host is None else [(host.baseline_bytes, host.peak_bytes, _host_limit_bytes(spec, machine))]
        if cuda is not None:
            peaks.append((cuda.baseline.device_bytes, cuda.peak.device_bytes, _device_limit_bytes(spec, machine, lane)))
        shares += [(baseline + growth * (peak - baseline)) / limit for baseline, peak, limit in peaks]
    return max(shares, default=None)


def _host_limit_bytes(spec: GridSpec, machine: Mapping[str, Any]) -> float:
    limits = [plan_of(spec).memory_limit_bytes, machine.get("memory_limit_bytes"), machine.get("memory_bytes")]
    return min((float(limit) for limit in limits if limit), default=math.inf)


def _device_limit_bytes(spec: GridSpec, machine: Mapping[str, Any], lane: str) -> float:
    gpus: list[Any] = machine.get("gpus") or []
    _, _, number = device_of(spec, lane).partition(":")
    index = int(number) if number.isdigit() else 0
    return float(gpus[index].get("memory_bytes") or math.inf) if index < len(gpus) else math.inf
