"""The explanation that `stopwav latency --explain` gives: how much each setting gains over the engine as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from stopwav.errors import StopwavError
from stopwav.record import UNTRAINED, Record
from stopwav.speech.latency import algorithmic_latency
from stopwav.stats import DEFAULT_THRESHOLD, Rule
from stopwav.stats.change import Change, Question, answer_all
from stopwav.studies.budget import verdict_rule
from stopwav.studies.comparable import RoundMetric, ask_error_rate
from stopwav.studies.engine_names import engine_names
from stopwav.studies.error_rates import CER, WER
from stopwav.studies.latency.comparable import (
    ComparedEngine,
    compared_engine,
    errors_by_utterance,
)
from stopwav.studies.latency.definitions import definition_of
from stopwav.studies.latency.pairs import EnginePair, ask_pair, felt_metric, pair_engines, time_metric
from stopwav.studies.latency.spec import TriedKnob
from stopwav.studies.stored_fields import readable
from stopwav.studies.study import check_run, study_of

# Untrained weights that wrote a third more made 7 % more calls in a beam search, which is a part of a chunk's time: a
# fifth moves that time by little more than the threshold of a verdict.
RATE_TOLERANCE = 0.2
# Why a setting is not ranked: it is not available here, it failed, or untrained weights wrote at another rate with it.
LeftOutCode = Literal["unavailable", "failed", "other-rate"]


@dataclass(frozen=True)
class Gain:
    """One setting against the base: the change of the wait, how much of it is the algorithm's, and other changes.

    `algorithmic_s` follows from the setting and has no interval. `felt` is the change of what a listener feels.
    `words_per_s` is how much untrained weights wrote; None for trained ones.
    """

    setting: str
    algorithmic_s: float
    felt: Change
    lag_p95: Change
    lag_p50: Change
    wer: Change
    words_per_s: float | None = field(default=None, kw_only=True)

    @property
    def felt_s(self) -> float | None:
        """Seconds by which the wait is longer than the base's; below zero is a gain."""
        return None if self.felt.a is None or self.felt.b is None else self.felt.b - self.felt.a

    def to_json(self) -> dict[str, Any]:
        """Return the fields as `--json` prints them."""
        changes = {"felt": self.felt, "lag_p95": self.lag_p95, "lag_p50": self.lag_p50, "wer": self.wer}
        return {
            "setting": self.setting,
            "algorithmic_s": self.algorithmic_s,
            "felt_s": self.felt_s,
            "words_per_s": self.words_per_s,
            **{name: change.to_json() for name, change in changes.items()},
        }


@dataclass(frozen=True)
class LeftOut:
    """A setting that is not ranked, and why."""

    setting: str
    reason: str
    code: LeftOutCode

    @property
    def title(self) -> str:
        """The step that it did not reach, in words."""
        return "not ranked" if self.code == "other-rate" else "not measured"


