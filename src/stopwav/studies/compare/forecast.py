"""How long a comparison may take: from its lengths and inputs, the limits of its plan, and earlier runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from stopwav.measure.energy import IDLE_S
from stopwav.measure.energy_series import MIN_WINDOWS
from stopwav.measure.plan import Plan
from stopwav.measure.sampler import MIN_WARMUP_CALLS
from stopwav.record import Record
from stopwav.speech.corpus import load_corpus
from stopwav.studies.compare.energy_pass import shortest_window_s
from stopwav.studies.compare.engine_runner import FRAME_S
from stopwav.studies.compare.pieces import read_engines
from stopwav.studies.compare.spec import CompareSpec, energy_rounds, plan_of
from stopwav.studies.engine_names import engine_names
from stopwav.studies.forecast import (
    ASSUMED_LOAD_S,
    ASSUMED_RTF,
    Forecast,
    assumption,
    earlier_speed,
    engine_problems,
    lengths_of,
    measured_basis,
)
from stopwav.studies.stored_rounds import round_time_s


def forecast(spec: CompareSpec) -> Forecast:
    """Return the budget, or of a fixed plan the rounds of each engine with every length, the inputs, and energy."""
    lengths = ", ".join(f"{frames * FRAME_S:g}" for frames in spec.frames)
    if spec.is_budgeted:
        work = f"inputs of {lengths} s and up to {spec.samples} samples, in as many rounds as there is time for"
        return Forecast(spec.total_s, (work, "the budget; less where everything is decided sooner"))
    _, mean_s, _ = lengths_of(load_corpus(spec.corpus), None)
    total_s, assumed = 0.0, []
    basis = [f"inputs of {lengths} s, rounds: {spec.rounds}; samples: {spec.samples}, {mean_s:.1f} s each on average"]
    for engine in spec.engines:
        earlier = earlier_speed(engine, spec.save, "compare")
        rtf, load_s, run = earlier or (ASSUMED_RTF, ASSUMED_LOAD_S, "")
        if earlier:
            basis.append(measured_basis(engine, rtf, load_s, run))
        else:
            assumed.append(engine)
        total_s += _engine_s(spec, rtf, load_s, mean_s)
    if assumed:
        basis.append(assumption(assumed, spec.save))
    if spec.energy and shortest_window_s(spec) is None:
        basis.append("no energy: there is no meter")
    elif spec.energy:
        basis.append(f"energy for {spec.energy_time_s:g} s at each length, less where it is known sooner")
    return Forecast(total_s, tuple(basis))


def problems(spec: CompareSpec) -> Iterator[tuple[str, str]]:
    """Yield what would stop a run of these settings at once."""
    yield from engine_problems("engines", spec.engines, spec.time_limit_s)


def _engine_s(spec: CompareSpec, rtf: float, load_s: float, mean_s: float) -> float:
    plan = plan_of(spec)
    calls_s = [rtf * frames * FRAME_S for frames in spec.frames]
    # A round is one process: it is loaded and warm once, and has a whole sample at each length.
    lengths_s = sum(round_time_s(plan, call_s, 0.0) for call_s in calls_s)
    warm_up_s = rtf * mean_s + max(plan.warmup_s, MIN_WARMUP_CALLS * rtf * mean_s)
    rounds_s = plan.rounds * (load_s + warm_up_s + lengths_s) + spec.samples * rtf * mean_s
    # Counting operations is one call at each length, under the counter about as long as without.
    description_s = load_s + sum(calls_s)
    return rounds_s + description_s + _energy_s(spec, plan, calls_s, load_s)


def _energy_s(spec: CompareSpec, plan: Plan, calls_s: Sequence[float], load_s: float) -> float:
    """Seconds of energy: in each round one process, which idles once and then works at every length."""
    window_s = shortest_window_s(spec)
    if window_s is None:
        return 0.0
    rounds = energy_rounds(spec)
    work_s = max(spec.energy_time_s / rounds, MIN_WINDOWS * window_s)
    lengths_s = sum(max(plan.warmup_s, MIN_WARMUP_CALLS * call_s) + work_s for call_s in calls_s)
    return rounds * (load_s + max(window_s, IDLE_S) + lengths_s)


def speeds(record: Record) -> dict[str, tuple[float, float]]:
    """Return the real-time factor over all inputs and the load time of each engine."""
    engines = engine_names(record.header.spec["engines"])
    measured = {}
    for engine, data in zip(engines, read_engines(record, engines), strict=True):
        if data.samples and data.loads:
            rtf = sum(sample.seconds for sample in data.samples) / sum(sample.audio_s for sample in data.samples)
            measured[engine] = (rtf, median(float(piece.data["load_s"]) for piece in data.loads))
    return measured
