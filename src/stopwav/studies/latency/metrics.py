"""The metrics of one engine's streams: every streaming metric with its interval, from the recorded traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stopwav.piece import Piece
from stopwav.record import NO_TRANSCRIPT, UNTRAINED
from stopwav.speech.events import Floats, Integers
from stopwav.speech.latency import algorithmic_latency
from stopwav.speech.waterfall import STAGES, WATERFALL
from stopwav.stats import (
    UNDECIDED,
    Estimate,
    cluster_mean,
    cluster_percentiles,
    cluster_ratio,
    cluster_ratios,
    inverse,
    side_of,
)
from stopwav.studies.error_rates import error_rates
from stopwav.studies.latency.chunk_definitions import NO_ENDPOINT, REMOTE_CODE, REMOTE_NOTE
from stopwav.studies.stream_facts import StreamFacts
from stopwav.studies.stream_table import Flags, PartSums, StreamTable

# Half the listeners, and the one in ten, twenty or a hundred who waits longest.
PERCENTILES = (0.50, 0.90, 0.95, 0.99)
WAITING = ("buffering", "lookahead", "emission")
COMPUTING = (*STAGES, "other")
REMOTE = ("network", "server")
# The code of what follows from the settings or from other metrics, and has no interval of its own.
BY_DEFINITION = "by-definition"
# The codes for which a cell, or the definition of its metric, says why there is no number or interval.
SAID = (UNTRAINED, NO_TRANSCRIPT, BY_DEFINITION)
# The network of a protocol by which no round trip can be measured.
WITHOUT_PING = Estimate(
    None, unit="s", note="the protocol has no ping: the network is part of the server's time", code=REMOTE_CODE
)
# Metrics of chunks, and of what they take, which only a process of ours has.
_LOCAL = ("chunk_lag", "queue", "service", "other", "longest_wait")


def stream_metrics(table: StreamTable, seed: int) -> dict[str, Estimate]:
    """Return the metrics of streams: of chunks, words, utterances, and ratios of sums."""
    metrics = {
        **(_chunk_metrics(table, seed) if table.network_s is None else _send_metrics(table, table.network_s, seed)),
        **_word_metrics(table, seed),
        **_utterance_metrics(table, seed),
        **_ratio_metrics(table, seed),
    }
    if table.network_s is not None:
        hidden = {name: unseen(metrics[name].unit) for name in ("rtf", "rtfx", "backlog_slope")}
        return {**metrics, **hidden, "keeps_up": unseen("bool")}
    return {**metrics, "keeps_up": keeps_up(metrics["rtf"], metrics["backlog_slope"])}


def unseen(unit: str) -> Estimate:
    """Return the place of a number that cannot be seen through a protocol."""
    return Estimate(None, unit=unit, note=REMOTE_NOTE, code=REMOTE_CODE)


def _send_metrics(table: StreamTable, network_s: Floats, seed: int) -> dict[str, Estimate]:
    """How late we sent chunks, and half of a round trip; what chunks took is not visible behind a protocol."""
    chunks = table.chunks
    metrics = {f"{name}_p{round(100 * p)}": unseen("s") for name in _LOCAL for p in PERCENTILES}
    metrics |= {name: unseen("s") for name in ("algorithmic_latency", "algorithmic_latency_mean", "sum_of_p95s")}
    metrics |= _percentiles(table, "send_lateness", chunks.send_lateness_s(), chunks.sizes, seed)
    known = np.isfinite(network_s)
    if not known.any():
        return metrics | {"network": WITHOUT_PING}
    return metrics | {"network": _mean(table, network_s, known, seed)}


def _chunk_metrics(table: StreamTable, seed: int) -> dict[str, Estimate]:
    """Chunk latency, queue, compute and the stages, each over the chunks with audio."""
    chunks, sizes = table.chunks, table.chunks.audio_sizes
    metrics: dict[str, Estimate] = {}
    metrics |= _percentiles(table, "chunk_lag", chunks.lag_s(), sizes, seed)
    metrics |= _percentiles(table, "queue", chunks.queue_s(), sizes, seed)
    metrics |= _percentiles(table, "service", chunks.service_s(), sizes, seed)
    for path in chunks.paths:
        metrics |= _percentiles(table, _stage_metric(path), chunks.stage_s(path), sizes, seed)
    if "features_p95" in metrics and "copy_p95" not in metrics:
        # An engine that marks its stages and copies nothing spends no time on it: a zero, and not a gap.
        metrics |= _percentiles(table, "copy", np.zeros(int(sizes.sum())), sizes, seed)
    assert table.algorithm_s is not None
    longest, mean = algorithmic_latency(*table.algorithm_s)
    metrics |= {
        f"longest_wait_p{round(100 * p)}": _later(metrics[f"chunk_lag_p{round(100 * p)}"], longest) for p in PERCENTILES
    }
    metrics["algorithmic_latency"] = _exact(longest, "chunk + look-ahead, by definition")
    metrics["algorithmic_latency_mean"] = _exact(mean, "chunk / 2 + look-ahead, by definition")
    metrics["sum_of_p95s"] = _sum_of_p95s(metrics)
    return metrics


def _later(estimate: Estimate, by_s: float) -> Estimate:
    """The percentile of times that are all so much longer."""
    value, low, high = (None if s is None else s + by_s for s in (estimate.value, estimate.low, estimate.high))
    return replace(estimate, value=value, low=low, high=high)


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


def _word_metrics(table: StreamTable, seed: int) -> dict[str, Estimate]:
    """Delays of the reference words that were recognised, and the share of each cause, over streams with word times."""
    words, shown, stable = table.words, table.words.shown, table.words.stable
    shown_counts, stable_counts = words.count(shown), words.count(stable)
    # One at a time: each value of all words of a corpus takes tens of megabytes.
    metrics = _percentiles(table, "word_latency", words.latency_s[shown], shown_counts, seed)
    metrics |= _percentiles(table, "stabilisation", words.stabilisation_s[stable], stable_counts, seed)
    metrics |= _percentiles(table, "committed_latency", words.committed_s[stable], stable_counts, seed)
    least = float(words.latency_s.min(initial=np.inf, where=shown))
    whole = PartSums(words.sum_by_stream(words.latency_s, shown), words.sum_by_stream(words.latency_s, stable), least)
    means = {"word_latency_mean": whole, **{f"waterfall_{part}": words.parts[part] for part in WATERFALL}}
    metrics |= _word_means(table, means, shown_counts, seed)
    if table.network_s is not None and not np.isfinite(table.network_s).any():
        # Unknown, and not a zero: it is in the server's part.
        metrics["waterfall_network"] = WITHOUT_PING
    stable_sums = {part: sums.stable for part, sums in words.parts.items()}
    shares = {
        "waiting": np.sum([stable_sums[part] for part in WAITING], axis=0),
        "queue": stable_sums["queue"],
        "computing": np.sum([stable_sums[part] for part in COMPUTING], axis=0),
        "server": np.sum([stable_sums[part] for part in REMOTE], axis=0),
        "stabilisation": words.sum_by_stream(words.stabilisation_s, stable),
    }
    return metrics | _shares(table, shares, words.sum_by_stream(words.committed_s, stable), seed)


def _word_means(table: StreamTable, sums: Mapping[str, PartSums], counts: Integers, seed: int) -> dict[str, Estimate]:
    """The means over the words that were shown, from their sums by stream."""
    known = counts > 0
    labels = table.utterance[known], table.round[known]
    tops, least = [own.shown[known] for own in sums.values()], [own.least for own in sums.values()]
    estimates = cluster_ratios(tops, counts[known], *labels, seed, "s", n=int(counts.sum()), least=least)
    return dict(zip(sums, estimates, strict=True))


def _shares(
    table: StreamTable, parts_s: Mapping[str, NDArray[np.float64]], committed_s: Floats, seed: int
) -> dict[str, Estimate]:
    """Σ part / Σ committed latency."""
    timed = table.words.sizes > 0
    totals = committed_s[timed]
    if totals.sum() <= 0:
        nothing = Estimate(None, note="words are committed before they end: there is no wait to divide")
        return {f"share_{name}": nothing for name in parts_s}
    tops = [seconds[timed] for seconds in parts_s.values()]
    shares = cluster_ratios(tops, totals, table.utterance[timed], table.round[timed], seed)
    return {f"share_{name}": share for name, share in zip(parts_s, shares, strict=True)}


def _utterance_metrics(table: StreamTable, seed: int) -> dict[str, Estimate]:
    """Metrics with one value per stream: first partial, final text, lagging, backlog."""
    metrics: dict[str, Estimate] = {}
    for name in StreamFacts._fields:
        values = table.fact(name)
        known = np.isfinite(values)
        if name == "endpoint_latency" and not known.any():
            silent = Estimate(None, unit="s", note="it does not say when an utterance is over", code=NO_ENDPOINT)
            metrics |= {f"{name}_p{round(100 * p)}": silent for p in PERCENTILES}
        elif name.startswith(("first", "final", "endpoint")):
            metrics |= _percentiles(table, name, values[known], known.astype(np.int64), seed)
        else:
            metrics[name] = _mean(table, values, known, seed, "s/s" if name == "backlog_slope" else "s")
    return metrics


def _ratio_metrics(table: StreamTable, seed: int) -> dict[str, Estimate]:
    """Ratios of sums over streams."""
    every = np.ones(len(table), dtype=bool)
    final = np.array([text.final_words for text in table.texts])
    words = [text.errors for text in table.texts if text.errors is not None]
    characters = [text.characters for text in table.texts if text.characters is not None]
    by_character = table.utterances.normaliser.by_character
    ratio = _Ratio(table, seed)
    rtf = ratio(table.service_s, table.audio_s, every, positive=True)
    metrics = {
        "rtf": rtf,
        "rtfx": inverse(rtf),
        **error_rates(words, characters, partial(ratio, chosen=table.transcribed), by_character=by_character),
        "upwr": ratio(np.array([text.unstable_words for text in table.texts]), final, every),
        "normalised_erasure": ratio(np.array([text.erased_words for text in table.texts]), final, every),
    }
    timed = table.words.sizes > 0
    share = ratio(table.words.count(table.words.shown)[timed], table.words.sizes[timed], timed)
    metrics["words_recognised"] = replace(share, high=None if share.high is None else min(1.0, share.high))
    return metrics


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


def _percentiles(table: StreamTable, name: str, values: Floats, sizes: Integers, seed: int) -> dict[str, Estimate]:
    """The percentiles of values of which each stream has so many, with intervals over utterances."""
    labels, chosen = (table.utterance, table.round), sizes > 0
    clusters, rounds = (own[chosen] for own in labels)
    estimates = cluster_percentiles(values, clusters, PERCENTILES, rounds, seed, "s", sizes[chosen])
    return {f"{name}_p{round(100 * p)}": estimate for p, estimate in estimates.items()}


def _mean(table: StreamTable, values: Floats, known: Flags, seed: int, unit: str = "s") -> Estimate:
    """The mean of one value per stream, of the streams where it is known."""
    return cluster_mean(values[known], table.utterance[known], table.round[known], seed, unit)


class _Ratio:
    """The ratio of two sums over streams, with its interval over utterances."""

    def __init__(self, table: StreamTable, seed: int) -> None:
        self._table, self._seed = table, seed

    def __call__(
        self,
        top: NDArray[np.number],
        bottom: NDArray[np.number],
        chosen: NDArray[np.bool_],
        *,
        positive: bool = False,
    ) -> Estimate:
        clusters, rounds = self._table.utterance[chosen], self._table.round[chosen]
        return cluster_ratio(top, bottom, clusters, rounds, seed=self._seed, positive=positive)
