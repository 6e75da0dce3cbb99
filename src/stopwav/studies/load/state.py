"""What a run knows of its levels: the judgement of each, and from these the next level and the capacity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stopwav.record import Record
from stopwav.studies.load.judgement import Judgement, judge
from stopwav.studies.load.level_table import LevelKey, LevelTable, level_pieces, level_tables
from stopwav.studies.load.search import Bounds, LevelState, bounds, next_level
from stopwav.studies.load.spec import LoadSpec

# A target whose levels fail altogether so often in a row is not there, or our client cannot speak to it.
MOST_FAILURES = 2


@dataclass(frozen=True)
class TargetState:
    """The levels of one target without faulty sessions, by their streams."""

    judgements: Mapping[int, Judgement]
    rounds: Mapping[int, int]
    # Levels that could not be measured at all, and whether there is any sense in going on.
    failed: Mapping[int, int]
    given_up: bool

    @property
    def states(self) -> dict[int, LevelState]:
        """What a search has to know of each level."""
        states = {streams: judgement.state(self.rounds[streams]) for streams, judgement in self.judgements.items()}
        return {streams: LevelState(False, False, count) for streams, count in self.failed.items()} | states

    @property
    def bounds(self) -> Bounds:
        """The capacity as far as it is known; levels that are not valid say nothing of it."""
        valid = {
            n: s for n, s in self.states.items() if n in self.judgements and self.judgements[n].verdict != "invalid"
        }
        return bounds(valid)

    def next_level(self, spec: LoadSpec) -> int | None:
        """Return the level that a search measures next; None once it is at its end."""
        return None if self.given_up else next_level(self.states, spec.most)


def target_states(record: Record, spec: LoadSpec) -> dict[str, TargetState]:
    """Return the state of every target of a run."""
    tables = level_tables(record)
    objective = spec.objective
    judged = {key: judge(objective, table) for key, table in tables.items() if not key[2]}
    return {target: _state(record, target, tables, judged) for target in spec.names}


def _state(
    record: Record, target: str, tables: Mapping[LevelKey, LevelTable], judged: Mapping[LevelKey, Judgement]
) -> TargetState:
    own = {key: pieces for key, pieces in level_pieces(record).items() if key[0] == target and not key[2]}
    rounds = {key[1]: len(tables[key].rounds) + tables[key].invalid_rounds for key in own if key in tables}
    failed = {key[1]: len(pieces) for key, pieces in own.items() if key not in tables}
    newest = [piece for piece in record.pieces if piece.key[0] == "level" and piece.key[2] == target][-MOST_FAILURES:]
    given_up = len(newest) == MOST_FAILURES and all(piece.status != "ok" for piece in newest)
    judgements = {key[1]: judgement for key, judgement in judged.items() if key[0] == target}
    return TargetState(judgements, rounds, failed, given_up)
