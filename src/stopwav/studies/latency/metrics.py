"""The metrics of one engine's streams: every streaming metric with its interval, from the recorded traces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stopwav.record import NO_TRANSCRIPT, UNTRAINED, Piece
from stopwav.speech.events import Trace, trace_from_json
from stopwav.speech.latency import (
    STAGES,
    WATERFALL,
    ShownText,
    WordDelay,
    algorithmic_latency,
    average_lagging,
    backlog_slope,
    committing_texts,
    differentiable_average_lagging,
    erased_words,
    final_latency,
    first_word_latency,
    length_adaptive_average_lagging,
    shown_texts,
    stage_seconds,
    unstable_words,
    word_delays,
)
from stopwav.speech.text import normalise
from stopwav.speech.utterance import Utterance
from stopwav.speech.wer import CharacterErrorCount, ErrorCount, count_character_errors, count_word_errors
from stopwav.stats import UNDECIDED, Estimate, cluster_mean, cluster_percentiles, cluster_ratio, inverse, side_of

# Half the listeners, and the one in ten, twenty or a hundred who waits longest.
PERCENTILES = (0.50, 0.90, 0.95, 0.99)
WAITING = ("buffering", "lookahead", "emission")
COMPUTING = (*STAGES, "other")
# The code of what follows from the settings or from other metrics, and has no interval of its own.
BY_DEFINITION = "by-definition"
# The codes for which a cell, or the definition of its metric, says why there is no number or interval.
SAID = (UNTRAINED, NO_TRANSCRIPT, BY_DEFINITION)


@dataclass(frozen=True)
class Stream:
    """One stream without a failure: its trace, the texts shown, the delay of each word, and its errors.

    Errors are None where the utterance has no transcript.
    """

    round: int
    utterance: Utterance
    trace: Trace
    texts: list[ShownText]
    delays: list[WordDelay]
    errors: ErrorCount | None
    characters: CharacterErrorCount | None


def streams_of(pieces: Sequence[Piece], utterances: dict[str, Utterance]) -> list[Stream]:
    """Return the streams among the pieces that completed without a failure."""
    streams = []
    for piece in pieces:
        if piece.key[0] != "stream" or piece.status != "ok":
            continue
        utterance = utterances[str(piece.key[3])]
        trace = trace_from_json(piece.data["trace"])
        texts = shown_texts(trace)
        delays = word_delays(trace, utterance.words, texts)
        errors, characters = None, None
        if utterance.text is not None:
            words = normalise(utterance.text), texts[-1].words if texts else ()
            errors, characters = count_word_errors(*words), count_character_errors(*words)
        streams.append(Stream(int(piece.key[1]), utterance, trace, texts, delays, errors, characters))
    return streams


def stream_metrics(streams: Sequence[Stream], seed: int) -> dict[str, Estimate]:
    """Return the metrics of streams: of chunks, words, utterances, and ratios of sums."""
    metrics = {
        **_chunk_metrics(streams, seed),
        **_word_metrics(streams, seed),
        **_utterance_metrics(streams, seed),
        **_ratio_metrics(streams, seed),
    }
    return {**metrics, "keeps_up": keeps_up(metrics["rtf"], metrics["backlog_slope"])}


def _chunk_metrics(streams: Sequence[Stream], seed: int) -> dict[str, Estimate]:
    """Chunk latency, queue, compute and the stages, each over the chunks with audio."""
    percentiles = _Percentiles([(stream, stream.trace.chunks[:-1]) for stream in streams], seed)
    metrics = percentiles("chunk_lag", lambda chunk: chunk.lag_s) | percentiles("queue", lambda chunk: chunk.queue_s)
    metrics |= percentiles("service", lambda chunk: chunk.service_s)
    stages = {id(chunk): stage_seconds(chunk) for stream in streams for chunk in stream.trace.chunks[:-1]}
    for path in dict.fromkeys(path for seconds in stages.values() for path in seconds):
        metrics |= percentiles(_stage_metric(path), lambda chunk, path=path: stages[id(chunk)].get(path, 0.0))  # type: ignore[misc]
    if "features_p95" in metrics and "copy_p95" not in metrics:
        # An engine that marks its stages and copies nothing spends no time on it: a zero, and not a gap.
        metrics |= percentiles("copy", lambda chunk: 0.0)
    longest, mean = algorithmic_latency(streams[0].trace.chunk_s, streams[0].trace.lookahead_s)
    metrics |= percentiles("longest_wait", lambda chunk: longest + chunk.lag_s)
    metrics["algorithmic_latency"] = _exact(longest, "chunk + look-ahead, by definition")
    metrics["algorithmic_latency_mean"] = _exact(mean, "chunk / 2 + look-ahead, by definition")
    metrics["sum_of_p95s"] = _sum_of_p95s(metrics)
    return metrics


def _exact(value_s: float, note: str) -> Estimate:
    return Estimate(value_s, unit="s", n=1, note=note, code=BY_DEFINITION)


def _stage_metric(path: str) -> str:
    """The metric of a stage; `stage_` marks names of the engine's own, which must not be taken for other metrics."""
    name = path.replace("/", "_")
    return name if path.split("/")[0] in (*STAGES, "other") else f"stage_{name}"


