"""The streams of each engine of a latency run, read once from its file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from stopwav.errors import StopwavError
from stopwav.measure.memory import release_memory
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.speech.events import Trace
from stopwav.speech.stored_trace import trace_from_json, trace_lists
from stopwav.studies.engine_names import engine_names
from stopwav.studies.stream_table import StreamTable
from stopwav.studies.stream_table_builder import StreamTableBuilder
from stopwav.studies.trace_batch import StreamFaultError
from stopwav.studies.utterance_table import UtteranceTable

# Reading so many streams leaves tens of megabytes of room between their columns, which would be kept.
MANY_STREAMS = 20_000

_TABLES: WeakKeyDictionary[Record, tuple[int, dict[str, StreamTable]]] = WeakKeyDictionary()


def stream_tables(record: Record) -> dict[str, StreamTable]:
    """Return the streams of each engine of a run; they are read once."""
    count, tables = _TABLES.get(record, (-1, {}))
    if count != len(record.pieces):
        tables = _read_tables(record)
        if sum(map(len, tables.values())) > MANY_STREAMS:
            release_memory()
        _TABLES[record] = (len(record.pieces), tables)
    return tables


def read_trace(piece: Piece) -> Trace:
    """Return the trace of a stream; an error that names the line where it is none."""
    with _naming([piece]):
        return trace_from_json(piece.read()["trace"])


@contextmanager
def _naming(pieces: Sequence[Piece]) -> Iterator[None]:
    """Turn what is wrong with the trace of a stream into an error that names its line: that of the last of the pieces.

    Streams are checked some at a time, so that it may be that of an earlier one.
    """
    try:
        yield
    except StreamFaultError as fault:
        raise _no_trace(pieces[fault.index], str(fault)) from fault
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise _no_trace(pieces[-1], reason) from error


def _no_trace(piece: Piece, reason: str) -> StopwavError:
    return StopwavError(f"{piece.where}: not the trace of a stream ({reason[:120]}); remove that line")


def _read_tables(record: Record) -> dict[str, StreamTable]:
    utterances = UtteranceTable.of_header(record.header)
    positions = {name: position for position, name in enumerate(utterances.ids)}
    builders = {name: StreamTableBuilder(utterances) for name in engine_names(record.header.spec["engines"])}
    pieces: dict[str, list[Piece]] = {name: [] for name in builders}
    with record.opened() as descriptor:
        for piece in record.pieces:
            if piece.parts[0] != "stream" or piece.status != "ok":
                continue
            builder, position, index = _place(piece, builders, positions)
            own = pieces[str(piece.parts[2])]
            own.append(piece)
            with _naming(own):
                builder.add(trace_lists(piece.read(descriptor)["trace"]), position, index)
    tables = {}
    for name, builder in builders.items():
        with _naming(pieces[name]):
            tables[name] = builder.table()
    return tables


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
