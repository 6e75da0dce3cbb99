"""The card of a comparison: a verdict per pair and metric, the Pareto set, and the hypotheses it was run for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from stopwav.errors import StopwavError
from stopwav.measure.rounds import Race, race
from stopwav.record import UNTRAINED, Record, Result
from stopwav.stats import DEFAULT_THRESHOLD, Estimate
from stopwav.stats.change import Question, answer_all, ask_count, ask_errors, ask_nothing, ask_ratio
from stopwav.stats.estimate import pareto_set
from stopwav.studies.compare.card import Card, PairVerdict, Pareto
from stopwav.studies.compare.energy import Energy, energy_of, joules_by_round
from stopwav.studies.compare.engine_runner import FRAME_S
from stopwav.studies.compare.expectation import judge, parse_expectation
from stopwav.studies.compare.pieces import Entrant, entrants
from stopwav.studies.compare.results import compare_results
from stopwav.studies.compare.run import CompareSpec, length_workload, plan_of
from stopwav.studies.corpus_header import engine_names

ENERGY = "energy_per_audio_s_gross"
ENERGY_AT = "energy_per_utterance_gross"


def card(record: Record) -> Card:
    """What a comparison decides, computed anew from its raw observations.

    Verdicts over all inputs have one confidence of 95 % together, and those at each length have so too. They need two
    rounds or more.
    """
    if record.header.study != "compare":
        raise StopwavError(f"{record.path}: a run of {record.header.study!r}; only a run of 'compare' has a card")
    spec = CompareSpec(**record.header.spec)
    names = engine_names(spec.engines)
    sides = entrants(record, names)
    energy = energy_of(record, sides)
    verdicts = _verdicts(
        [(a, b, None, one) for a, b in combinations(sides, 2) for one in _questions(a, b, energy, spec)]
    )
    by_length = _verdicts(
        [
            (a, b, frames, one)
            for a, b in combinations(sides, 2)
            for frames in spec.frames
            for one in _questions_at(a, b, frames, energy, spec)
        ]
    )
    told = (*verdicts, *by_length)
    expectations = tuple(judge(parse_expectation(text, names, spec.frames), told) for text in spec.expect)
    return Card(tuple(names), verdicts, by_length, pareto_of(compare_results(record)), expectations)


def pareto_of(results: Sequence[Result]) -> Pareto:
    """Who is not shown to be beaten in word errors, or else parameters, pace, and energy where it was measured."""
    engines = [result for result in results if result.params["kind"] == "engine"]
    first = "wer" if _any_has(engines, "wer") else "parameters"
    axes = [first, "rtf"]
    if _any_has(engines, ENERGY):
        axes.append(ENERGY)
    nothing = Estimate(None, note="nothing was measured")
    points = {one.name: [one.metrics.get(axis, nothing) for axis in axes] for one in engines}
    placed = {name: point for name, point in points.items() if all(axis.value is not None for axis in point)}
    members = pareto_set(placed)
    left_out = [
        (name, next(axis.note for axis in point if axis.value is None))
        for name, point in points.items()
        if name not in placed
    ]
    beaten = tuple(name for name in placed if name not in members)
    return Pareto(tuple(axes), tuple(members), beaten, tuple(left_out))


def _any_has(engines: Sequence[Result], metric: str) -> bool:
    return any(metric in one.metrics and one.metrics[metric].value is not None for one in engines)


def _verdicts(asked: Sequence[tuple[Entrant, Entrant, int | None, Question]]) -> tuple[PairVerdict, ...]:
    """The verdicts, decided together."""
    answers = answer_all([question for *_, question in asked])
    return tuple(
        PairVerdict(a.name, b.name, change, frames) for (a, b, frames, _), change in zip(asked, answers, strict=True)
    )


def _questions(a: Entrant, b: Entrant, energy: Energy | None, spec: CompareSpec) -> Iterator[Question]:
    """What is asked of a pair over all inputs."""
    yield _ask_parameters(a, b)
    yield _ask_latency(a, b)
    if energy is not None:
        yield _ask_energy(a, b, energy)
    yield _ask_wer(a, b, spec.seed)


def _ask_parameters(a: Entrant, b: Entrant) -> Question:
    counts = [(side.parameters or side.info).get("parameters") for side in (a, b)]
    if counts[0] is None or counts[1] is None:
        return ask_nothing("parameters", "", 0.0, "an engine does not say how many it has")
    return ask_count("parameters", counts[0], counts[1])


def _ask_latency(a: Entrant, b: Entrant) -> Question:
    """Whether b takes longer for the same inputs: the mean of each round's share, paired by round."""
    seconds = [{sample.place: sample.seconds for sample in side.samples} for side in (a, b)]
    by_round: dict[int, list[int]] = {}
    for sample in a.samples:
        if sample.place in seconds[1]:
            by_round.setdefault(sample.round, []).append(sample.place)
    first, second = ([sum(side[p] for p in places) / len(places) for places in by_round.values()] for side in seconds)
    return _ask_ratio("latency_mean", "s", "time", (first, second), "no input went well on both sides")


