"""How two latency runs, or two settings of one engine, are compared: by one value of each metric per round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress
from statistics import median

import numpy as np

from stopwav.piece import Piece
from stopwav.record import NO_TRANSCRIPT, UNTRAINED, WITHOUT_TRANSCRIPT, Record
from stopwav.speech.events import Floats, Integers
from stopwav.speech.latency import algorithmic_latency
from stopwav.stats import minimum_count, nearest_rank
from stopwav.studies.comparable import Comparable, ComparableItem, NoValue, RoundMetric
from stopwav.studies.definition import NO_SPACES, NO_WORDS
from stopwav.studies.engine_names import engine_names
from stopwav.studies.error_rates import CER, WER
from stopwav.studies.latency.chunk_definitions import REMOTE_CODE, REMOTE_NOTE
from stopwav.studies.latency.results import (
    INVALID,
    engine_pieces,
    is_untrained,
    late_sending,
    needs_transcript,
    rests_on_text,
)
from stopwav.studies.latency.stream_table import stream_tables
from stopwav.studies.stream_table import Flags, StreamTable

# The value of a metric in some streams of a table.
OfStreams = Callable[[StreamTable, Flags], float | NoValue]


@dataclass(frozen=True)
class ComparedEngine:
    """One engine of one run: its streams in the rounds that are complete, and the pieces of its processes."""

    table: StreamTable
    # The rounds that are complete.
    rounds: Sequence[int]
    processes: Sequence[Piece]
    # Rounds that stopped before their last utterance; they are not used.
    unfinished_rounds: int
    # Whether its weights are random, so that no metric that depends on its text has a value.
    untrained: bool = False
    # Of a run on a cluster, the machine of each stream, by its round and utterance.
    machines: Mapping[tuple[int, str], str] = field(default_factory=dict)

    @property
    def transcripts(self) -> dict[str, str | None]:
        """The transcripts of the utterances that completed in every round, None where they have none."""
        completed = [set(self.table.utterance[self.table.round == index].tolist()) for index in self.rounds]
        common = set.intersection(*completed) if completed else set()
        texts = enumerate(self.table.utterances.texts())
        return {name: text for position, (name, text) in texts if position in common}

    def streams(self, utterances: Collection[str] | None = None, rounds: Sequence[int] | None = None) -> Flags:
        """Return which streams are of the complete rounds, or of some of them, and of all or some utterances."""
        of_rounds: Flags = np.isin(self.table.round, list(self.rounds if rounds is None else rounds))
        if utterances is None:
            return of_rounds
        names = set(utterances)
        chosen: Flags = np.array([name in names for name in self.table.utterances.ids], dtype=bool)
        return np.logical_and(of_rounds, chosen[self.table.utterance])


def compared_engine(record: Record, name: str) -> ComparedEngine:
    """Return what a latency run holds of one engine."""
    table = stream_tables(record)[name]
    streamed: dict[int, int] = {}
    machines: dict[tuple[int, str], str] = {}
    processes = []
    for piece in engine_pieces(record, name):
        if piece.key[0] == "stream":
            streamed[int(piece.key[1])] = streamed.get(int(piece.key[1]), 0) + 1
            if piece.machine:
                machines[int(piece.key[1]), str(piece.key[3])] = piece.machine
        else:
            processes.append(piece)
    complete = [index for index, count in streamed.items() if count >= len(table.utterances)]
    return ComparedEngine(
        table,
        rounds=complete,
        processes=[piece for piece in processes if piece.key[1] in complete],
        unfinished_rounds=len(streamed) - len(complete),
        untrained=is_untrained(processes),
        machines=machines,
    )


def values_by_round(engine: ComparedEngine, metric: RoundMetric, utterances: set[str]) -> list[float] | NoValue:
    """Return the metric's value in each round over the given utterances, all above zero, or why it has none."""
    if engine.untrained and rests_on_text(metric.name):
        return NoValue(UNTRAINED, UNTRAINED)
    if needs_transcript(metric.name) and not utterances & _transcribed(engine.table):
        return NoValue(WITHOUT_TRANSCRIPT, NO_TRANSCRIPT)
    if engine.table.network_s is not None:
        if metric.name in _UNSEEN:
            return NoValue(REMOTE_NOTE, REMOTE_CODE)
        if note := late_sending(engine.table):
            return NoValue(note, INVALID)
    if metric.name in _OF_STREAMS:
        values = _of_rounds(engine, _OF_STREAMS[metric.name], utterances)
    else:
        values = _of_processes(engine.processes, metric.name)
    if not isinstance(values, NoValue) and min(values) <= 0:
        return NoValue("not above zero in every round, so there is no ratio")
    return values


