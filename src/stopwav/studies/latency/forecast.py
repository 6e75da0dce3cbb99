"""How long a latency run may take: from the length of its corpus, and from earlier runs of its engines."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from stopwav.measure.plan import Plan
from stopwav.measure.sampler import MIN_WARMUP_CALLS
from stopwav.record import Piece, runs_in
from stopwav.speech.corpus import Corpus, load_corpus
from stopwav.speech.events import trace_from_json
from stopwav.studies.corpus_header import duration_s
from stopwav.studies.latency.tried_knobs import tried_knobs, with_settings

# Without an earlier run, an engine is taken to work as fast as speech arrives: most are faster.
ASSUMED_RTF = 1.0
# What a fresh process takes to start and load a small model.
ASSUMED_LOAD_S = 3.0
# Earlier runs looked at, newest first: reading a long one takes a second.
EARLIER_RUNS = 20
# Utterances whose length is looked up: enough for the mean, where opening 100,000 files would take minutes.
_LENGTHS = 200


def guess_latency(settings: Any) -> tuple[float, list[str]]:
    """Seconds, and their basis: rounds × (load, first stream, warm-up, every stream, memory) of each engine."""
    corpus = load_corpus(settings.corpus, words=None if settings.words is None else Path(settings.words))
    count, mean_s, longest_s = lengths_of(corpus, settings.limit)
    audio_s = count * mean_s
    basis = [f"{audio_s:.0f} s of audio in {count} utterance{'s' if count > 1 else ''}, rounds: {settings.rounds}"]
    total_s, assumed = 0.0, []
    engines = settings.engines
    if settings.explain:
        engines = with_settings(engines, tried_knobs(engines))
        basis.append(f"settings that {engines[0]} offers to try: {len(engines) - 1}")
    for engine in dict.fromkeys(engines):
        earlier = _earlier(engine, Path(settings.save))
        rtf, load_s, run = earlier or (ASSUMED_RTF, ASSUMED_LOAD_S, "")
        if earlier:
            basis.append(f"{engine}: real-time factor {rtf:.3f} and load {load_s:.1f} s, measured in {run}")
        else:
            assumed.append(engine)
        # Paced by the clock, a stream takes as long as its audio, or longer where the engine falls behind.
        streams_s = audio_s * (rtf if settings.pace == "virtual" else max(rtf, 1.0))
        warm_up_s = max(Plan().warmup_s, MIN_WARMUP_CALLS * mean_s * rtf)
        round_s = load_s + mean_s * rtf + warm_up_s + streams_s + longest_s * rtf
        total_s += engines.count(engine) * settings.rounds * round_s
    if assumed:
        basis.append(assumption(assumed, settings.save))
    return total_s, basis


def assumption(engines: list[str], folder: Path | str) -> str:
    """What is said of engines that no earlier run tells of."""
    factor = f"real-time factor {ASSUMED_RTF:g} and load {ASSUMED_LOAD_S:g} s"
    return f"{', '.join(engines)}: {factor}, assumed, as there is no earlier run in {folder}"


def lengths_of(corpus: Corpus, limit: int | None) -> tuple[int, float, float]:
    """How many utterances are streamed, and how long they are in the mean and at most."""
    # Spread over the corpus: the first of a sorted one are all alike.
    step = -(-len(corpus.utterances) // _LENGTHS)
    lengths_s = [duration_s(utterance) for utterance in corpus.utterances[::step]]
    count = min(limit or len(corpus.utterances), len(corpus.utterances))
    return count, sum(lengths_s) / len(lengths_s), max(lengths_s)


def _earlier(engine: str, folder: Path) -> tuple[float, float, str] | None:
    """Real-time factor and load time of the engine, and in which run they were measured."""
    for record in islice(runs_in(folder, "latency"), EARLIER_RUNS):
        pieces = [piece for piece in record.pieces if piece.status == "ok" and piece.key[2] == engine]
        rtf = _rtf([piece for piece in pieces if piece.key[0] == "stream"])
        loads_s = [float(piece.data["load_s"]) for piece in pieces if piece.key[0] == "load"]
        if rtf is not None and loads_s:
            return rtf, median(loads_s), record.path.name
    return None


def _rtf(streams: list[Piece]) -> float | None:
    traces = [trace_from_json(piece.data["trace"]) for piece in streams]
    audio_s = sum(trace.audio_s for trace in traces)
    return sum(chunk.service_s for trace in traces for chunk in trace.chunks) / audio_s if audio_s else None
