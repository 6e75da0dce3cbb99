"""The verdicts of a comparison: one per pair of engines and metric, over all inputs and at each length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from stopwav.measure.rounds import Measurement, Race
from stopwav.record import NO_TRANSCRIPT, UNTRAINED, WITHOUT_TRANSCRIPT
from stopwav.speech.wer import ErrorCount
from stopwav.stats import DEFAULT_THRESHOLD, Rule
from stopwav.stats.change import Change, Quantity, Question, answer_all, ask_count, ask_errors, ask_nothing, ask_ratio
from stopwav.studies.compare.energy import Energy, joules_by_round
from stopwav.studies.compare.engine_runner import FRAME_S
from stopwav.studies.compare.pieces import EngineData
from stopwav.studies.compare.run_data import RunData, rounds_of
from stopwav.studies.error_rates import CER, WER

ENERGY = "energy_per_audio_s_gross"
LATENCIES = ("latency_mean", "latency")
ENERGY_AT_LENGTH = "energy_per_utterance_gross"

# Nothing names a winner from a single process: a text may depend on it too.
FEWEST_TO_DECIDE = 2
_ONE_PROCESS = f"needs at least {FEWEST_TO_DECIDE} rounds per side"
_NO_SHARED_INPUT = "no input was transcribed by both engines"


@dataclass(frozen=True)
class PairVerdict:
    """The verdict on engine b against engine a in one metric: over all inputs, or at one length in frames."""

    a: str
    b: str
    change: Change
    frames: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as `--json` prints them."""
        return {"of": self.b, "against": self.a, "frames": self.frames, **self.change.to_json()}


@dataclass(frozen=True)
class PairQuestion:
    """A question about a pair of engines."""

    a: EngineData
    b: EngineData
    question: Question
    frames: int | None = None


def overall_verdicts(data: RunData) -> tuple[PairVerdict, ...]:
    """Return the verdicts of all pairs over all inputs, with one confidence of 95 % together."""
    return _decide([asked for a, b in combinations(data.engines, 2) for asked in _overall_questions(a, b, data)])


def length_verdicts(data: RunData) -> tuple[PairVerdict, ...]:
    """Return the verdicts of all pairs at each length, with one confidence of 95 % together."""
    return _decide(
        [
            asked
            for a, b in combinations(data.engines, 2)
            for frames in data.spec.frames
            for asked in _length_questions(a, b, frames, data)
        ]
    )


def _decide(asked: Sequence[PairQuestion]) -> tuple[PairVerdict, ...]:
    changes = answer_all([pair.question for pair in asked])
    return tuple(
        PairVerdict(pair.a.name, pair.b.name, change, pair.frames) for pair, change in zip(asked, changes, strict=True)
    )


def _overall_questions(a: EngineData, b: EngineData, data: RunData) -> Iterator[PairQuestion]:
    yield PairQuestion(a, b, _ask_parameters(a, b))
    yield PairQuestion(a, b, _ask_latency(a, b, data.rule))
    if data.energy is not None:
        yield PairQuestion(a, b, _ask_energy(a, b, data.energy, data.rule))
    yield PairQuestion(a, b, _ask_error_rate(a, b, data))


def _length_questions(a: EngineData, b: EngineData, frames: int, data: RunData) -> Iterator[PairQuestion]:
    """The questions about a pair at one length, paired by the rounds in which both were measured."""
    nothing = Measurement("", {}, ())
    pairs = Race(a.lengths.get(frames, nothing), b.lengths.get(frames, nothing), DEFAULT_THRESHOLD).pairs
    latency = _ask_ratio("latency", "s", "time", pairs, data.rule, "nothing was measured for both engines")
    yield PairQuestion(a, b, latency, frames)
    if (energy := data.energy) is not None:
        joules = [joules_by_round(energy, engine.energy.get(frames, [])) for engine in (a, b)]
        question = _ask_joules(ENERGY_AT_LENGTH, joules, energy, data.rule, "nothing was metered for both engines")
        yield PairQuestion(a, b, question, frames)


def _ask_parameters(a: EngineData, b: EngineData) -> Question:
    first, second = ((engine.parameters or engine.info).get("parameters") for engine in (a, b))
    if first is None or second is None:
        return ask_nothing("parameters", "", 0.0, "unknown: an engine reports no parameter count")
    return ask_count("parameters", first, second)


