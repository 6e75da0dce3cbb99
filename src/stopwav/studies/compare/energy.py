"""The energy of a comparison: joules per utterance and per second of audio, watts, gross and net of idling.

Where the hardware reports power as well, sampled power cross-checks the energy counter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from stopwav.errors import Caution, StopwavError
from stopwav.measure.counter_check import CounterResolution
from stopwav.measure.energy_series import WindowEnergy, whole_joules
from stopwav.measure.meter_log import MeterLog
from stopwav.record import Record
from stopwav.stats import Estimate, summarise_rounds
from stopwav.studies.compare.engine_runner import FRAME_S
from stopwav.studies.compare.external_meter import covered_runs, log_fault
from stopwav.studies.compare.pieces import EXTERNAL, EnergyRun, EngineData, meters_of, resolutions_of

TOTAL = "total"
# The code of an estimate that has no value because nothing metered it.
NO_METER = "no-meter"
# The code of one whose windows have not had their time yet.
NO_TIME = "no-time"
_NO_TIME = "not measured: the budget had no time for its windows; continue with --resume and a larger --budget"
# Sampled power and counter of a steady load that lie further apart than this do not measure the same thing.
AGREEMENT = 0.10

_UNITS = {
    "energy_per_utterance_gross": "J",
    "energy_per_utterance_net": "J",
    "energy_per_audio_s_gross": "J",
    "energy_per_audio_s_net": "J",
    "mean_power": "W",
    "idle_power": "W",
}


@dataclass(frozen=True)
class Energy:
    """The energy of a run: the part that engines are compared by, and every part that has numbers.

    `part` is None where nothing can be compared; `reason` and `code` say why.
    """

    part: str | None
    parts: tuple[str, ...]
    reason: str
    log: MeterLog | None = None
    # What is wrong with the log of the external meter, where one was named.
    log_fault: str = ""
    # The counter resolution of each part, where it was measured.
    resolutions: Mapping[str, CounterResolution] = field(default_factory=dict)
    code: str = NO_METER


def energy_of(
    record: Record, engines: Sequence[EngineData], log: MeterLog | None = None, fault: str = ""
) -> Energy | None:
    """Return what the run holds of energy, with the log of an external meter; None where it was not asked for."""
    if not record.header.spec["energy"]:
        return None
    meters, resolutions = meters_of(record), resolutions_of(record)
    runs = [run for engine in engines for length in engine.energy.values() for run in length]
    parts = list(dict.fromkeys(part for run in runs for window in run.windows for part in window.joules))
    if log is not None:
        parts = [part for part in parts if part != EXTERNAL]
        return Energy(EXTERNAL, (EXTERNAL, *parts), "", log, log_fault(runs, fault), resolutions)
    if not runs and record.header.spec.get("rounds") is None and (meters or {}).get("source"):
        return Energy(None, (), _NO_TIME, None, fault, code=NO_TIME)
    if not runs:
        missing = "not measured yet" if meters is None else "; ".join(meters["missing"])
        return Energy(None, (), f"no meter: {fault or missing}", None, fault)
    if all(whole_joules(window.joules, run.whole) is not None for run in runs for window in run.windows):
        return Energy(TOTAL, (TOTAL, *parts), "", None, fault, resolutions)
    devices = sorted({str(engine.info.get("device", "cpu")) for engine in engines if engine.energy})
    part = _compared_part(devices, parts)
    reason = fault or f"{' and '.join(devices)}: not metered; metered: {', '.join(parts) or 'nothing'}"
    return Energy(part, tuple(parts), "" if part else f"no meter: {reason}", None, fault, resolutions)


def energy_metrics(energy: Energy, runs: Sequence[EnergyRun], frames: int) -> dict[str, Estimate]:
    """Return the energy of one input of one engine: of the compared part and, with a suffix, of every other part."""
    if energy.part is None:
        return _missing(energy.reason, energy.code)
    metrics: dict[str, Estimate] = {}
    for part in dict.fromkeys((energy.part, *energy.parts)):
        of_part = _part_metrics(energy, part, runs, frames) | _resolution_metrics(energy.resolutions.get(part))
        of_part["sampled_to_counter"] = _agreement(runs, runs[0].whole if runs and part == TOTAL else (part,))
        suffix = "" if part == energy.part else f"_{part.replace(' ', '_')}"
        metrics |= {f"{name}{suffix}": estimate for name, estimate in of_part.items()}
    return metrics


def joules_by_round(energy: Energy, runs: Sequence[EnergyRun]) -> dict[tuple[int, str], float]:
    """Return the median gross joules of an utterance by round and machine; empty where there are none."""
    if energy.part is None:
        return {}
    try:
        runs = covered_runs(energy.part, runs)
        return {(run.round, run.machine): median(_gross(energy, energy.part, run)) for run in runs}
    except StopwavError:
        return {}


def overall_energy(energy: Energy, engine: EngineData) -> dict[str, Estimate]:
    """Return the joules per second of audio over all lengths: Σ joules / Σ audio, in each round."""
    by_name = {"energy_per_audio_s_gross": _gross, "energy_per_audio_s_net": _net}
    if energy.part is None:
        return {name: Estimate(None, unit="J", note=energy.reason, code=energy.code) for name in by_name}
    if not engine.energy:
        return {name: Estimate(None, unit="J", note="nothing was measured") for name in by_name}
    return {name: _overall(energy, energy.part, engine, per_window) for name, per_window in by_name.items()}


def meter_text(energy: Energy, engine: EngineData) -> str:
    """Return the part that engines are compared by and what metered it; empty where the engine has no energy."""
    if energy.part is None or not engine.energy:
        return ""
    return _meter_text(energy, energy.part, next(iter(engine.energy.values())))


def small_net_warnings(energy: Energy, engine: EngineData) -> Iterator[Caution]:
    """Yield a warning for each part whose net energy in a window is below the counter resolution."""
    for part, resolution in energy.resolutions.items():
        if resolution.step_j is None:
            continue
        lost = [
            str(frames)
            for frames, runs in engine.energy.items()
            if all(part in window.joules for run in runs for window in (run.idle, *run.windows))
            and abs(median(net_j for run in runs for net_j in _net_windows(energy, part, run))) < resolution.step_j
        ]
        if lost:
            yield Caution(
                "net-too-small",
                f"{part}: at {', '.join(lost)} frames the net energy of a window is below the counter resolution, "
                f"{resolution.step_j:.2g} J, which is indistinguishable from zero there; compare gross energy",
            )


def disagreement_warnings(runs: Sequence[EnergyRun]) -> Iterator[Caution]:
    """Yield a warning for each part whose counter and sampled power are too far apart, by the worst process."""
    for part in dict.fromkeys(part for run in runs for window in run.windows for part in window.sampled_joules):
        ratios = [ratio for ratio, _ in (_sampled_ratio(run, [part]) for run in runs) if ratio is not None]
        worst = max(ratios, key=lambda ratio: abs(ratio - 1), default=1.0)
        if abs(worst - 1) > AGREEMENT:
            yield Caution(
                "meters-disagree",
                f"{part}: sampled power adds up to {100 * worst:.0f} % of its counter, so one of them is wrong here; "
                "work that comes in bursts is sampled badly: use longer inputs, or --meter-csv",
            )


def _compared_part(devices: Sequence[str], parts: Sequence[str]) -> str | None:
    """The part that does the work of all engines, where it is metered: the GPU they run on, or the processor.

    On a board it is what its only sensor measures, wherever that is wired.
    """
    if len(parts) == 1 and not parts[0].startswith(("gpu", "cpu ", "dram", "platform")):
        return parts[0]
    if len(devices) != 1:
        return None
    kind, _, index = devices[0].partition(":")
    candidates = ("cpu package",) if kind == "cpu" else ("gpu", f"gpu {index or 0}")
    return next((part for part in candidates if part in parts), None)


def _part_metrics(energy: Energy, part: str, runs: Sequence[EnergyRun], frames: int) -> dict[str, Estimate]:
    audio_s = frames * FRAME_S
    try:
        runs = covered_runs(part, runs)
        gross = [_gross(energy, part, run) for run in runs]
        net = [_net(energy, part, run) for run in runs]
        power = [[_joules(energy, part, run, window) / window.seconds for window in run.windows] for run in runs]
        idle = [[_idle_w(energy, part, run)] for run in runs]
    except StopwavError as error:
        return _missing(str(error))
    if not runs:
        return _missing("nothing was measured")
    values = {
        "energy_per_utterance_gross": gross,
        "energy_per_utterance_net": net,
        "energy_per_audio_s_gross": [[joules / audio_s for joules in windows] for windows in gross],
        "energy_per_audio_s_net": [[joules / audio_s for joules in windows] for windows in net],
        "mean_power": power,
        "idle_power": idle,
    }
    return {
        name: _labelled(summarise_rounds(by_round, _UNITS[name]), energy, part, runs)
        for name, by_round in values.items()
    }


def _missing(reason: str, code: str = "") -> dict[str, Estimate]:
    return {name: Estimate(None, unit=unit, note=reason, code=code) for name, unit in _UNITS.items()}


def _overall(
    energy: Energy, part: str, engine: EngineData, per_window: Callable[[Energy, str, EnergyRun], list[float]]
) -> Estimate:
    try:
        by_length = [
            {run.round: median(per_window(energy, part, run)) for run in covered_runs(part, runs)}
            for runs in engine.energy.values()
        ]
    except StopwavError as error:
        return Estimate(None, unit="J", note=str(error))
    audio_s = FRAME_S * sum(engine.energy)
    rounds = set.intersection(*map(set, by_length))
    values = [[sum(length[index] for length in by_length) / audio_s] for index in rounds]
    return _labelled(summarise_rounds(values, "J"), energy, part, next(iter(engine.energy.values())))


def _gross(energy: Energy, part: str, run: EnergyRun) -> list[float]:
    """Joules of an utterance in each window."""
    return [_joules(energy, part, run, window) / window.iterations for window in run.windows]


def _net(energy: Energy, part: str, run: EnergyRun) -> list[float]:
    """Joules of an utterance beyond idling in each window; may be below zero, and stays so."""
    windows_j = _net_windows(energy, part, run)
    return [net_j / window.iterations for net_j, window in zip(windows_j, run.windows, strict=True)]


def _net_windows(energy: Energy, part: str, run: EnergyRun) -> list[float]:
    """Joules of each window beyond idling."""
    idle_w = _idle_w(energy, part, run)
    return [_joules(energy, part, run, window) - idle_w * window.seconds for window in run.windows]


def _idle_w(energy: Energy, part: str, run: EnergyRun) -> float:
    return _joules(energy, part, run, run.idle) / run.idle.seconds


def _joules(energy: Energy, part: str, run: EnergyRun, window: WindowEnergy) -> float:
    joules = whole_joules(window.joules, run.whole) if part == TOTAL else window.joules.get(part)
    if joules is None:
        raise StopwavError(f"{part}: {window.missing.get(part, 'no value in a window')}")
    return joules


def _labelled(estimate: Estimate, energy: Energy, part: str, runs: Sequence[EnergyRun]) -> Estimate:
    """The estimate, with the part and its meter in its note."""
    return replace(estimate, note="; ".join(filter(None, (_meter_text(energy, part, runs), estimate.note))))


def _meter_text(energy: Energy, part: str, runs: Sequence[EnergyRun]) -> str:
    """The part, what metered it, and the resolution: of its counter, of its log, or of its samples."""
    if part == EXTERNAL and energy.log is not None:
        source = f" ({energy.log.source})" if energy.log.source else ""
        return f"{EXTERNAL}{source}, a reading every {energy.log.interval_s:.2g} s"
    resolution = energy.resolutions.get(part)
    steps = ""
    if resolution is not None and resolution.step_j is not None and resolution.interval_s is not None:
        steps = f" (steps of {resolution.step_j:.2g} J or more, every {1e3 * resolution.interval_s:.0f} ms)"
    return f"{part} by {runs[0].source}{steps or _sampling(part, runs)}"


def _sampling(part: str, runs: Sequence[EnergyRun]) -> str:
    """How often power was sampled, and how long at most it was not; empty for a part that has a counter."""
    parts = runs[0].whole if part == TOTAL else (part,)
    windows = [window for run in runs for window in run.windows if set(parts) <= set(run.sampled_parts)]
    if not sum(window.samples for window in windows):
        return ""
    interval_s = sum(window.seconds for window in windows) / sum(window.samples for window in windows)
    gap_s = max(window.longest_gap_s or 0.0 for window in windows)
    return f" (power sampled every {1e3 * interval_s:.0f} ms, at most {1e3 * gap_s:.0f} ms apart)"


def _resolution_metrics(resolution: CounterResolution | None) -> dict[str, Estimate]:
    """The smallest step of a counter and the time between steps; nothing where they were not measured."""
    if resolution is None:
        return {}
    return {
        "counter_step": Estimate(resolution.step_j, unit="J", note=resolution.note),
        "counter_interval": Estimate(resolution.interval_s, unit="s", note=resolution.note),
    }


def _agreement(runs: Sequence[EnergyRun], parts: Collection[str]) -> Estimate:
    """Joules by sampled power / joules by the counters of these parts, in the windows of each process."""
    ratios = []
    for run in runs:
        ratio, reason = _sampled_ratio(run, parts)
        if ratio is None:
            return Estimate(None, note=reason)
        ratios.append([ratio])
    return summarise_rounds(ratios, "")


def _sampled_ratio(run: EnergyRun, parts: Collection[str]) -> tuple[float | None, str]:
    """Σ sampled / Σ counted over the windows of a process; or None and what is missing."""
    for window in run.windows:
        for part in parts:
            if part not in window.sampled_joules:
                return None, f"{part}: {window.unsampled.get(part, 'no cross-check of the counter')}"
            if part not in window.joules:
                return None, f"{part}: {window.missing.get(part, 'no value in a window')}"
    sampled_j = sum(window.sampled_joules[part] for window in run.windows for part in parts)
    return sampled_j / sum(window.joules[part] for window in run.windows for part in parts), ""
