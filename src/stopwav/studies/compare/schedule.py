"""What the next round of a run with a budget measures: what is undecided, imprecise or not transcribed yet."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from stopwav.record import Record
from stopwav.stats import scaled, side_of
from stopwav.studies.budget import FEWEST_ROUNDS, Budget, half_width
from stopwav.studies.compare.engine_rounds import Work
from stopwav.studies.compare.engine_runner import FRAME_S
from stopwav.studies.compare.pieces import EngineData
from stopwav.studies.compare.run_data import RunData, implausible_lengths
from stopwav.studies.compare.spec import CompareSpec, round_inputs
from stopwav.studies.compare.verdicts import LATENCIES, length_verdicts, overall_verdicts
from stopwav.studies.stored_rounds import skip_reason

# Inputs of the first sweep at the least: one more than shows nothing but itself.
FEWEST_INPUTS = 2
# A round takes as long as loading its engines does, this many times: verdicts need many rounds rather than long ones,
# and with fewer most of the time would go into loading.
LOADS_PER_ROUND = 3.0
# So many rounds decide on a large difference by a confidence sequence; slow engines have shorter rounds to get there.
AIMED_ROUNDS = 6
# A budget of hours has longer rounds, not more than this: they differ less from each other, and the file stays small.
MOST_ROUNDS = 60
# A round is begun only where at least as much time is left as loading takes, this many times.
LEAST_LOADS = 1.5


@dataclass(frozen=True)
class OpenQuestions:
    """What a run has not answered yet: engines that take part, lengths, and whether inputs are needed."""

    engines: tuple[str, ...]
    lengths: tuple[int, ...]
    inputs: bool

    def __bool__(self) -> bool:
        return bool(self.lengths) or self.inputs


def planned_work(spec: CompareSpec, engines: Sequence[str], index: int) -> Work:
    """Return a round of a fixed plan: every length, in an order drawn for the round, and its part of the inputs."""
    order, places = list(spec.frames), round_inputs(spec, index)
    random.Random(f"{spec.seed} {index}").shuffle(order)
    return Work(engines, order, places, math.inf, len(places))


def sweep_work(spec: CompareSpec, engines: Sequence[str], budget: Budget) -> Work:
    """Return the first round: every length, by rising length so that sizes are known, and inputs as time allows."""
    # Without any time it is one call of each engine at each length, and the fewest inputs.
    fewest = min(FEWEST_INPUTS, spec.samples)
    return Work(engines, spec.frames, range(spec.samples), budget.sweep_left_s, fewest)


def next_work(spec: CompareSpec, data: RunData, record: Record, budget: Budget, load_s: float) -> Work | None:
    """Return the next round; None where nothing is open, or no time is left for it."""
    questions = open_questions(data, spec.precision)
    if not questions or not budget.fits(LEAST_LOADS * load_s):
        return None
    engines = [engine for engine in data.engines if engine.name in questions.engines]
    calls_s = {frames: _calls_s(engines, frames) for frames in questions.lengths}
    lengths = sorted(questions.lengths)
    # The longest are left out where, with a call of each engine, too few rounds would be left for a verdict on any.
    most_s = budget.left_s / max(1, AIMED_ROUNDS - data.rounds)
    while len(lengths) > 1 and load_s + sum(calls_s[frames] for frames in lengths) > most_s:
        lengths.pop()
    if lengths and not budget.fits(load_s + sum(calls_s[frames] for frames in lengths)):
        lengths = []
    needed_s = load_s + 2 * sum(calls_s[frames] for frames in lengths)
    time_s = max(LOADS_PER_ROUND * load_s, budget.total_s / MOST_ROUNDS, needed_s)
    time_s = min(time_s, max(most_s, LEAST_LOADS * load_s))
    if not lengths and not questions.inputs:
        return None
    index = next_index(record)
    random.Random(f"{spec.seed} {index}").shuffle(lengths)
    places = _next_places(record, spec) if questions.inputs else ()
    return Work(questions.engines, lengths, places, time_s, min(1, len(places)), calls_s)


def open_questions(data: RunData, precision: float) -> OpenQuestions:
    """Return what is not decided, not precise, too close to real time, or not transcribed yet."""
    engines: dict[str, None] = {}
    lengths: set[int] = set()
    inputs = False
    for verdict in (*overall_verdicts(data), *length_verdicts(data)):
        change = verdict.change
        if change.metric not in LATENCIES or change.value is None or change.verdict != "undecided":
            continue
        engines |= dict.fromkeys((verdict.a, verdict.b))
        if verdict.frames is None:
            inputs = True
        else:
            lengths.add(verdict.frames)
    for engine in data.engines:
        open_lengths = [frames for frames in data.spec.frames if _is_open(engine, frames, precision)]
        if open_lengths or _lacks_inputs(data, engine):
            engines[engine.name] = None
        lengths.update(open_lengths)
        inputs = inputs or _lacks_inputs(data, engine)
    ordered = tuple(engine.name for engine in data.engines if engine.name in engines)
    return OpenQuestions(ordered, tuple(sorted(lengths)), inputs)


def next_index(record: Record) -> int:
    """Return the number of the next round."""
    return 1 + max((int(key[1]) for key in record.keys if key[0] in ("length", "sample", "load")), default=-1)


def _is_open(engine: EngineData, frames: int, precision: float) -> bool:
    """Whether the latency of an engine at a length is imprecise, implausible, or may be on either side of real time."""
    measured = engine.lengths.get(frames)
    if measured is None or skip_reason(measured.rounds) or not measured.good:
        return False
    rtf = scaled(measured.time, 1 / (frames * FRAME_S))
    if len(measured.good) < FEWEST_ROUNDS or half_width(rtf) > precision or side_of(rtf, 1.0) == "undecided":
        return True
    return len(measured.good) < AIMED_ROUNDS and frames in implausible_lengths(engine)


def _lacks_inputs(data: RunData, engine: EngineData) -> bool:
    """Whether an engine has inputs left to transcribe, or did so in too few rounds; one that fails at all has none."""
    if not engine.samples:
        return False
    rounds = {sample.round for sample in engine.samples}
    failed = {piece.key[3] for piece in engine.failed if piece.key[0] == "sample"}
    places = {sample.place for sample in engine.samples} | failed
    return len(places) < data.spec.samples or len(rounds) < FEWEST_ROUNDS


def _next_places(record: Record, spec: CompareSpec) -> list[int]:
    """The inputs behind the last one that was transcribed, and from the first one on again."""
    last = next((int(key[3]) for key in reversed(record.keys) if key[0] == "sample"), -1)
    return [(last + step) % spec.samples for step in range(1, spec.samples + 1)]


def _calls_s(engines: Sequence[EngineData], frames: int) -> float:
    """The seconds of one call of each engine at a length, by its last round; 0 where it has none."""
    measured = [engine.lengths[frames].good for engine in engines if frames in engine.lengths]
    return sum(median(rounds[-1].samples.values_s) for rounds in measured if rounds and rounds[-1].samples)