def errors_by_utterance(
    engine: ComparedEngine, rate: str, utterances: Sequence[str]
) -> tuple[list[float], list[int]] | NoValue:
    """Return the word or character errors of each utterance with a transcript, mean over rounds, and its length."""
    if engine.untrained:
        return NoValue(UNTRAINED, UNTRAINED)
    if rate == WER and engine.table.utterances.normaliser.by_character:
        return NoValue(NO_WORDS, NO_SPACES)
    with_transcript = _transcribed(engine.table)
    errors: dict[str, list[int]] = {name: [] for name in utterances if name in with_transcript}
    if not errors:
        return NoValue(WITHOUT_TRANSCRIPT, NO_TRANSCRIPT)
    lengths = dict.fromkeys(errors, 0)
    for stream in np.flatnonzero(engine.streams(errors)).tolist():
        name = engine.table.utterances.ids[engine.table.utterance[stream]]
        wrong, lengths[name] = _error_count(engine.table, stream, rate)
        errors[name].append(wrong)
    return [sum(counts) / len(counts) for counts in errors.values()], list(lengths.values())


def _transcribed(table: StreamTable) -> set[str]:
    """The utterances that have a transcript."""
    return set(compress(table.utterances.ids, table.utterances.transcribed.tolist()))


def _error_count(table: StreamTable, stream: int, rate: str) -> tuple[int, int]:
    """The errors of a stream with a transcript, and its reference words or characters."""
    words, characters = table.texts[stream].errors, table.texts[stream].characters
    assert words is not None
    assert characters is not None
    return (words.errors, words.words) if rate == WER else (characters.errors, characters.characters)


def _items(record: Record) -> dict[str, ComparableItem]:
    return {name: _item(compared_engine(record, name)) for name in engine_names(record.header.spec["engines"])}


def _item(engine: ComparedEngine) -> ComparableItem:
    return ComparableItem(
        values=partial(values_by_round, engine),
        utterances=engine.transcripts,
        errors=partial(errors_by_utterance, engine),
        rounds=len(engine.rounds),
        unfinished_rounds=engine.unfinished_rounds,
    )


def _engine_settings(record: Record, name: str) -> dict[str, object]:
    """Precision, device and chunk size that an engine ran with, as far as the run knows them."""
    settings: dict[str, object] = {}
    for piece in engine_pieces(record, name):
        if piece.key[0] == "load" and "engine" in piece.data:
            engine = piece.data["engine"]
            settings.setdefault("precision", engine.get("precision"))
            settings.setdefault("device", engine.get("device"))
    algorithm_s = stream_tables(record)[name].algorithm_s
    if algorithm_s is not None:
        settings["chunk size"] = f"{1e3 * algorithm_s[0]:g} ms"
    return settings


def _of_rounds(engine: ComparedEngine, of_streams: OfStreams, utterances: set[str]) -> list[float] | NoValue:
    """The value in the streams of each round."""
    values: list[float] = []
    for index in engine.rounds:
        value = of_streams(engine.table, engine.streams(utterances, [index]))
        if isinstance(value, NoValue):
            return value
        values.append(value)
    return values or NoValue("no finished round")


def _of_processes(processes: Sequence[Piece], name: str) -> list[float] | NoValue:
    """Load time or peak memory: the median of a round's processes, of which there is one unless some died."""
    kind, field = ("load", "load_s") if name == "load_time" else ("memory", "peak_bytes")
    by_round: dict[int, list[float]] = {}
    for piece in processes:
        if piece.key[0] == kind and piece.status == "ok":
            by_round.setdefault(int(piece.key[1]), []).append(float(piece.data[field]))
    return [median(values) for values in by_round.values()] or NoValue(f"no {kind} completed")


