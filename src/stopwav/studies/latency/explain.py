"""What a run of `stopwav latency --explain` found: how much each setting gains over the engine as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stopwav.record import Record
from stopwav.speech.latency import algorithmic_latency
from stopwav.stats import DEFAULT_THRESHOLD
from stopwav.stats.change import Question, answer_all, ask_nothing, ask_ratio
from stopwav.studies.corpus_header import engine_names
from stopwav.studies.diff.diff import ask_wer, common_utterances
from stopwav.studies.latency.gain import Explanation, Gain, ranked
from stopwav.studies.latency.round_values import METRICS, WAITS, Metric, Missing, Side, side_of, values_by_round
from stopwav.studies.latency.tried_knobs import TriedKnob

_BY_NAME: Mapping[str, Metric] = {metric.name: metric for metric in (*METRICS, *WAITS)}
# What a listener feels: when words appear, or, where no words are timed, the wait of the sample that waits longest;
# its P50 where a round has too few chunks for a P95.
_FELT = ("word_latency_p50", "longest_wait_p95", "longest_wait_p50")


@dataclass(frozen=True)
class _Pair:
    """The base and the engine with one setting exchanged, in the rounds and utterances that both have."""

    setting: str
    a: Side
    b: Side
    utterances: tuple[str, ...]


def explanation(record: Record) -> Explanation | None:
    """What each setting gains in a run with `explain`, computed anew; None for a run that tried none.

    All verdicts together have one confidence of 95 %. They need two rounds or more.
    """
    if not record.header.spec.get("knobs"):
        return None
    knobs = [TriedKnob(**fields) for fields in record.header.spec["knobs"]]
    name, *others = engine_names(record.header.spec["engines"])
    base = side_of(record, name)
    sides = iter(others)
    pairs, left_out = [], []
    for knob in knobs:
        if knob.engine is None:
            left_out.append((knob.setting, knob.unavailable))
            continue
        other = next(sides)
        pair = _pair(knob.setting, base, side_of(record, other))
        if pair.utterances:
            pairs.append(pair)
        else:
            left_out.append((knob.setting, _why_nothing(record, name, other)))
    felt = _felt(pairs)
    return Explanation(name, felt.name, ranked(_gains(pairs, felt)), tuple(left_out))


def _pair(setting: str, a: Side, b: Side) -> _Pair:
    """Both sides, cut to what they share: round i of the one stood beside round i of the other."""
    rounds = sorted(a.rounds.keys() & b.rounds.keys())
    a, b = (replace(side, rounds={index: side.rounds[index] for index in rounds}) for side in (a, b))
    return _Pair(setting, a, b, tuple(common_utterances(a, b)))


def _why_nothing(record: Record, base: str, other: str) -> str:
    for name in (other, base):
        failed = (p for p in record.pieces if p.key[0] == "stream" and p.key[2] == name and p.status != "ok")
        first = next(failed, None)
        if first is not None:
            return f"{'' if name == other else 'the engine as it is: '}{first.status}: {first.message}"
    return "no round is finished"


def _felt(pairs: Sequence[_Pair]) -> Metric:
    """What all settings can be ranked by."""
    for name in _FELT:
        metric = _BY_NAME[name]
        values = (values_by_round(side, metric, set(pair.utterances)) for pair in pairs for side in (pair.a, pair.b))
        if not any(isinstance(value, Missing) for value in values):
            return metric
    return _BY_NAME[_FELT[-1]]


def _gains(pairs: Sequence[_Pair], felt: Metric) -> list[Gain]:
    metrics = (felt, _BY_NAME["chunk_lag_p95"], _BY_NAME["chunk_lag_p50"])
    asked = [[*(_ask(pair, metric) for metric in metrics), _ask_wer(pair)] for pair in pairs]
    answers = iter(answer_all([question for questions in asked for question in questions]))
    return [
        Gain(pair.setting, _algorithmic_s(pair.b) - _algorithmic_s(pair.a), *(next(answers) for _ in questions))
        for pair, questions in zip(pairs, asked, strict=True)
    ]


def _ask(pair: _Pair, metric: Metric) -> Question:
    a, b = (values_by_round(side, metric, set(pair.utterances)) for side in (pair.a, pair.b))
    for values in (a, b):
        if isinstance(values, Missing):
            return ask_nothing(metric.name, metric.unit, DEFAULT_THRESHOLD, values.reason)
    return ask_ratio(metric.name, metric.unit, metric.sort, a, b, DEFAULT_THRESHOLD, paired=True)  # type: ignore[arg-type]


def _ask_wer(pair: _Pair) -> Question:
    return ask_wer(pair.a, pair.b, pair.utterances, DEFAULT_THRESHOLD)


def _algorithmic_s(side: Side) -> float:
    trace = next(stream.trace for streams in side.rounds.values() for stream in streams)
    return algorithmic_latency(trace.chunk_s, trace.lookahead_s)[0]
