"""How comparisons are compared, or two engines of one: speed, size, energy and errors, then latency by length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median

from stopwav.measure.rounds import Measurement
from stopwav.record import NO_TRANSCRIPT, UNTRAINED, WITHOUT_TRANSCRIPT, Record
from stopwav.stats import Estimate
from stopwav.studies.comparable import Comparable, ComparableItem, Errors, NoValue, RoundMetric, Values
from stopwav.studies.compare.energy import Energy, joules_by_round
from stopwav.studies.compare.pieces import EngineData
from stopwav.studies.compare.run_data import RunData, read_run
from stopwav.studies.compare.samples import Sample
from stopwav.studies.compare.verdicts import ENERGY, ENERGY_AT_LENGTH, joules_per_audio_s
from stopwav.studies.definition import NO_SPACES, NO_WORDS
from stopwav.studies.error_rates import CER, WER

PARAMETERS, LATENCY = "parameters", "latency"


def _items(record: Record) -> dict[str, ComparableItem]:
    """The engines, then the lengths of each."""
    data = read_run(record)
    items = {engine.name: _engine_item(data, engine) for engine in data.engines}
    for engine in data.engines:
        for frames, measured in engine.lengths.items():
            if measured.good:
                items[f"{engine.name} {frames} frames"] = _length_item(data.energy, engine, frames, measured)
    return items


def _engine_item(data: RunData, engine: EngineData) -> ComparableItem:
    failed = {piece.data.get("id") for piece in engine.failed if piece.key[0] == "sample"}
    completed = {sample.utterance.id: sample.utterance.text for sample in engine.samples}
    metrics = ["rtf", "load_time"]
    metrics += [ENERGY] if data.energy is not None else []
    metrics += [PARAMETERS] if _parameters(engine) is not None else []
    return ComparableItem(
        values=partial(_values, engine, data.energy),
        utterances={name: text for name, text in completed.items() if name not in failed},
        errors=partial(_errors, engine),
        rounds=len({sample.round for sample in engine.samples}),
        metrics=tuple(metrics),
    )


def _length_item(energy: Energy | None, engine: EngineData, frames: int, measured: Measurement) -> ComparableItem:
    """One length of an engine: a part of it, as all of its lengths show in the real-time factor of the inputs."""

    def values(metric: RoundMetric, utterances: set[str]) -> Values:
        if metric.name == LATENCY:
            return [round_.median_s for round_ in measured.good]
        assert energy is not None
        return _joules(energy, joules_by_round(energy, engine.energy.get(frames, [])))

    metrics = (LATENCY, *([ENERGY_AT_LENGTH] if energy is not None else []))
    part = f"{engine.name}, {frames} frames"
    return ComparableItem(values, rounds=len(measured.good), metrics=metrics, part=part)


def _values(engine: EngineData, energy: Energy | None, metric: RoundMetric, utterances: set[str]) -> Values:
    """The metric's value in each round, of inputs over those that are of these utterances, or of the whole run."""
    if metric.name == PARAMETERS:
        count = _parameters(engine)
        return NoValue("the engine reports no parameter count") if count is None else Estimate(count, count, count)
    if metric.name == ENERGY:
        if energy is None:
            return NoValue("energy was not measured; --energy does")
        return _joules(energy, joules_per_audio_s(engine, sorted(engine.energy), energy))
    if metric.name == "load_time":
        loads: dict[int, list[float]] = {}
        for piece in engine.loads:
            loads.setdefault(int(piece.key[1]), []).append(float(piece.data["load_s"]))
        return [median(seconds) for seconds in loads.values()] or NoValue("no load completed")
    by_round: dict[int, list[Sample]] = {}
    for sample in engine.samples:
        if sample.utterance.id in utterances:
            by_round.setdefault(sample.round, []).append(sample)
    # A ratio of sums: inputs of a round differ in length.
    return [
        sum(sample.seconds for sample in samples) / sum(sample.audio_s for sample in samples)
        for samples in by_round.values()
    ] or NoValue("no input was transcribed")


def _joules(energy: Energy, by_round: Mapping[tuple[int, str], float]) -> Values:
    if energy.part is None:
        return NoValue(energy.reason, energy.code)
    return list(by_round.values()) or NoValue("nothing was metered")


def _parameters(engine: EngineData) -> int | None:
    count = (engine.parameters or engine.info).get("parameters")
    return None if count is None else int(count)


def _errors(engine: EngineData, rate: str, utterances: Sequence[str]) -> Errors:
    """The errors of each utterance with a transcript, mean over its samples, and its words or characters."""
    if engine.untrained:
        return NoValue(UNTRAINED, UNTRAINED)
    if rate == WER and engine.by_character:
        return NoValue(NO_WORDS, NO_SPACES)
    counts: dict[str, list[tuple[int, int]]] = {}
    for sample in engine.samples:
        if sample.errors is None or sample.characters is None:
            continue
        words = (sample.errors.errors, sample.errors.words)
        characters = (sample.characters.errors, sample.characters.characters)
        counts.setdefault(sample.utterance.id, []).append(words if rate == WER else characters)
    chosen = [counts[name] for name in utterances if name in counts]
    if not chosen:
        return NoValue(WITHOUT_TRANSCRIPT, NO_TRANSCRIPT)
    return [sum(errors for errors, _ in own) / len(own) for own in chosen], [own[0][1] for own in chosen]


def _engine_settings(record: Record, name: str) -> dict[str, object]:
    """Precision and device that an engine ran with, and what was metered, as far as the run knows them."""
    data = read_run(record)
    info = next((engine.info for engine in data.engines if engine.name == name), {})
    settings: dict[str, object] = {setting: info[setting] for setting in ("precision", "device") if setting in info}
    if info and data.energy is not None and data.energy.part is not None:
        settings["metered part"] = data.energy.part
    return settings


COMPARABLE = Comparable(
    noun="engine",
    metrics=(
        RoundMetric("rtf", "", "time"),
        RoundMetric("load_time", "s", "time"),
        RoundMetric(ENERGY, "J", "energy"),
        RoundMetric(PARAMETERS, "", "size"),
        RoundMetric(LATENCY, "s", "time"),
        RoundMetric(ENERGY_AT_LENGTH, "J", "energy"),
    ),
    items=_items,
    item_settings=_engine_settings,
    model_settings=("precision", "device"),
    races=True,
    error_rates=(WER, CER),
    rounds_add_utterances=True,
)