def _ask_energy(a: Entrant, b: Entrant, energy: Energy) -> Question:
    """Whether b takes more joules for the audio of all lengths that both have, paired by round."""
    shared = sorted(a.energy.keys() & b.energy.keys())
    values = [_joules(side, shared, energy) for side in (a, b)]
    return _ask_paired(ENERGY, "J", "energy", values, energy.reason or "no length was metered on both sides")


def _joules(side: Entrant, lengths: Sequence[int], energy: Energy) -> dict[int, float]:
    """Joules per second of audio in each round, over these lengths."""
    by_length = [joules_by_round(energy, side.energy[frames]) for frames in lengths]
    rounds = set.intersection(*map(set, by_length)) if by_length else set()
    audio_s = FRAME_S * sum(lengths)
    return {index: sum(one[index] for one in by_length) / audio_s for index in rounds}


def _ask_wer(a: Entrant, b: Entrant, seed: int) -> Question:
    if a.untrained or b.untrained:
        return ask_nothing("wer", "", DEFAULT_THRESHOLD, UNTRAINED)
    errors = [_errors(side) for side in (a, b)]
    shared = [name for name in errors[0] if name in errors[1]]
    if not shared:
        return ask_nothing("wer", "", DEFAULT_THRESHOLD, "no input went well on both sides")
    words = {sample.utterance.id: sample.errors.words for sample in a.samples}
    first, second = ([side[name] for name in shared] for side in errors)
    return ask_errors("wer", first, second, [words[name] for name in shared], DEFAULT_THRESHOLD, seed)


def _errors(side: Entrant) -> dict[str, float]:
    """The word errors of each utterance, their mean where it was taken several times."""
    found: dict[str, list[int]] = {}
    for sample in side.samples:
        found.setdefault(sample.utterance.id, []).append(sample.errors.errors)
    return {name: sum(errors) / len(errors) for name, errors in found.items()}


def _questions_at(a: Entrant, b: Entrant, frames: int, energy: Energy | None, spec: CompareSpec) -> Iterator[Question]:
    """What is asked of a pair at one length: rounds in which both were measured stand beside each other."""
    pairs = _race_at(a, b, frames, spec).pairs
    yield _ask_ratio("latency", "s", "time", pairs, "nothing was measured on both sides")
    if energy is not None:
        joules = [joules_by_round(energy, side.energy.get(frames, [])) for side in (a, b)]
        yield _ask_paired(ENERGY_AT, "J", "energy", joules, energy.reason or "nothing was metered on both sides")


def _race_at(a: Entrant, b: Entrant, frames: int, spec: CompareSpec) -> Race:
    """The race of a pair at one length, over the rounds that the run holds; no more are taken."""
    first, second = (length_workload(spec, side.name, frames) for side in (a, b))
    rounds_a, rounds_b = (side.lengths[frames].rounds if frames in side.lengths else () for side in (a, b))
    return race(
        first, second, plan_of(spec), threshold=DEFAULT_THRESHOLD, previous_rounds=(rounds_a, rounds_b), only=()
    )


def _ask_paired(metric: str, unit: str, sort: Quantity, values: Sequence[dict[int, float]], why_not: str) -> Question:
    """The question by the rounds that both sides have."""
    rounds = sorted(values[0].keys() & values[1].keys())
    first, second = ([one[index] for index in rounds] for one in values)
    return _ask_ratio(metric, unit, sort, (first, second), why_not)


def _ask_ratio(
    metric: str, unit: str, sort: Quantity, pairs: tuple[list[float], list[float]], why_not: str
) -> Question:
    """The question by values that stand beside each other; none where there are none."""
    if not pairs[0]:
        return ask_nothing(metric, unit, DEFAULT_THRESHOLD, why_not)
    return ask_ratio(metric, unit, sort, *pairs, DEFAULT_THRESHOLD, paired=True)
