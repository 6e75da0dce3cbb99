"""What a comparison says of energy: joules per utterance and per second of audio, watts, gross and net of idling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from stopwav.errors import Caution, StopwavError
from stopwav.measure.counter_check import CounterResolution
from stopwav.measure.energy_series import WindowEnergy, whole_joules
from stopwav.measure.meter_log import MeterLog, read_meter_log
from stopwav.record import Record
from stopwav.stats import Estimate, summarise_rounds
from stopwav.studies.compare.counter_check import agreement, grain_metrics
from stopwav.studies.compare.engine_runner import FRAME_S
from stopwav.studies.compare.pieces import EnergyRun, Entrant, grains_of, meter_log_of, meters_of

EXTERNAL = "external meter"
TOTAL = "total"
NO_METER = "no meter"


@dataclass(frozen=True)
class Energy:
    """The energy of a run: the part that engines are compared by, every part that has numbers, and why others lack.

    `part` is None where nothing can be compared, and `reason` says why.
    """

    part: str | None
    parts: tuple[str, ...]
    reason: str
    log: MeterLog | None = None
    # What is wrong with the external meter's log, where one was named.
    log_fault: str = ""
    # How finely the counter of each part counts, as far as it was looked at.
    grains: Mapping[str, CounterResolution] = field(default_factory=dict)


def energy_of(record: Record, sides: Sequence[Entrant]) -> Energy | None:
    """What the run knows of energy; None where it was not asked for."""
    if not record.header.spec["energy"]:
        return None
    log, fault = _log(record)
    meters, grains = meters_of(record), grains_of(record)
    runs = [run for side in sides for taken in side.energy.values() for run in taken]
    found = list(dict.fromkeys(part for run in runs for window in run.windows for part in window.joules))
    if log is not None:
        return Energy(EXTERNAL, (EXTERNAL, *found), "", log, grains=grains)
    if not runs:
        missing = "not measured yet" if meters is None else "; ".join(meters["missing"])
        return Energy(None, (), f"{NO_METER}: {fault or missing}", None, fault)
    if all(whole_joules(window.joules, run.whole) is not None for run in runs for window in run.windows):
        return Energy(TOTAL, (TOTAL, *found), "", None, fault, grains)
    devices = sorted({str(side.info.get("device", "cpu")) for side in sides if side.energy})
    part = _part_of(devices, found)
    why = fault or f"{' and '.join(devices)}: not metered; what is: {', '.join(found) or 'nothing'}"
    return Energy(part, tuple(found), "" if part else f"{NO_METER}: {why}", None, fault, grains)


def energy_metrics(energy: Energy, runs: Sequence[EnergyRun], frames: int) -> dict[str, Estimate]:
    """The energy of one input of one engine: of the part that is compared and, where there are others, of each."""
    if energy.part is None:
        return _missing(energy.reason)
    found: dict[str, Estimate] = {}
    for part in dict.fromkeys((energy.part, *energy.parts)):
        one = _of_part(energy, part, runs, frames) | grain_metrics(energy.grains.get(part))
        one["sampled_to_counter"] = agreement(runs, runs[0].whole if runs and part == TOTAL else (part,))
        suffix = "" if part == energy.part else f"_{part.replace(' ', '_')}"
        found |= {f"{name}{suffix}": estimate for name, estimate in one.items()}
    return found


def joules_by_round(energy: Energy, runs: Sequence[EnergyRun]) -> dict[int, float]:
    """The median gross joules of an utterance in each round; empty where there are none."""
    if energy.part is None:
        return {}
    try:
        return {run.round: median(_gross(energy, energy.part, run)) for run in runs}
    except StopwavError:
        return {}


def whole_energy(energy: Energy, side: Entrant) -> dict[str, Estimate]:
    """Joules per second of audio over all lengths: Σ joules / Σ audio, in each round."""
    names = {"energy_per_audio_s_gross": _gross, "energy_per_audio_s_net": _net}
    if energy.part is None or not side.energy:
        why = energy.reason or "nothing was measured"
        return {name: Estimate(None, unit="J", note=why) for name in names}
    audio_s = FRAME_S * sum(side.energy)
    found = {}
    for name, values_of in names.items():
        try:
            by_length = [
                {run.round: median(values_of(energy, energy.part, run)) for run in runs}
                for runs in side.energy.values()
            ]
        except StopwavError as error:
            found[name] = Estimate(None, unit="J", note=str(error))
            continue
        rounds = set.intersection(*(set(one) for one in by_length))
        values = [[sum(one[index] for one in by_length) / audio_s] for index in rounds]
        found[name] = _labelled(summarise_rounds(values, "J"), energy, energy.part, next(iter(side.energy.values())))
    return found


def lost_nets(energy: Energy, side: Entrant) -> Iterator[Caution]:
    """A caution for each part where all that a window takes beyond idling is less than one step of the counter."""
    for part, grain in energy.grains.items():
        if grain.step_j is None:
            continue
        lost = [
            str(frames)
            for frames, runs in side.energy.items()
            if all(part in one.joules for run in runs for one in (run.idle, *run.windows))
            and abs(median(net_j for run in runs for net_j in _net_windows(energy, part, run))) < grain.step_j
        ]
        if lost:
            yield Caution(
                "net-too-small",
                f"{part}: at {', '.join(lost)} frames the work takes less beyond idling in a window than one step of "
                f"the counter, {grain.step_j:.2g} J: net energy is not to be told from nothing there; compare gross",
            )


def _log(record: Record) -> tuple[MeterLog | None, str]:
    """The external meter's log, from the run or else from its file, and what is wrong with it."""
    stored, path = meter_log_of(record), record.header.spec["meter_csv"]
    if stored is not None or path is None:
        return stored, ""
    try:
        return read_meter_log(Path(path)), ""
    except StopwavError as error:
        return None, str(error)


