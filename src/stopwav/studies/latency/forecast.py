"""How long a latency run may take: from the length of its corpus, and from earlier runs of its engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from stopwav.measure.plan import Plan
from stopwav.measure.sampler import MIN_WARMUP_CALLS
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.speech.corpus import load_corpus
from stopwav.speech.stored_trace import trace_from_json
from stopwav.studies.budget import time_text
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
from stopwav.studies.latency.explain import tried_knobs, with_knobs
from stopwav.studies.latency.spec import LatencySpec


def forecast(spec: LatencySpec) -> Forecast:
    """Return the budget, or of a fixed plan the sum over engines and rounds.

    A round is load, first stream, warm-up, every stream, and the memory pass.
    """
    corpus = load_corpus(spec.corpus, words=None if spec.words is None else Path(spec.words))
    if spec.rounds is None:
        return Forecast(spec.total_s, (f"the budget of {time_text(spec.total_s)}: less where that is enough",))
    count, mean_s, longest_s = lengths_of(corpus, spec.limit)
    audio_s = count * mean_s
    basis = [f"{audio_s:.0f} s of audio in {count} utterance{'s' if count > 1 else ''}, rounds: {spec.rounds}"]
    engines = spec.engines
    if spec.explain:
        engines = with_knobs(engines, tried_knobs(engines, spec.time_limit_s))
        basis.append(f"settings that {engines[0]} offers to try: {len(engines) - 1}")
    total_s, assumed = 0.0, []
    for engine in dict.fromkeys(engines):
        earlier = earlier_speed(engine, spec.save, "latency")
        rtf, load_s, run = earlier or (ASSUMED_RTF, ASSUMED_LOAD_S, "")
        if earlier:
            basis.append(measured_basis(engine, rtf, load_s, run))
        else:
            assumed.append(engine)
        # Fed by the clock, a stream takes as long as its audio, or longer where the engine falls behind.
        streams_s = audio_s * (rtf if spec.pace == "virtual" else max(rtf, 1.0))
        warm_up_s = max(Plan().warmup_s, MIN_WARMUP_CALLS * mean_s * rtf)
        round_s = load_s + mean_s * rtf + warm_up_s + streams_s + longest_s * rtf
        total_s += engines.count(engine) * spec.rounds * round_s
    if assumed:
        basis.append(assumption(assumed, spec.save))
    return Forecast(total_s, tuple(basis))


def problems(spec: LatencySpec) -> Iterator[tuple[str, str]]:
    """Yield what would stop a run of these settings at once."""
    yield from engine_problems("engines", spec.engines, spec.time_limit_s, streaming=True, servers=True)


def speeds(record: Record) -> dict[str, tuple[float, float]]:
    """Return the real-time factor over all streams and the load time of each engine."""
    measured = {}
    for engine in dict.fromkeys(str(key[2]) for key in record.keys if key[0] == "load"):
        pieces = [piece for piece in record.pieces if piece.status == "ok" and engine in piece.key[2:3]]
        rtf = _rtf([piece for piece in pieces if piece.key[0] == "stream"])
        if rtf is not None:
            measured[engine] = (rtf, median(float(piece.data["load_s"]) for piece in pieces if piece.key[0] == "load"))
    return measured


def _rtf(streams: list[Piece]) -> float | None:
    traces = [trace_from_json(piece.data["trace"]) for piece in streams]
    audio_s = sum(trace.audio_s for trace in traces)
    return sum(float(trace.service_s.sum()) for trace in traces) / audio_s if audio_s else None