def _percentile(p: float, values_of: Callable[[StreamTable], tuple[Floats, Integers]]) -> OfStreams:
    """The nearest rank over all values of a round; as in a report, only where they are enough."""

    def of_streams(table: StreamTable, chosen: Flags) -> float | NoValue:
        values, streams = values_of(table)
        values = values[chosen[streams] & np.isfinite(values)]
        if values.size < minimum_count(p):
            return NoValue(f"needs {minimum_count(p)} events per round, has {values.size}")
        return nearest_rank(values, p)

    return of_streams


def _rtf(table: StreamTable, chosen: Flags) -> float | NoValue:
    audio_s = float(table.audio_s[chosen].sum())
    return float(table.service_s[chosen].sum()) / audio_s if audio_s else NoValue("no audio")


def _word_latencies(table: StreamTable) -> tuple[Floats, Integers]:
    return table.words.latency_s, table.words.stream


def _committed_latencies(table: StreamTable) -> tuple[Floats, Integers]:
    return table.words.committed_s, table.words.stream


def _final_latencies(table: StreamTable) -> tuple[Floats, Integers]:
    return table.fact("final_latency"), np.arange(len(table))


def _chunk_lags(table: StreamTable) -> tuple[Floats, Integers]:
    return table.chunks.lag_s(), np.repeat(np.arange(len(table)), table.chunks.audio_sizes)


def _longest_waits(table: StreamTable) -> tuple[Floats, Integers]:
    lags_s, streams = _chunk_lags(table)
    return algorithmic_latency(*(table.algorithm_s or (0.0, 0.0)))[0] + lags_s, streams


# What is not visible behind a protocol: of its chunks a trace has how late we sent them, and of processes our client.
_UNSEEN = frozenset(
    {
        "chunk_lag_p50",
        "chunk_lag_p95",
        "rtf",
        "longest_wait_p95",
        "longest_wait_p50",
        "load_time",
        "peak_host_bytes",
    }
)
# How the streams of a round give a metric; the others are measured once per process.
_OF_STREAMS: dict[str, OfStreams] = {
    "word_latency_p50": _percentile(0.50, _word_latencies),
    "word_latency_p95": _percentile(0.95, _word_latencies),
    "committed_latency_p50": _percentile(0.50, _committed_latencies),
    "final_latency_p50": _percentile(0.50, _final_latencies),
    "chunk_lag_p50": _percentile(0.50, _chunk_lags),
    "chunk_lag_p95": _percentile(0.95, _chunk_lags),
    "rtf": _rtf,
    # For settings of one engine: the wait including the algorithm's part. `diff` does not need it, as it compares no
    # runs with different chunks.
    "longest_wait_p95": _percentile(0.95, _longest_waits),
    "longest_wait_p50": _percentile(0.50, _longest_waits),
}
COMPARABLE = Comparable(
    noun="engine",
    # What a listener feels, the machine's speed, and memory. Few on purpose: every further metric makes each verdict
    # stricter, and compute, queue and stages all show in chunk latency and real-time factor.
    metrics=(
        RoundMetric("word_latency_p50", "s", "time"),
        RoundMetric("word_latency_p95", "s", "time"),
        RoundMetric("committed_latency_p50", "s", "time"),
        RoundMetric("final_latency_p50", "s", "time"),
        RoundMetric("chunk_lag_p50", "s", "time"),
        RoundMetric("chunk_lag_p95", "s", "time"),
        RoundMetric("rtf", "", "time"),
        RoundMetric("load_time", "s", "time"),
        RoundMetric("peak_host_bytes", "B", "size"),
    ),
    items=_items,
    settings=lambda record: {"pace": record.header.spec.get("pace")},
    item_settings=_engine_settings,
    model_settings=("precision", "device", "chunk size"),
    races=True,
    # It counts from the end of a chunk.
    bound_metrics={"chunk size": ("chunk_lag_p50", "chunk_lag_p95")},
    error_rates=(WER, CER),
)