def _sum_of_p95s(metrics: Mapping[str, Estimate]) -> Estimate:
    parts = [metrics.get(f"{name}_p95", Estimate(0.0)).value for name in ("features", "copy", "inference")]
    note = "an upper bound, not a percentile; for comparison with older reports"
    lag = metrics["chunk_lag_p95"]
    if any(part is None for part in parts):
        return Estimate(None, unit="s", note=f"{note}; {lag.note}", code=BY_DEFINITION)
    total = (metrics["algorithmic_latency"].value or 0.0) + sum(part or 0.0 for part in parts)
    return Estimate(total, unit="s", n=lag.n, note=note, code=BY_DEFINITION)


def _word_metrics(streams: Sequence[Stream], seed: int) -> dict[str, Estimate]:
    """Delays of the reference words that were recognised, and the share of each cause, over streams with word times."""
    timed = [stream for stream in streams if stream.delays]
    shown = [(s, [delay for delay in s.delays if delay.waterfall is not None]) for s in timed]
    stable = [(s, [delay for delay in s.delays if delay.committed_s is not None]) for s in timed]
    metrics = _Percentiles(shown, seed)("word_latency", lambda delay: delay.latency_s)
    metrics |= _Percentiles(stable, seed)("stabilisation", lambda delay: delay.stabilisation_s)
    metrics |= _Percentiles(stable, seed)("committed_latency", lambda delay: delay.committed_s)
    metrics["word_latency_mean"] = _mean(shown, lambda delay: delay.latency_s, seed)
    for part in WATERFALL:
        metrics[f"waterfall_{part}"] = _mean(shown, lambda delay, part=part: delay.waterfall[part], seed)  # type: ignore[misc]
    shares: dict[str, Callable[[WordDelay], float]] = {
        "waiting": lambda delay: sum((delay.waterfall or {})[part] for part in WAITING),
        "queue": lambda delay: (delay.waterfall or {})["queue"],
        "computing": lambda delay: sum((delay.waterfall or {})[part] for part in COMPUTING),
        "stabilisation": lambda delay: delay.stabilisation_s or 0.0,
    }
    for name, part_of in shares.items():
        metrics[f"share_{name}"] = _share(stable, part_of, seed)
    return metrics


def _share(pairs: Sequence[tuple[Stream, list[WordDelay]]], part: Callable[[WordDelay], float], seed: int) -> Estimate:
    """Σ part / Σ committed latency."""
    parts = [sum(part(delay) for delay in delays) for _, delays in pairs]
    totals = [sum(delay.committed_s or 0.0 for delay in delays) for _, delays in pairs]
    if sum(totals) <= 0:
        return Estimate(None, note="words are committed before they end: there is no wait to divide")
    return cluster_ratio(parts, totals, *_labels(stream for stream, _ in pairs), seed=seed)


def _utterance_metrics(streams: Sequence[Stream], seed: int) -> dict[str, Estimate]:
    """Metrics with one value per stream: first partial, final text, lagging, backlog."""
    once: list[tuple[Stream, list[Stream]]] = [(stream, [stream]) for stream in streams]
    percentiles = _Percentiles(once, seed)
    metrics = percentiles("first_word_latency", lambda s: first_word_latency(s.utterance.words, s.texts)[0])
    metrics |= percentiles("first_word_latency_from_start", lambda s: first_word_latency(s.utterance.words, s.texts)[1])
    metrics |= percentiles("final_latency", lambda s: final_latency(s.trace, s.utterance.words)[0])
    metrics |= percentiles("final_latency_from_end", lambda s: final_latency(s.trace, s.utterance.words)[1])
    for suffix, aware in (("", False), ("_ca", True)):
        for name in ("al", "laal", "dal"):
            metrics[name + suffix] = _mean(once, lambda s, name=name, aware=aware: _lagging(s, name, aware), seed)  # type: ignore[misc]
    metrics["backlog_slope"] = _mean(once, lambda s: backlog_slope(s.trace), seed, unit="s/s")
    return metrics


def _lagging(stream: Stream, name: str, computation_aware: bool) -> float | None:
    chunks, audio_s = stream.trace.chunks, stream.trace.audio_s
    commits = committing_texts(stream.texts)
    delays = [text.time_s if computation_aware else chunks[text.chunk].due_s for text in commits]
    if name == "dal":
        return differentiable_average_lagging(delays, audio_s)
    if stream.errors is None:
        return None
    lagging = average_lagging if name == "al" else length_adaptive_average_lagging
    return lagging(delays, audio_s, stream.errors.words)