def _part_of(devices: Sequence[str], parts: Sequence[str]) -> str | None:
    """The part that does the work of all engines, where it is metered: the GPU they run on, or the processor."""
    if len(devices) != 1:
        return None
    kind, _, index = devices[0].partition(":")
    wanted = ("cpu package",) if kind == "cpu" else ("gpu", f"gpu {index or 0}")
    return next((part for part in wanted if part in parts), None)


def _of_part(energy: Energy, part: str, runs: Sequence[EnergyRun], frames: int) -> dict[str, Estimate]:
    audio_s = frames * FRAME_S
    try:
        gross = [_gross(energy, part, run) for run in runs]
        net = [_net(energy, part, run) for run in runs]
        power = [[_joules(energy, part, run, w) / w.seconds for w in run.windows] for run in runs]
        idle = [[_idle_w(energy, part, run)] for run in runs]
    except StopwavError as error:
        return _missing(str(error))
    if not runs:
        return _missing("nothing was measured")
    values = {
        "energy_per_utterance_gross": (gross, "J"),
        "energy_per_utterance_net": (net, "J"),
        "energy_per_audio_s_gross": ([[v / audio_s for v in one] for one in gross], "J"),
        "energy_per_audio_s_net": ([[v / audio_s for v in one] for one in net], "J"),
        "mean_power": (power, "W"),
        "idle_power": (idle, "W"),
    }
    return {name: _labelled(summarise_rounds(v, unit), energy, part, runs) for name, (v, unit) in values.items()}


def _missing(reason: str) -> dict[str, Estimate]:
    units = {
        "energy_per_utterance_gross": "J",
        "energy_per_utterance_net": "J",
        "energy_per_audio_s_gross": "J",
        "energy_per_audio_s_net": "J",
        "mean_power": "W",
        "idle_power": "W",
    }
    return {name: Estimate(None, unit=unit, note=reason) for name, unit in units.items()}


def _gross(energy: Energy, part: str, run: EnergyRun) -> list[float]:
    """Joules of an utterance in each window."""
    return [_joules(energy, part, run, window) / window.iterations for window in run.windows]


def _net(energy: Energy, part: str, run: EnergyRun) -> list[float]:
    """The same less what idling would have taken; may be below zero, and stays so."""
    windows_j = _net_windows(energy, part, run)
    return [net_j / window.iterations for net_j, window in zip(windows_j, run.windows, strict=True)]


def _net_windows(energy: Energy, part: str, run: EnergyRun) -> list[float]:
    """Joules of each window beyond idling."""
    idle_w = _idle_w(energy, part, run)
    return [_joules(energy, part, run, window) - idle_w * window.seconds for window in run.windows]


def _idle_w(energy: Energy, part: str, run: EnergyRun) -> float:
    return _joules(energy, part, run, run.idle) / run.idle.seconds


def _joules(energy: Energy, part: str, run: EnergyRun, window: WindowEnergy) -> float:
    if part == EXTERNAL:
        assert energy.log is not None
        return energy.log.joules(window.begin_s, window.end_s)
    joules = whole_joules(window.joules, run.whole) if part == TOTAL else window.joules.get(part)
    if joules is None:
        raise StopwavError(f"{part}: {window.missing.get(part, 'no value in a window')}")
    return joules


def _labelled(estimate: Estimate, energy: Energy, part: str, runs: Sequence[EnergyRun]) -> Estimate:
    """The estimate, with the part that it is about, what metered it, and how finely, in its note."""
    label = part if part == EXTERNAL else f"{part} by {runs[0].source}"
    grain = energy.grains.get(part)
    if grain is not None and grain.step_j is not None and grain.interval_s is not None:
        label += f" (steps of {grain.step_j:.2g} J or more, every {1e3 * grain.interval_s:.3g} ms)"
    note = "; ".join(filter(None, (label, estimate.note)))
    return Estimate(estimate.value, estimate.low, estimate.high, estimate.n, estimate.unit, note)
