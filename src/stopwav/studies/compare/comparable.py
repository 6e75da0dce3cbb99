"""How comparisons are compared, or two engines of one: by real-time factor and load time per round, and by errors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median

from stopwav.record import NO_TRANSCRIPT, UNTRAINED, WITHOUT_TRANSCRIPT, Record
from stopwav.studies.comparable import Comparable, ComparableItem, Errors, NoValue, RoundMetric, Values
from stopwav.studies.compare.pieces import EngineData, read_engines
from stopwav.studies.compare.samples import Sample
from stopwav.studies.corpus_header import engine_names

WER, CER = "wer", "cer"


def _items(record: Record) -> dict[str, ComparableItem]:
    return {engine.name: _item(engine) for engine in _engines(record)}


def _engines(record: Record) -> list[EngineData]:
    return read_engines(record, engine_names(record.header.spec["engines"]))


def _item(engine: EngineData) -> ComparableItem:
    failed = {piece.data.get("id") for piece in engine.failed if piece.key[0] == "sample"}
    completed = {sample.utterance.id: sample.utterance.text for sample in engine.samples}
    return ComparableItem(
        values=partial(_values, engine),
        utterances={name: text for name, text in completed.items() if name not in failed},
        errors=partial(_errors, engine),
        rounds=len({sample.round for sample in engine.samples}),
    )


def _values(engine: EngineData, metric: RoundMetric, utterances: set[str]) -> Values:
    """The metric's value in each round, over the inputs of the round that are of these utterances."""
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


def _errors(engine: EngineData, rate: str, utterances: Sequence[str]) -> Errors:
    """The errors of each utterance with a transcript, mean over its samples, and its words or characters."""
    if engine.untrained:
        return NoValue(UNTRAINED, UNTRAINED)
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
    """Precision and device that an engine ran with, as far as the run knows them."""
    info = next((engine.info for engine in _engines(record) if engine.name == name), {})
    return {setting: info[setting] for setting in ("precision", "device") if setting in info}


COMPARABLE = Comparable(
    noun="engine",
    # Few on purpose, as of every study: latencies at single lengths all show in the real-time factor of the inputs.
    metrics=(RoundMetric("rtf", "", "time"), RoundMetric("load_time", "s", "time")),
    items=_items,
    item_settings=_engine_settings,
    error_rates=(WER, CER),
    rounds_add_utterances=True,
)