@dataclass(frozen=True)
class Explanation:
    """The settings of an engine that were ranked, the best first, and those that were not, with reasons.

    `felt` names the metric that they are ranked by; `words_per_s` is how much an untrained base wrote.
    """

    base: str
    felt: str
    gains: tuple[Gain, ...]
    left_out: tuple[LeftOut, ...]
    words_per_s: float | None = None

    @property
    def unranked(self) -> tuple[LeftOut, ...]:
        """The settings that were measured, but did other work than the base."""
        return tuple(setting for setting in self.left_out if setting.code == "other-rate")

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as `--json` prints it."""
        return {
            "base": self.base,
            "felt": self.felt,
            "words_per_s": self.words_per_s,
            "gains": [gain.to_json() for gain in self.gains],
            "left_out": [asdict(setting) for setting in self.left_out],
        }


def tried_knobs(engines: list[str], time_limit_s: float = 0.0) -> list[TriedKnob]:
    """Return the settings that an engine offers, each with the engine that has it, or why it is not tried here."""
    from stopwav.studies.engine_check import offered_settings

    if len(engines) != 1:
        raise StopwavError(f"--explain takes one engine, got {len(engines)}: {', '.join(engines)}")
    (engine,) = engines
    tried: list[TriedKnob] = []
    for offered in offered_settings(engine, time_limit_s):
        available = None if offered.unavailable else offered.engine
        if offered.engine != engine and all(available is None or available != other.engine for other in tried):
            tried.append(TriedKnob(setting=offered.setting, engine=available, unavailable=offered.unavailable))
    if not tried:
        raise StopwavError(f"engine {engine!r} offers no other settings to try; measure it without --explain")
    return tried


def with_knobs(engines: list[str], knobs: Iterable[TriedKnob]) -> list[str]:
    """Return the engines, followed by the engine with each setting that is tried: all that the run streams."""
    return [*engines, *(knob.engine for knob in knobs if knob.engine is not None)]


def explanation(record: Record) -> Explanation | None:
    """Return what each setting gains in a run with `explain`, computed again from it; None where none was tried.

    All verdicts together have one confidence of 95 %. They need two rounds or more. A setting with which untrained
    weights write at another rate does other work than the base: it is not ranked.
    """
    if not record.header.spec.get("knobs"):
        return None
    check_run(record, study_of(record))
    with readable(record, "settings that were tried"):
        return _explain(record)


def _explain(record: Record) -> Explanation:
    knobs = [TriedKnob(**fields) for fields in record.header.spec["knobs"]]
    name, *others = engine_names(record.header.spec["engines"])
    base = compared_engine(record, name)
    remaining = iter(others)
    pairs: list[tuple[str, EnginePair]] = []
    left_out: list[LeftOut] = []
    for knob in knobs:
        if knob.engine is None:
            left_out.append(LeftOut(knob.setting, knob.unavailable, "unavailable"))
            continue
        other = next(remaining)
        pair = pair_engines(base, compared_engine(record, other))
        if not pair.utterances:
            left_out.append(LeftOut(knob.setting, _failure(record, name, other), "failed"))
        elif reason := _other_rate(pair):
            left_out.append(LeftOut(knob.setting, reason, "other-rate"))
        else:
            pairs.append((knob.setting, pair))
    felt = felt_metric([pair for _, pair in pairs])
    return Explanation(
        name, felt.name, ranked(_gains(pairs, felt, verdict_rule(record))), tuple(left_out), _words_per_s(base)
    )


def explanation_reasons(explanation: Explanation) -> Iterator[str]:
    """Yield why settings were not tried and why numbers are missing, each reason once."""
    for left_out in explanation.left_out:
        yield f"{left_out.title}: {left_out.setting}: {left_out.reason}"
    reasons: dict[str, dict[str, None]] = {}
    for gain in explanation.gains:
        for change in (gain.felt, gain.lag_p95, gain.lag_p50, gain.wer):
            if change.note and change.code != UNTRAINED:
                reasons.setdefault(change.note, {})[definition_of(change.metric).title] = None
    for reason, titles in reasons.items():
        yield f"{reason}: {'; '.join(titles)}"


def ranked(gains: Iterable[Gain]) -> tuple[Gain, ...]:
    """Return the gains by what a listener feels: those that are shown to help, those that are not, those that hurt."""
    tiers = {"faster": 0, "slower": 2}
    return tuple(sorted(gains, key=lambda gain: (tiers.get(gain.felt.verdict, 1), gain.felt_s or 0.0)))


def _failure(record: Record, base: str, other: str) -> str:
    """Why two engines have no utterance in common."""
    for name in (other, base):
        pieces = (piece for piece in record.pieces if piece.key[0] == "stream" and piece.key[2] == name)
        failed = next((piece for piece in pieces if piece.status != "ok"), None)
        if failed is not None:
            return f"{'' if name == other else 'the engine as it is: '}{failed.status}: {failed.message}"
    return "no round is finished"


def _words_per_s(engine: ComparedEngine, utterances: Sequence[str] | None = None) -> float | None:
    """How many words untrained weights wrote per second of audio, in all or some utterances; None for trained ones."""
    chosen: list[int] = np.flatnonzero(engine.streams(utterances)).tolist()
    audio_s = float(engine.table.audio_s[chosen].sum())
    if not engine.untrained or not audio_s:
        return None
    return sum(len(engine.table.texts[stream].text.split()) for stream in chosen) / audio_s


def _other_rate(pair: EnginePair) -> str:
    """Why two untrained engines did not do the same work, or "": their rates differ by more than the tolerance."""
    a, b = (_words_per_s(engine, pair.utterances) for engine in (pair.a, pair.b))
    if a is None or b is None or abs(b - a) <= RATE_TOLERANCE * a:
        return ""
    return (
        f"random weights write {b:.1f} words a second with it and {a:.1f} without it, more than "
        f"{100 * RATE_TOLERANCE:.0f} % apart, so its times are those of other work; measure more utterances, or use a "
        "checkpoint"
    )


def _gains(pairs: Sequence[tuple[str, EnginePair]], felt: RoundMetric, rule: Rule) -> list[Gain]:
    metrics = (felt, time_metric("chunk_lag_p95"), time_metric("chunk_lag_p50"))
    asked = [[*(ask_pair(pair, metric, rule) for metric in metrics), _ask_wer(pair)] for _, pair in pairs]
    answers = iter(answer_all([question for questions in asked for question in questions]))
    return [
        Gain(
            setting,
            _algorithmic_s(pair.b) - _algorithmic_s(pair.a),
            *(next(answers) for _ in questions),
            words_per_s=_words_per_s(pair.b),
        )
        for (setting, pair), questions in zip(pairs, asked, strict=True)
    ]


def _ask_wer(pair: EnginePair) -> Question:
    rate = CER if pair.a.table.utterances.normaliser.by_character else WER
    a, b = (errors_by_utterance(engine, rate, pair.utterances) for engine in (pair.a, pair.b))
    return ask_error_rate(rate, a, b, DEFAULT_THRESHOLD)


def _algorithmic_s(engine: ComparedEngine) -> float:
    assert engine.table.algorithm_s is not None
    return algorithmic_latency(*engine.table.algorithm_s)[0]
