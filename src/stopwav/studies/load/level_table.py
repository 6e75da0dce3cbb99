"""The sessions of a level by column, all of its rounds together: what metrics, judgement and charts need of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.speech.events import Floats
from stopwav.speech.stored_trace import trace_lists
from stopwav.speech.utterance import Utterance
from stopwav.stats import nearest_rank
from stopwav.studies.engine_names import engine_names
from stopwav.studies.stored_fields import WrongValue
from stopwav.studies.stream_table import StreamTable
from stopwav.studies.stream_table_builder import StreamTableBuilder
from stopwav.studies.trace_batch import StreamFaultError
from stopwav.studies.utterance_table import UtteranceTable

# Rules by which a level is the server's and not our own client's, fixed beforehand. A chunk is 100 ms of audio: 5 ms
# are lost in what a listener notices, 50 ms are half a chunk.
LATE_P99_S, LATE_MOST_S, BUSY_CLIENT = 0.005, 0.050, 0.80

# A level: the target, its streams, and whether there were faulty sessions in it.
LevelKey = tuple[str, int, bool]


@dataclass(frozen=True)
class LevelRound:
    """One round of a level: what was seen besides its sessions."""

    index: int
    # Of each client process, the share of a core that it used in the steady part.
    processors: tuple[float, ...]
    # Rows of time, processor seconds, resident bytes, GPU memory and GPU use of the server.
    looks: tuple[tuple[Any, ...], ...]
    ramp_s: float
    steady_s: float
    # Joules by part in a window of the steady part, how long that was, and why some are missing.
    joules: Mapping[str, float]
    window_s: float
    energy_note: str
    # How the faulty sessions ended, by kind and ending.
    faults: tuple[tuple[str, str], ...]
    # Of sessions outside the steady part, those that failed, by reason.
    failed_outside: tuple[str, ...]
    # How the server ended, where it is ours and ended before the level did.
    server_end: str = ""


@dataclass(frozen=True, eq=False)
class LevelTable:
    """The sessions of a level that count."""

    streams: int
    rounds: tuple[LevelRound, ...]
    # The sessions that sent audio; one that was cut has what it showed until then.
    table: StreamTable
    # One entry per session of the table: when it began in its round, its round, and whether it was completed.
    begin_s: Floats
    round: Floats
    completed: Floats
    # How late each chunk was sent, in seconds, beyond the moment at which the server had accepted the session.
    lateness_s: Floats
    # Of each of these chunks, which of the client processes sent it.
    client: Floats
    # The longest time that a chunk waited in our client because the server did not read.
    held_s: float
    # Why sessions failed, a reason each, those that never sent audio included; and how many there were in all.
    failures: tuple[tuple[str, str], ...]
    sessions: int
    # Reference words of sessions that never sent audio.
    unheard_words: int
    is_virtual: bool
    # Rounds of which nothing is here, because our own client was late in them, and why it was in the first.
    invalid_rounds: int = 0
    invalid_because: str = ""

    @property
    def unfinished(self) -> int:
        """Sessions that neither failed nor were complete when the level was cut."""
        return self.sessions - len(self.failures) - int(self.completed.sum())


_TABLES: WeakKeyDictionary[Record, tuple[int, dict[LevelKey, LevelTable]]] = WeakKeyDictionary()


def level_tables(record: Record) -> dict[LevelKey, LevelTable]:
    """Return the levels of a run that have a round, in rising order of streams; they are read once."""
    count, tables = _TABLES.get(record, (-1, {}))
    if count != len(record.pieces):
        tables = _read(record)
        _TABLES[record] = (len(record.pieces), tables)
    return tables


def level_pieces(record: Record) -> dict[LevelKey, list[Piece]]:
    """Return the pieces of each level, the failed ones included, by target in the order of the command."""
    by_key: dict[LevelKey, list[Piece]] = {}
    for piece in record.pieces:
        if piece.key[0] == "level":
            _, _, target, streams, faulty = piece.key
            by_key.setdefault((str(target), int(streams), bool(faulty)), []).append(piece)
    targets = engine_names(record.header.spec["targets"])
    return {key: by_key[key] for key in sorted(by_key, key=lambda key: (targets.index(key[0]), *key[1:]))}


def read_level(utterances: Sequence[Utterance], streams: int, rounds: Mapping[int, Mapping[str, Any]]) -> LevelTable:
    """Return the table of a level from the data of its rounds: of those that are valid, unless none is."""
    table = utterances if isinstance(utterances, UtteranceTable) else UtteranceTable.of(utterances)
    each = {index: _level_of(table, streams, {index: data}) for index, data in rounds.items()}
    reasons = {index: invalid_reason(level) for index, level in each.items()}
    valid = {index: data for index, data in rounds.items() if not reasons[index]}
    dropped = [reasons[index] for index in rounds if index not in valid] if valid else []
    kept = _level_of(table, streams, valid or rounds) if len(rounds) > 1 else next(iter(each.values()))
    return replace(kept, invalid_rounds=len(dropped), invalid_because=dropped[0] if dropped else "")


def _level_of(utterances: UtteranceTable, streams: int, rounds: Mapping[int, Mapping[str, Any]]) -> LevelTable:
    builder = _LevelBuilder(StreamTableBuilder(utterances))
    positions = {name: position for position, name in enumerate(utterances.ids)}
    for index, data in rounds.items():
        builder.add_round(index, data, positions)
    return builder.level(streams)


def _read(record: Record) -> dict[LevelKey, LevelTable]:
    utterances = UtteranceTable.of_header(record.header)
    tables = {}
    for key, pieces in level_pieces(record).items():
        completed = {int(piece.key[1]): piece for piece in pieces if piece.status == "ok"}
        if completed:
            try:
                rounds = {index: piece.read() for index, piece in completed.items()}
                tables[key] = read_level(utterances, key[1], rounds)
            except (StreamFaultError, LookupError, TypeError, ValueError) as error:
                raise WrongValue(f"level {key[1]} of {key[0]}: {error}", pieces[0].key) from error
    return tables


@dataclass
class _LevelBuilder:
    builder: StreamTableBuilder
    rounds: list[LevelRound] = field(default_factory=list)
    begin_s: list[float] = field(default_factory=list)
    round: list[int] = field(default_factory=list)
    completed: list[bool] = field(default_factory=list)
    lateness_s: list[Floats] = field(default_factory=list)
    client: list[Floats] = field(default_factory=list)
    held_s: float = 0.0
    failures: list[tuple[str, str]] = field(default_factory=list)
    sessions: int = 0
    unheard_words: int = 0
    is_virtual: bool = False

    def add_round(self, index: int, data: Mapping[str, Any], positions: Mapping[str, int]) -> None:
        """Add the sessions of a round that count."""
        # Only a server has to be primed: in virtual time the engine is ours.
        self.is_virtual = "prime_s" not in data
        outside = [
            session["failure"][0] for session in data["sessions"] if session["part"] != "steady" and session["failure"]
        ]
        faults = tuple((str(fault["kind"]), str(fault["ended"])) for fault in data["faults"])
        looks = tuple(tuple(look) for look in data["looks"])
        processors = tuple(share for share in data["processors"] if share is not None)
        energy = data.get("energy") or {"joules": {}, "window_s": 0.0, "note": "not measured in virtual time"}
        self.rounds.append(
            LevelRound(
                index,
                processors,
                looks,
                ramp_s=data["ramp_s"],
                steady_s=data["steady_s"],
                joules=dict(energy["joules"]),
                window_s=float(energy["window_s"]),
                energy_note=str(energy["note"]),
                faults=faults,
                failed_outside=tuple(outside),
                server_end=str(data.get("server_end", "")),
            )
        )
        for session in data["sessions"]:
            if session["part"] == "steady":
                self._add_session(index, session, positions[session["utterance"]])

    def _add_session(self, index: int, session: Mapping[str, Any], position: int) -> None:
        self.sessions += 1
        failure = session["failure"]
        if failure:
            self.failures.append((str(failure[0]), str(failure[1])))
        if not session["trace"]:
            self.unheard_words += int(self.builder.utterances.word_counts[position])
            return
        lists = trace_lists(session["trace"])
        self.builder.add(lists, position, index)
        self.begin_s.append(float(session["begin_s"]))
        self.round.append(index)
        self.completed.append(bool(session["over"]) and not failure)
        self.held_s = max(self.held_s, float(session.get("held_s", 0.0)))
        if lists.remote is not None:
            due_s, sent_s = np.array(lists.due_s, dtype=float), np.array(lists.start_s, dtype=float)
            ready_s = session["ready_s"]
            # A chunk that was due before the server accepted the session waited for the server, not for us.
            self.lateness_s.append(sent_s - np.maximum(due_s, np.inf if ready_s is None else float(ready_s)))
            self.client.append(np.full(len(sent_s), float(session.get("client", 0))))

    def level(self, streams: int) -> LevelTable:
        """Return the table."""
        table = self.builder.table()
        late_s = np.concatenate(self.lateness_s) if self.lateness_s else np.zeros(0)
        return LevelTable(
            streams,
            tuple(self.rounds),
            table,
            np.array(self.begin_s, dtype=float),
            np.array(self.round, dtype=float),
            np.array(self.completed, dtype=float),
            np.maximum(late_s, 0.0),
            np.concatenate(self.client) if self.client else np.zeros(0),
            self.held_s,
            tuple(self.failures),
            self.sessions,
            self.unheard_words,
            self.is_virtual,
        )


def invalid_reason(level: LevelTable) -> str:
    """Return why a level says nothing of the server, because our own client did not keep up; "" where it does."""
    if level.is_virtual:
        return ""
    clients = np.unique(level.client)
    # Each by itself: among eight that are on time, one that is late would not show.
    for client in clients:
        late_s = level.lateness_s[level.client == client]
        p99_s, most_s = nearest_rank(late_s, 0.99), float(late_s.max())
        if p99_s > LATE_P99_S or most_s > LATE_MOST_S:
            name = "this client" if len(clients) == 1 else f"client {client + 1:.0f} of {len(clients)}"
            return f"{name} sent chunks {1e3 * p99_s:.1f} ms late (P99), {1e3 * most_s:.0f} ms at most"
    busiest = max((share for round_ in level.rounds for share in round_.processors), default=0.0)
    if busiest > BUSY_CLIENT:
        return f"this client used {100 * busiest:.0f} % of a core; give it more --processes"
    return ""


def by_reason(failures: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the messages of failures by reason."""
    reasons: dict[str, list[str]] = {}
    for reason, message in failures:
        reasons.setdefault(reason, []).append(message)
    return reasons
