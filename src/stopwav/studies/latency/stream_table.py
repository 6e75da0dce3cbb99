"""The streams of each engine of a latency run, read once from its file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from stopwav.errors import StopwavError
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.speech.events import Trace
from stopwav.speech.stored_trace import trace_from_json, trace_lists
from stopwav.studies.corpus_header import header_utterances
from stopwav.studies.engine_names import engine_names
from stopwav.studies.stream_table import StreamFaultError, StreamTable, StreamTableBuilder

_TABLES: WeakKeyDictionary[Record, tuple[int, dict[str, StreamTable]]] = WeakKeyDictionary()


def stream_tables(record: Record) -> dict[str, StreamTable]:
    """Return the streams of each engine of a run; they are read once."""
    count, tables = _TABLES.get(record, (-1, {}))
    if count != len(record.pieces):
        tables = _read_tables(record)
        _TABLES[record] = (len(record.pieces), tables)
    return tables


def read_trace(piece: Piece) -> Trace:
    """Return the trace of a stream; an error that names the line where it is none."""
    with _naming(piece):
        return trace_from_json(piece.read()["trace"])


@contextmanager
def _naming(piece: Piece) -> Iterator[None]:
    """Turn what is wrong with the trace of a stream into an error that names its line."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise StopwavError(f"{piece.where}: not the trace of a stream ({reason[:120]}); remove that line") from error


def _read_tables(record: Record) -> dict[str, StreamTable]:
    utterances = header_utterances(record.header)
    hashes = [hash(utterance) for utterance in utterances]
    positions = {utterance.id: position for position, utterance in enumerate(utterances)}
    builders = {name: StreamTableBuilder(utterances, hashes) for name in engine_names(record.header.spec["engines"])}
    pieces: dict[str, list[Piece]] = {name: [] for name in builders}
    for piece in record.pieces:
        if piece.key[0] == "stream" and piece.status == "ok":
            builder, position, index = _place(piece, builders, positions)
            with _naming(piece):
                builder.add(trace_lists(piece.read()["trace"]), position, index)
            pieces[str(piece.key[2])].append(piece)
    return {name: _table(builder, pieces[name]) for name, builder in builders.items()}


def _table(builder: StreamTableBuilder, pieces: Sequence[Piece]) -> StreamTable:
    try:
        return builder.table()
    except StreamFaultError as fault:
        with _naming(pieces[fault.index]):
            raise ValueError(str(fault)) from None


def _place(
    piece: Piece, builders: Mapping[str, StreamTableBuilder], positions: Mapping[str, int]
) -> tuple[StreamTableBuilder, int, int]:
    """The engine, utterance and round of a stream."""
    try:
        _, index, engine, utterance = piece.key
        return builders[str(engine)], positions[str(utterance)], int(index)
    except (KeyError, ValueError) as error:
        raise StopwavError(
            f"{piece.where}: {piece.key} is no stream of an engine and utterance of this run; remove that line"
        ) from error
