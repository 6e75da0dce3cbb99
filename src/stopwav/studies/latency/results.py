"""The results of a latency run: one per engine, with its metrics and warnings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from stopwav.errors import Caution
from stopwav.piece import Piece
from stopwav.record import NO_TRANSCRIPT, UNTRAINED, WITHOUT_TRANSCRIPT, Record, Result
from stopwav.speech.normaliser import stored_normaliser
from stopwav.stats import Estimate, nearest_rank
from stopwav.studies.budget import BUDGET_S, SPENT, spent_s
from stopwav.studies.corpus_header import failed_utterances, header_warnings, language_warnings
from stopwav.studies.engine_names import engine_settings
from stopwav.studies.latency.definitions import DEFINITIONS
from stopwav.studies.latency.metrics import process_metrics, stream_metrics, unseen
from stopwav.studies.latency.stream_table import stream_tables
from stopwav.studies.recognised_text import Attempt, RecognisedText, recognised_texts
from stopwav.studies.stream_table import StreamTable
from stopwav.studies.study import StudyRun

# Send lateness at P99 above which a run through a server has a warning, and above which its times are not given.
LATE_S, INVALID_S = 0.010, 0.050
INVALID = "invalid"


def latency_results(record: Record) -> list[Result]:
    """Return one result per engine."""
    tables = stream_tables(record)
    results = []
    for name, table in tables.items():
        pieces = engine_pieces(record, name)
        failed = [piece for piece in pieces if piece.key[0] == "stream" and piece.status != "ok"]
        failures = failed_utterances("stream", ((str(piece.key[3]), piece) for piece in failed))
        results.append(
            Result(
                name=name,
                params=_params(record, name, pieces, table),
                status="ok" if len(table) else failed[0].status if failed else "skipped",
                metrics=_metrics(table, pieces, record.header.spec["seed"]),
                warnings=(*failures, *_warnings(record, pieces, table)),
            )
        )
    return results


def latency_texts(run: StudyRun) -> list[RecognisedText]:
    """Return the final text of every stream."""
    record = run.record
    references = {fields["id"]: fields["text"] for fields in record.header.corpus["utterances"]}
    texts = []
    for name, table in stream_tables(record).items():
        pieces, completed, attempts = engine_pieces(record, name), iter(table.texts), []
        for piece in pieces:
            if piece.parts[0] != "stream":
                continue
            utterance = str(piece.parts[3])
            spoken = utterance, references[utterance]
            if piece.status == "ok":
                said = next(completed)
                attempts.append(Attempt(*spoken, said.text, errors=said.errors, characters=said.characters))
            else:
                attempts.append(Attempt(*spoken, None, f"{piece.status}: {piece.message}"))
        texts += recognised_texts(name, attempts, table.utterances.normaliser, untrained=is_untrained(pieces))
    return texts


def engine_pieces(record: Record, name: str) -> list[Piece]:
    """Return the pieces of one engine; those about time spent are of none."""
    return [piece for piece in record.pieces if piece.key[0] != SPENT and piece.key[2] == name]


def is_untrained(pieces: Iterable[Piece]) -> bool:
    """Whether an engine reports random weights; the oldest runs do not say, and are of trained ones."""
    engines = (piece.data.get("engine", {}) for piece in pieces if piece.key[0] == "load")
    return any(engine.get("untrained", False) for engine in engines)


def rests_on_text(metric: str) -> bool:
    """Whether a metric depends on the recognised text, so that random weights have none."""
    definition = DEFINITIONS.find(metric)
    return definition is not None and definition.rests_on_text


def needs_transcript(metric: str) -> bool:
    """Whether utterances without a transcript have no value of a metric."""
    definition = DEFINITIONS.find(metric)
    return definition is not None and definition.needs_transcript


def rests_on_sending(metric: str) -> bool:
    """Whether a metric is wrong where our client sends chunks late: all times but that lateness itself."""
    definition = DEFINITIONS.find(metric)
    return definition is not None and definition.rests_on_speed and not metric.startswith("send_lateness")


def send_lateness_s(table: StreamTable) -> float:
    """Return how late chunks were sent to a server, at P99; 0 of streams in a process."""
    if table.network_s is None or not len(table):
        return 0.0
    return float(nearest_rank(table.chunks.send_lateness_s(), 0.99))


def late_sending(table: StreamTable) -> str:
    """Return why the times of streams through a server are not valid; "" where they are."""
    lateness_s = send_lateness_s(table)
    return f"invalid: our own client sent chunks {1e3 * lateness_s:.0f} ms late (P99)" if lateness_s > INVALID_S else ""


def _without(
    metrics: Mapping[str, Estimate], concerned: Callable[[str], bool], note: str, code: str
) -> dict[str, Estimate]:
    """The metrics, with the reason in place of those that are concerned."""
    return {
        name: Estimate(None, unit=estimate.unit, note=note, code=code) if concerned(name) else estimate
        for name, estimate in metrics.items()
    }


def _params(record: Record, name: str, pieces: Sequence[Piece], table: StreamTable) -> dict[str, Any]:
    header = record.header
    loads = [piece for piece in pieces if piece.key[0] == "load"]
    first_round = table.round == table.round[:1]
    return {
        "engine": loads[0].data["engine"] if loads else {},
        "setting": engine_settings(header.spec)[name],
        "corpus": header.corpus["name"],
        "utterances": len(set(table.utterance.tolist())),
        "transcripts": len(set(table.utterance[table.transcribed].tolist())),
        "audio_s": sum(table.audio_s[first_round].tolist()),
        "words": int(table.words.sizes[first_round].sum()),
        "chunk_s": table.algorithm_s[0] if table.algorithm_s else None,
        "pace": header.spec["pace"],
        "rounds": len(set(table.round.tolist())),
        "normaliser": stored_normaliser(header.normaliser).title,
    }


def _metrics(table: StreamTable, pieces: Sequence[Piece], seed: int) -> dict[str, Estimate]:
    if not len(table):
        return {}
    metrics = {**stream_metrics(table, seed), **process_metrics(pieces)}
    if table.network_s is not None:
        metrics |= {name: unseen(estimate.unit) for name, estimate in process_metrics([]).items()}
    if note := late_sending(table):
        metrics = _without(metrics, rests_on_sending, note, INVALID)
    if not table.transcribed.any():
        metrics = _without(metrics, needs_transcript, WITHOUT_TRANSCRIPT, NO_TRANSCRIPT)
    return _without(metrics, rests_on_text, UNTRAINED, UNTRAINED) if is_untrained(pieces) else metrics


def _warnings(record: Record, pieces: Sequence[Piece], table: StreamTable) -> list[Caution]:
    """The warnings of an engine, of the machine, of the corpus, and of the run as a whole."""
    problems = record.header.corpus["problems"]
    warnings = [Caution("corpus", f"{problem['where']}: {problem['message']}") for problem in problems]
    for piece in pieces:
        if piece.key[0] == "load":
            warnings += [Caution(code, message) for code, message in piece.data["cautions"]]
            engine = piece.data["engine"]
            warnings += [Caution("engine", note) for note in engine["notes"]]
            languages = [engine.get("language", ""), *piece.data.get("languages", ())]
            warnings += language_warnings(record.header, engine["name"], languages)
    warnings += header_warnings(record.header)
    if (lateness_s := send_lateness_s(table)) > LATE_S:
        message = (
            f"chunks were sent {1e3 * lateness_s:.0f} ms late (P99) by this client: stop other processes (see top), or "
            f"fewer --streams{'' if lateness_s <= INVALID_S else '; its times are not valid'}"
        )
        warnings.append(Caution("send-lateness", message))
    untimed = len(set(table.utterance[table.transcribed & (table.words.sizes == 0)].tolist()))
    if untimed:
        count = "1 utterance has" if untimed == 1 else f"{untimed} utterances have"
        warnings.append(Caution("no-word-times", f"{count} no word times, so no word latency"))
    if not record.complete:
        message = f"the run was stopped before it was complete; continue it with the same command and {_more(record)}"
        warnings.append(Caution("incomplete", message))
    return list(dict.fromkeys(warnings))


def _more(record: Record) -> str:
    """The options that continue a run: one with a budget may have spent it."""
    if record.header.spec.get("rounds") is not None:
        return "--resume"
    return f"--resume; if its --budget is spent, with --budget {math.ceil((spent_s(record) + BUDGET_S) / 60)}min"
