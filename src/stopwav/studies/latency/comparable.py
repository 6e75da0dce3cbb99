"""One value of each metric per round of an engine: what runs and settings are compared by.

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
from stopwav.stats.change import Question, Sort, ask_errors, ask_nothing
from stopwav.studies.corpus_header import utterance_from_json
from stopwav.studies.latency.metrics import Stream, streams_of
from stopwav.studies.latency.results import is_untrained, rests_on_text


@dataclass(frozen=True)
class NoValue:
    """Why there is no value, for people and as a code."""

    reason: str
    code: str = ""


OfStreams = Callable[[Sequence[Stream]], float | NoValue]


@dataclass(frozen=True)
class Metric:
    """A metric that runs are compared by: its name in results, its unit, and of what sort it is."""

    name: str
    unit: str
    sort: Sort
    # Its value in the streams of a round; None for what is measured once per process.
    of_streams: OfStreams | None = None


@dataclass(frozen=True)
class ComparedEngine:
    """One engine of one run: its streams in the rounds that are complete, and the pieces of its processes."""

    rounds: dict[int, list[Stream]]
    processes: list[Piece]
    utterances: dict[str, Utterance]
    # The number of rounds that stopped before their last utterance; they are not used.
    torn: int
    # Whether its weights are random, so that no metric that depends on its text has a value.
    untrained: bool = False

    @property
    def sound(self) -> set[str]:
        """The utterances that completed in every round."""
        each = [{stream.utterance.id for stream in streams} for streams in self.rounds.values()]
        return set.intersection(*each) if each else set()


def side_of(record: Record, name: str) -> ComparedEngine:
    """Return what a latency run holds of one engine."""
    utterances = {fields["id"]: utterance_from_json(fields) for fields in record.header.corpus["utterances"]}
    by_round: dict[int, list[Piece]] = {}
    processes = []
    for piece in record.pieces:
        if piece.key[2] == name and piece.key[0] == "stream":
            by_round.setdefault(int(piece.key[1]), []).append(piece)
        elif piece.key[2] == name:
            processes.append(piece)
    whole = {index: pieces for index, pieces in by_round.items() if len(pieces) >= len(utterances)}
    return ComparedEngine(
        rounds={index: streams_of(pieces, utterances) for index, pieces in whole.items()},
        processes=[piece for piece in processes if piece.key[1] in whole],
        utterances=utterances,
        torn=len(by_round) - len(whole),
        untrained=is_untrained(processes),
    )


def values_by_round(engine: ComparedEngine, metric: Metric, utterances: set[str]) -> list[float] | NoValue:
    """Return the metric's value in each round over the given utterances, all above zero, or why it has none."""
    if engine.untrained and rests_on_text(metric.name):
        return NoValue(UNTRAINED, UNTRAINED)
    if metric.of_streams is None:
        values = _of_processes(engine.processes, metric.name)
    else:
        values = _of_rounds(engine, metric.of_streams, utterances)
    if not isinstance(values, NoValue) and min(values) <= 0:
        return NoValue("not above zero in every round, so there is no ratio")
    return values


def common_utterances(a: ComparedEngine, b: ComparedEngine) -> list[str]:
    """Return the utterances that completed in every round of both, with the same transcript, in the order of a."""
    sound = a.sound & b.sound
    return [name for name in a.utterances if name in sound and a.utterances[name].text == b.utterances[name].text]


def ask_wer(a: ComparedEngine, b: ComparedEngine, utterances: Sequence[str], threshold: float) -> Question:
    """Return the question whether the word error rates differ, paired by utterance."""
    if a.untrained or b.untrained:
        return ask_nothing(WER, "", threshold, UNTRAINED, UNTRAINED)
    errors_a, words = errors_by_utterance(a, utterances)
    errors_b, _ = errors_by_utterance(b, utterances)
    return ask_errors(WER, errors_a, errors_b, words, threshold)


def errors_by_utterance(engine: ComparedEngine, utterances: Sequence[str]) -> tuple[list[float], list[int]]:
    """Return the word errors of each utterance, as a mean over rounds, and its reference words."""
    errors: dict[str, list[int]] = {name: [] for name in utterances}
    words = dict.fromkeys(utterances, 0)
    for stream in (stream for streams in engine.rounds.values() for stream in streams):
        if stream.utterance.id in errors:
            errors[stream.utterance.id].append(stream.errors.errors)
            words[stream.utterance.id] = stream.errors.words
    return [sum(errors[name]) / len(errors[name]) for name in utterances], [words[name] for name in utterances]


def _of_rounds(engine: ComparedEngine, of_streams: OfStreams, utterances: set[str]) -> list[float] | NoValue:
    """The value in the streams of each round."""
    values: list[float] = []
    for streams in engine.rounds.values():
        value = of_streams([stream for stream in streams if stream.utterance.id in utterances])
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


def _percentile(p: float, values_of: Callable[[Stream], Iterable[float | None]]) -> OfStreams:
    """The nearest rank over all values of a round; as in a report, only where they are enough."""

    def of_streams(streams: Sequence[Stream]) -> float | NoValue:
        values = [value for stream in streams for value in values_of(stream) if value is not None]
        if len(values) < minimum_count(p):
            return NoValue(f"needs {minimum_count(p)} events per round, has {len(values)}")
        return nearest_rank(values, p)

    return of_streams


def _rtf(streams: Sequence[Stream]) -> float | NoValue:
    audio_s = sum(stream.trace.audio_s for stream in streams)
    service_s = sum(chunk.service_s for stream in streams for chunk in stream.trace.chunks)
    return service_s / audio_s if audio_s else NoValue("no audio")


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
# What a listener feels, the machine's speed, and memory. Few on purpose: every further metric makes each verdict
# stricter, and compute, queue and stages all show in chunk latency and real-time factor.
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
# For settings of one engine: the wait including the algorithm's part. `diff` does not need it, as it compares no runs
# with different chunks.
WAITS = (
    Metric("longest_wait_p95", "s", "time", _percentile(0.95, _longest_waits)),
    Metric("longest_wait_p50", "s", "time", _percentile(0.50, _longest_waits)),
)

# The names that `diff` imports.
Missing, Side = NoValue, ComparedEngine
