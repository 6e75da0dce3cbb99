"""How two latency runs, or two settings of one engine, are compared: by one value of each metric per round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from stopwav.record import NO_TRANSCRIPT, UNTRAINED, WITHOUT_TRANSCRIPT, Piece, Record
from stopwav.speech.latency import algorithmic_latency, final_latency
from stopwav.speech.utterance import Utterance
from stopwav.stats import minimum_count, nearest_rank
from stopwav.studies.comparable import Comparable, ComparableItem, NoValue, RoundMetric
from stopwav.studies.corpus_header import engine_names, utterance_from_json
from stopwav.studies.latency.metrics import Stream, streams_of
from stopwav.studies.latency.results import is_untrained, needs_transcript, rests_on_text

OfStreams = Callable[[Sequence[Stream]], float | NoValue]

WER, CER = "wer", "cer"


@dataclass(frozen=True)
class ComparedEngine:
    """One engine of one run: its streams in the rounds that are complete, and the pieces of its processes."""

    rounds: Mapping[int, list[Stream]]
    processes: Sequence[Piece]
    utterances: Mapping[str, Utterance]
    # Rounds that stopped before their last utterance; they are not used.
    unfinished_rounds: int
    # Whether its weights are random, so that no metric that depends on its text has a value.
    untrained: bool = False

    @property
    def transcripts(self) -> dict[str, str | None]:
        """The transcripts of the utterances that completed in every round, None where they have none."""
        completed = [{stream.utterance.id for stream in streams} for streams in self.rounds.values()]
        common = set.intersection(*completed) if completed else set()
        return {name: utterance.text for name, utterance in self.utterances.items() if name in common}


def compared_engine(record: Record, name: str) -> ComparedEngine:
    """Return what a latency run holds of one engine."""
    utterances = {fields["id"]: utterance_from_json(fields) for fields in record.header.corpus["utterances"]}
    by_round: dict[int, list[Piece]] = {}
    processes = []
    for piece in record.pieces:
        if piece.key[2] == name and piece.key[0] == "stream":
            by_round.setdefault(int(piece.key[1]), []).append(piece)
        elif piece.key[2] == name:
            processes.append(piece)
    complete = {index: pieces for index, pieces in by_round.items() if len(pieces) >= len(utterances)}
    return ComparedEngine(
        rounds={index: streams_of(pieces, utterances) for index, pieces in complete.items()},
        processes=[piece for piece in processes if piece.key[1] in complete],
        utterances=utterances,
        unfinished_rounds=len(by_round) - len(complete),
        untrained=is_untrained(processes),
    )


def values_by_round(engine: ComparedEngine, metric: RoundMetric, utterances: set[str]) -> list[float] | NoValue:
    """Return the metric's value in each round over the given utterances, all above zero, or why it has none."""
    if engine.untrained and rests_on_text(metric.name):
        return NoValue(UNTRAINED, UNTRAINED)
    if needs_transcript(metric.name) and all(engine.utterances[name].text is None for name in utterances):
        return NoValue(WITHOUT_TRANSCRIPT, NO_TRANSCRIPT)
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
    errors: dict[str, list[int]] = {name: [] for name in utterances if engine.utterances[name].text is not None}
    lengths = dict.fromkeys(errors, 0)
    for stream in (stream for streams in engine.rounds.values() for stream in streams):
        if stream.utterance.id in errors:
            wrong, length = _error_count(stream, rate)
            errors[stream.utterance.id].append(wrong)
            lengths[stream.utterance.id] = length
    if not errors:
        return NoValue(WITHOUT_TRANSCRIPT, NO_TRANSCRIPT)
    return [sum(counts) / len(counts) for counts in errors.values()], list(lengths.values())


def _error_count(stream: Stream, rate: str) -> tuple[int, int]:
    """The errors of a stream with a transcript, and its reference words or characters."""
    assert stream.errors is not None
    assert stream.characters is not None
    if rate == WER:
        return stream.errors.errors, stream.errors.words
    return stream.characters.errors, stream.characters.characters


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
    for piece in record.pieces:
        if piece.key[2] != name:
            continue
        if piece.key[0] == "load" and "engine" in piece.data:
            engine = piece.data["engine"]
            settings.setdefault("precision", engine.get("precision"))
            settings.setdefault("device", engine.get("device"))
        if piece.key[0] == "stream" and "trace" in piece.data:
            settings.setdefault("chunk size", f"{1e3 * piece.data['trace']['chunk_s']:g} ms")
    return settings


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


# How the streams of a round give a metric; the others are measured once per process.
_OF_STREAMS: Mapping[str, OfStreams] = {
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
    error_rates=(WER, CER),
)