def _ask_latency(a: EngineData, b: EngineData, rule: Rule) -> Question:
    """Ask whether b takes longer for the same inputs: the mean over the inputs of each round, paired by round."""
    seconds = [{(sample.round, sample.place): sample.seconds for sample in engine.samples} for engine in (a, b)]
    by_round: dict[int, list[tuple[int, int]]] = {}
    for place in seconds[0]:
        if place in seconds[1]:
            by_round.setdefault(place[0], []).append(place)
    first, second = ([sum(own[p] for p in places) / len(places) for places in by_round.values()] for own in seconds)
    return _ask_ratio("latency_mean", "s", "time", (first, second), rule, _NO_SHARED_INPUT)


def _ask_energy(a: EngineData, b: EngineData, energy: Energy, rule: Rule) -> Question:
    """Ask whether b takes more joules for the audio of all lengths that both have, paired by round."""
    shared = sorted(a.energy.keys() & b.energy.keys())
    joules = [_joules_per_audio_s(engine, shared, energy) for engine in (a, b)]
    return _ask_joules(ENERGY, joules, energy, rule, "no length was metered for both engines")


def _joules_per_audio_s(engine: EngineData, lengths: Sequence[int], energy: Energy) -> dict[int, float]:
    """Joules per second of audio in each round, over these lengths."""
    by_length = [joules_by_round(energy, engine.energy[frames]) for frames in lengths]
    rounds = set.intersection(*map(set, by_length)) if by_length else set()
    audio_s = FRAME_S * sum(lengths)
    return {index: sum(joules[index] for joules in by_length) / audio_s for index in rounds}


def _ask_error_rate(a: EngineData, b: EngineData, data: RunData) -> Question:
    """Ask which makes fewer errors; the run never stops because of the answer, so it needs no rule for looking.

    Where words are characters, their rate is that of characters.
    """
    rate = CER if a.by_character or b.by_character else WER
    if a.untrained or b.untrained:
        return ask_nothing(rate, "", DEFAULT_THRESHOLD, UNTRAINED, UNTRAINED)
    errors_a, errors_b = _errors(a), _errors(b)
    shared = [utterance for utterance in errors_a if utterance in errors_b]
    if not shared:
        untold = any(engine.samples and not own for engine, own in ((a, errors_a), (b, errors_b)))
        reason = (WITHOUT_TRANSCRIPT, NO_TRANSCRIPT) if untold else (_NO_SHARED_INPUT,)
        return ask_nothing(rate, "", DEFAULT_THRESHOLD, *reason)
    if data.spec.is_budgeted and min(len(rounds_of(a)), len(rounds_of(b))) < FEWEST_TO_DECIDE:
        return ask_nothing(rate, "", DEFAULT_THRESHOLD, _ONE_PROCESS)
    first, second = ([errors[utterance][0] for utterance in shared] for errors in (errors_a, errors_b))
    words = [errors_a[utterance][1] for utterance in shared]
    return ask_errors(rate, first, second, words, DEFAULT_THRESHOLD, data.spec.seed)


def _errors(engine: EngineData) -> dict[str, tuple[float, int]]:
    """The word errors of each utterance with a transcript, their mean where it was transcribed again, and its words."""
    by_utterance: dict[str, list[ErrorCount]] = {}
    for sample in engine.samples:
        if sample.errors is not None:
            by_utterance.setdefault(sample.utterance.id, []).append(sample.errors)
    return {
        utterance: (sum(count.errors for count in counts) / len(counts), counts[0].words)
        for utterance, counts in by_utterance.items()
    }


def _ask_joules(metric: str, joules: Sequence[dict[int, float]], energy: Energy, rule: Rule, reason: str) -> Question:
    """Ask by the rounds that both engines have; without a meter, the question has no data."""
    if energy.part is None:
        return ask_nothing(metric, "J", DEFAULT_THRESHOLD, energy.reason, energy.code)
    rounds = sorted(joules[0].keys() & joules[1].keys())
    first, second = ([by_round[index] for index in rounds] for by_round in joules)
    return _ask_ratio(metric, "J", "energy", (first, second), rule, reason)


def _ask_ratio(
    metric: str, unit: str, quantity: Quantity, pairs: tuple[list[float], list[float]], rule: Rule, reason: str
) -> Question:
    """Ask by paired values; where there are none, the question has no data for this reason."""
    if not pairs[0]:
        return ask_nothing(metric, unit, DEFAULT_THRESHOLD, reason)
    return ask_ratio(metric, unit, quantity, *pairs, DEFAULT_THRESHOLD, paired=True, rule=rule)
