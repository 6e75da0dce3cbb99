"""One value of each metric per round of an engine: what two saved runs are compared by.

Rounds are fresh processes and independent of each other, chunks and words are not; so a round gives one value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from stopwav.record import UNTRAINED, Piece, Record
from stopwav.speech.corpus import Utterance
from stopwav.speech.latency import algorithmic_latency, final_latency
from stopwav.stats import minimum_count, nearest_rank
from stopwav.stats.change import Quantity
from stopwav.studies.corpus_header import utterance_from_json
from stopwav.studies.latency.results import Stream, streams_of
from stopwav.studies.untrained import is_untrained, rests_on_text


@dataclass(frozen=True)
class Missing:
    """Why there is no value."""

    reason: str


OfStreams = Callable[[Sequence[Stream]], float | Missing]


@dataclass(frozen=True)
class Metric:
    """A metric that runs are compared by: its name in results, its unit, and what more of it is called."""

    name: str
    unit: str
    sort: Quantity
    # How a round's streams give it; None for what is taken once a process.
    of_streams: OfStreams | None = None


@dataclass(frozen=True)
class Side:
    """One engine of one run: its streams in the rounds that were finished, and its processes' pieces."""

    rounds: dict[int, list[Stream]]
    processes: list[Piece]
    utterances: dict[str, Utterance]
    # Rounds that stopped before their last utterance; they are not used.
    torn: int
    # Whether the engine's weights are random, so that nothing that rests on its texts has a value.
    untrained: bool = False

    @property
    def sound(self) -> set[str]:
        """The utterances that went well in every round."""
        each = [{stream.utterance.id for stream in streams} for streams in self.rounds.values()]
        return set.intersection(*each) if each else set()


def side_of(record: Record, name: str) -> Side:
    """What a latency run holds of one engine."""
    utterances = {fields["id"]: utterance_from_json(fields) for fields in record.header.corpus["utterances"]}
    by_round: dict[int, list[Piece]] = {}
    processes = []
    for piece in record.pieces:
        if piece.key[2] == name and piece.key[0] == "stream":
            by_round.setdefault(int(piece.key[1]), []).append(piece)
        elif piece.key[2] == name:
            processes.append(piece)
    whole = {index: pieces for index, pieces in by_round.items() if len(pieces) >= len(utterances)}
    return Side(
        rounds={index: streams_of(pieces, utterances) for index, pieces in whole.items()},
        processes=[piece for piece in processes if piece.key[1] in whole],
        utterances=utterances,
        torn=len(by_round) - len(whole),
        untrained=is_untrained(processes),
    )


def values_by_round(side: Side, metric: Metric, utterances: set[str]) -> list[float] | Missing:
    """The metric's value in each round over the given utterances, or why it has none; all are above zero."""
    if side.untrained and rests_on_text(metric.name):
        return Missing(UNTRAINED)
    found = _of_processes(side.processes, metric.name)
    if metric.of_streams is not None:
        found = _of_rounds(side, metric.of_streams, utterances)
    if not isinstance(found, Missing) and min(found) <= 0:
        return Missing("not above zero in every round, so there is no ratio")
    return found


def errors_by_utterance(side: Side, utterances: Sequence[str]) -> tuple[list[float], list[int]]:
    """The word errors of each utterance, their mean over rounds, and its reference words."""
    errors: dict[str, list[int]] = {name: [] for name in utterances}
    words = dict.fromkeys(utterances, 0)
    for stream in (stream for streams in side.rounds.values() for stream in streams):
        if stream.utterance.id in errors:
            errors[stream.utterance.id].append(stream.errors.errors)
            words[stream.utterance.id] = stream.errors.words
    return [sum(errors[name]) / len(errors[name]) for name in utterances], [words[name] for name in utterances]


def _of_rounds(side: Side, of_streams: OfStreams, utterances: set[str]) -> list[float] | Missing:
    """What the streams of each round give."""
    found: list[float] = []
    for streams in side.rounds.values():
        value = of_streams([stream for stream in streams if stream.utterance.id in utterances])
        if isinstance(value, Missing):
            return value
        found.append(value)
    return found or Missing("no finished round")


def _of_processes(processes: Sequence[Piece], name: str) -> list[float] | Missing:
    """Load time or peak memory: the median of a round's processes, of which there is one unless some died."""
    kind, field = ("load", "load_s") if name == "load_time" else ("memory", "peak_bytes")
    by_round: dict[int, list[float]] = {}
    for piece in processes:
        if piece.key[0] == kind and piece.status == "ok":
            by_round.setdefault(int(piece.key[1]), []).append(float(piece.data[field]))
    return [median(values) for values in by_round.values()] or Missing(f"no {kind} went well")


def _percentile(p: float, values_of: Callable[[Stream], Iterable[float | None]]) -> OfStreams:
    """The nearest rank over all values of a round; as in a report, only where there are enough of them."""

    def of_streams(streams: Sequence[Stream]) -> float | Missing:
        values = [value for stream in streams for value in values_of(stream) if value is not None]
        if len(values) < minimum_count(p):
            return Missing(f"needs {minimum_count(p)} events a round, has {len(values)}")
        return nearest_rank(values, p)

    return of_streams


def _rtf(streams: Sequence[Stream]) -> float | Missing:
    audio_s = sum(stream.trace.audio_s for stream in streams)
    service_s = sum(chunk.service_s for stream in streams for chunk in stream.trace.chunks)
    return service_s / audio_s if audio_s else Missing("no audio")


def _word_latencies(stream: Stream) -> Iterable[float | None]:
    return (delay.latency_s for delay in stream.delays)


def _committed_latencies(stream: Stream) -> Iterable[float | None]:
    return (delay.committed_s for delay in stream.delays)


def _final_latencies(stream: Stream) -> Iterable[float | None]:
    return (final_latency(stream.trace, stream.utterance.words)[0],)


def _chunk_lags(stream: Stream) -> Iterable[float | None]:
    return (chunk.lag_s for chunk in stream.trace.chunks[:-1])


def _longest_waits(stream: Stream) -> Iterable[float | None]:
    longest_s, _ = algorithmic_latency(stream.trace.chunk_s, stream.trace.lookahead_s)
    return (longest_s + chunk.lag_s for chunk in stream.trace.chunks[:-1])


WER = "wer"
# What a listener feels, what the machine does, what it holds. Few on purpose: every further metric makes each verdict
# stricter, and service, queue and stages all show in chunk lag and real-time factor.
METRICS = (
    Metric("word_latency_p50", "s", "time", _percentile(0.50, _word_latencies)),
    Metric("word_latency_p95", "s", "time", _percentile(0.95, _word_latencies)),
    Metric("committed_latency_p50", "s", "time", _percentile(0.50, _committed_latencies)),
    Metric("final_latency_p50", "s", "time", _percentile(0.50, _final_latencies)),
    Metric("chunk_lag_p50", "s", "time", _percentile(0.50, _chunk_lags)),
    Metric("chunk_lag_p95", "s", "time", _percentile(0.95, _chunk_lags)),
    Metric("rtf", "", "time", _rtf),
    Metric("load_time", "s", "time"),
    Metric("peak_host_bytes", "B", "size"),
)
METRIC_NAMES = (*(metric.name for metric in METRICS), WER)
# What settings of one engine are compared by: the wait with the algorithm's own part, which `diff` need not ask for,
# as runs with other chunks are not comparable there.
WAITS = (
    Metric("longest_wait_p95", "s", "time", _percentile(0.95, _longest_waits)),
    Metric("longest_wait_p50", "s", "time", _percentile(0.50, _longest_waits)),
)