def _ratio_metrics(streams: Sequence[Stream], seed: int) -> dict[str, Estimate]:
    """Ratios of sums over streams."""
    labels = _labels(streams)
    service = [sum(chunk.service_s for chunk in s.trace.chunks) for s in streams]
    audio = [s.trace.audio_s for s in streams]
    final = [len(s.texts[-1].words) if s.texts else 0 for s in streams]
    transcribed = [(s, s.errors, s.characters) for s in streams if s.errors is not None and s.characters is not None]
    of_transcribed = _labels(s for s, _, _ in transcribed)
    words = [(errors.errors, errors.words) for _, errors, _ in transcribed]
    characters = [(errors.errors, errors.characters) for _, _, errors in transcribed]
    rtf = cluster_ratio(service, audio, *labels, seed=seed, positive=True)
    metrics = {
        "rtf": rtf,
        "rtfx": inverse(rtf),
        "wer": cluster_ratio(*_columns(words), *of_transcribed, seed=seed),
        "cer": cluster_ratio(*_columns(characters), *of_transcribed, seed=seed),
        "upwr": cluster_ratio([unstable_words(s.texts) for s in streams], final, *labels, seed=seed),
        "normalised_erasure": cluster_ratio([erased_words(s.texts) for s in streams], final, *labels, seed=seed),
    }
    timed = [s for s in streams if s.delays]
    recognised = [sum(delay.shown_s is not None for delay in s.delays) for s in timed]
    share = cluster_ratio(recognised, [len(s.delays) for s in timed], *_labels(timed), seed=seed)
    metrics["words_recognised"] = replace(share, high=None if share.high is None else min(1.0, share.high))
    return metrics


def _columns(pairs: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def keeps_up(rtf: Estimate, slope: Estimate) -> Estimate:
    """Return 1 where RTF is surely below 1 and the backlog not surely growing, 0 where one surely is not, else neither.

    What is sure is what a whole interval shows; where it shows neither, the verdict is undecided.
    """
    side = side_of(rtf, 1.0)
    if side == "above" or side_of(slope, 0.0) == "above":
        return Estimate(0.0, unit="bool", n=rtf.n)
    if side == "below" and not (slope.low is None and (slope.value or 0.0) > 0):
        note = "judged by real-time factor alone: streams under 2 s have no trend" if slope.value is None else ""
        return Estimate(1.0, unit="bool", n=rtf.n, note=note)
    reason = "the interval of RTF includes 1" if rtf.low is not None else f"RTF has {rtf.note or 'no interval'}"
    if side == "below":
        reason = f"the backlog grows, with {slope.note or 'no interval'}"
    note = f"{UNDECIDED}: {reason}; more utterances would decide"
    return Estimate(None, unit="bool", n=rtf.n, note=note, code=UNDECIDED)


def process_metrics(pieces: Sequence[Piece]) -> dict[str, Estimate]:
    """Return the metrics with one value per process: load time and peak memory."""
    loads = [float(piece.data["load_s"]) for piece in pieces if piece.key[0] == "load"]
    passes = [piece for piece in pieces if piece.key[0] == "memory"]
    memory = [piece.data for piece in passes if piece.status == "ok"]
    peaks = [float(data["peak_bytes"]) for data in memory]
    over = [float(data["peak_bytes"] - data["baseline_bytes"]) for data in memory]
    notes = [data["note"] for data in memory if data.get("note")] + [piece.message for piece in passes if piece.message]
    note = notes[0] if notes else ""
    return {
        "load_time": _per_process(loads, "s"),
        "peak_host_bytes": _per_process(peaks, "B", note),
        "peak_host_over_baseline_bytes": _per_process(over, "B", note),
    }


def _per_process(values: Sequence[float], unit: str, note: str = "") -> Estimate:
    if not values:
        return Estimate(None, unit=unit, note=note or "no process completed")
    return (
        cluster_mean(values, range(len(values)), unit=unit, positive=True)
        if len(values) > 1
        else Estimate(values[0], n=1, unit=unit, note=note or "one process: no interval")
    )


class _Percentiles:
    """Percentiles of a value of each item of each stream, with intervals over utterances."""

    def __init__(self, items: Sequence[tuple[Stream, Sequence[Any]]], seed: int) -> None:
        self._items, self._seed = items, seed

    def __call__(self, name: str, value: Callable[[Any], float | None]) -> dict[str, Estimate]:
        values, clusters, rounds = _values(self._items, value)
        estimates = cluster_percentiles(values, clusters, PERCENTILES, rounds=rounds, seed=self._seed, unit="s")
        return {f"{name}_p{round(100 * p)}": estimate for p, estimate in estimates.items()}


def _mean(
    items: Sequence[tuple[Stream, Sequence[Any]]], value: Callable[[Any], float | None], seed: int, unit: str = "s"
) -> Estimate:
    values, clusters, rounds = _values(items, value)
    return cluster_mean(values, clusters, rounds=rounds, seed=seed, unit=unit)


def _values(
    items: Sequence[tuple[Stream, Sequence[Any]]], value: Callable[[Any], float | None]
) -> tuple[list[float], list[str], list[int]]:
    rows = [
        (number, stream.utterance.id, stream.round)
        for stream, parts in items
        for part in parts
        if (number := value(part)) is not None
    ]
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def _labels(streams: Iterable[Stream]) -> tuple[list[str], list[int]]:
    pairs = [(stream.utterance.id, stream.round) for stream in streams]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
