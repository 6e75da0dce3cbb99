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
from stopwav.stats import UNDECIDED, Estimate, cluster_mean, cluster_percentiles, cluster_ratio, inverse, side_of
from stopwav.studies.error_rates import error_rates, is_by_character
from stopwav.studies.latency.chunk_definitions import NO_ENDPOINT, REMOTE_CODE, REMOTE_NOTE
from stopwav.studies.stream_facts import StreamFacts
from stopwav.studies.stream_table import StreamTable

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
    metrics |= _Percentiles(table, chunks.stream, seed)("send_lateness", chunks.start_s - chunks.due_s)
    known = np.flatnonzero(np.isfinite(network_s))
    if not known.size:
        return metrics | {"network": WITHOUT_PING}
    return metrics | {"network": _Percentiles(table, known, seed).mean(network_s[known])}


def _chunk_metrics(table: StreamTable, seed: int) -> dict[str, Estimate]:
    """Chunk latency, queue, compute and the stages, each over the chunks with audio."""
    chunks, chosen = table.chunks, table.chunks.with_audio
    percentiles = _Percentiles(table, chunks.stream[chosen], seed)
    lag_s = (chunks.done_s - chunks.due_s)[chosen]
    metrics = percentiles("chunk_lag", lag_s)
    metrics |= percentiles("queue", (chunks.start_s - chunks.due_s)[chosen])
    metrics |= percentiles("service", (chunks.done_s - chunks.start_s)[chosen])
    for path, seconds in chunks.stages.items():
        metrics |= percentiles(_stage_metric(path), seconds[chosen])
    if "features_p95" in metrics and "copy_p95" not in metrics:
        # An engine that marks its stages and copies nothing spends no time on it: a zero, and not a gap.
        metrics |= percentiles("copy", np.zeros(lag_s.size))
    assert table.algorithm_s is not None
    longest, mean = algorithmic_latency(*table.algorithm_s)
    metrics |= percentiles("longest_wait", longest + lag_s)
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


def _word_metrics(table: StreamTable, seed: int) -> dict[str, Estimate]:
    """Delays of the reference words that were recognised, and the share of each cause, over streams with word times."""
    words, shown, stable = table.words, table.words.shown, table.words.stable
    of_shown = _Percentiles(table, words.stream[shown], seed)
    of_stable = _Percentiles(table, words.stream[stable], seed)
    stabilisation_s = words.stable_s - words.shown_s
    metrics = of_shown("word_latency", words.latency_s[shown])
    metrics |= of_stable("stabilisation", stabilisation_s[stable])
    metrics |= of_stable("committed_latency", words.committed_s[stable])
    metrics["word_latency_mean"] = of_shown.mean(words.latency_s[shown])
    for part in WATERFALL:
        metrics[f"waterfall_{part}"] = of_shown.mean(words.parts[part][shown])
    if table.network_s is not None and not np.isfinite(table.network_s).any():
        # Unknown, and not a zero: it is in the server's part.
        metrics["waterfall_network"] = WITHOUT_PING
    shares = {
        "waiting": sum(words.parts[part] for part in WAITING),
        "queue": words.parts["queue"],
        "computing": sum(words.parts[part] for part in COMPUTING),
        "server": sum(words.parts[part] for part in REMOTE),
        "stabilisation": stabilisation_s,
    }
    for name, seconds in shares.items():
        metrics[f"share_{name}"] = _share(table, np.asarray(seconds), seed)
    return metrics


def _share(table: StreamTable, parts_s: Floats, seed: int) -> Estimate:
    """Σ part / Σ committed latency."""
    words, stable = table.words, table.words.stable
    timed = table.word_count > 0
    parts, totals = (
        table.sum_by_stream(seconds[stable], words.stream[stable])[timed] for seconds in (parts_s, words.committed_s)
    )
    if totals.sum() <= 0:
        return Estimate(None, note="words are committed before they end: there is no wait to divide")
    return cluster_ratio(parts, totals, table.utterance[timed], table.round[timed], seed=seed)


def _utterance_metrics(table: StreamTable, seed: int) -> dict[str, Estimate]:
    """Metrics with one value per stream: first partial, final text, lagging, backlog."""
    columns = dict(zip(StreamFacts._fields, np.array(table.facts, dtype=float).T, strict=True))
    metrics: dict[str, Estimate] = {}
    for name, values in columns.items():
        known = np.isfinite(values)
        of_streams = _Percentiles(table, np.flatnonzero(known), seed)
        if name == "endpoint_latency" and not known.any():
            silent = Estimate(None, unit="s", note="it does not say when an utterance is over", code=NO_ENDPOINT)
            metrics |= {f"{name}_p{round(100 * p)}": silent for p in PERCENTILES}
        elif name.startswith(("first", "final", "endpoint")):
            metrics |= of_streams(name, values[known])
        else:
            metrics[name] = of_streams.mean(values[known], "s/s" if name == "backlog_slope" else "s")
    return metrics


def _ratio_metrics(table: StreamTable, seed: int) -> dict[str, Estimate]:
    """Ratios of sums over streams."""
    every = np.ones(len(table), dtype=bool)
    final = np.array([len(text.committed_by) for text in table.texts])
    transcribed = np.array([text.errors is not None for text in table.texts], dtype=bool)
    words = [text.errors for text in table.texts if text.errors is not None]
    characters = [text.characters for text in table.texts if text.characters is not None]
    by_character = is_by_character(table.utterances)
    ratio = _Ratio(table, seed)
    rtf = ratio(table.service_s, table.audio_s, every, positive=True)
    metrics = {
        "rtf": rtf,
        "rtfx": inverse(rtf),
        **error_rates(words, characters, partial(ratio, chosen=transcribed), by_character=by_character),
        "upwr": ratio(np.array([text.unstable_words for text in table.texts]), final, every),
        "normalised_erasure": ratio(np.array([text.erased_words for text in table.texts]), final, every),
    }
    timed = table.word_count > 0
    recognised = np.bincount(table.words.stream[table.words.shown], minlength=len(table))
    share = ratio(recognised[timed], table.word_count[timed], timed)
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


class _Percentiles:
    """Percentiles and means of values that belong to streams, with intervals over utterances."""

    def __init__(self, table: StreamTable, streams: Integers, seed: int) -> None:
        self._clusters, self._rounds, self._seed = table.utterance[streams], table.round[streams], seed

    def __call__(self, name: str, values: Floats) -> dict[str, Estimate]:
        estimates = cluster_percentiles(
            values, self._clusters, PERCENTILES, rounds=self._rounds, seed=self._seed, unit="s"
        )
        return {f"{name}_p{round(100 * p)}": estimate for p, estimate in estimates.items()}

    def mean(self, values: Floats, unit: str = "s") -> Estimate:
        """Return the mean of the values."""
        return cluster_mean(values, self._clusters, rounds=self._rounds, seed=self._seed, unit=unit)


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
