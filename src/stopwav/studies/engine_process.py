"""One engine's process in a round: started when first needed and again after it died, until the engine is given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stopwav.measure.process import FreshProcess, Outcome
from stopwav.record import Piece, Record

# Models of gigabytes from a slow disk take minutes.
LOAD_LIMIT_S = 600.0
# An engine that dies on every utterance would cost its time limit on each of them.
MAX_DEATHS = 3


@dataclass
class EngineProcess:
    """An engine in one round. `call` asks the object that `runner(*arguments)` makes in a process of its own.

    `warm` is for whoever warms the process up; it falls with the process.
    """

    name: str
    round: int
    record: Record
    runner: Callable[..., object]
    arguments: tuple[object, ...]
    warm: bool = False
    _process: FreshProcess | None = None
    _deaths: int = 0
    _given_up: Outcome | None = None

    def call(self, method: str, *arguments: object, time_limit_s: float) -> Outcome:
        """The outcome of a call; of an engine that was given up, why."""
        if self._given_up is not None:
            return self._given_up
        if self._process is None:
            self._process = FreshProcess(self.runner, *self.arguments)
            loaded = self._process.start(LOAD_LIMIT_S)
            if not loaded.ok:
                # What did not load once is not tried again in this round.
                self.close()
                self._given_up = Outcome(loaded.status, message=f"the engine did not load: {loaded.message}")
                return self._given_up
        outcome = self._process.call(method, *arguments, time_limit_s=time_limit_s)
        self._note(outcome)
        return outcome

    def warmed_up(self, data: dict[str, Any]) -> None:
        """Record the load piece: the process is warm from now on, and `data` is what that took."""
        self.warm = True
        attempt = sum(piece.key[:3] == ["load", self.round, self.name] for piece in self.record.pieces)
        key: list[str | int] = ["load", self.round, self.name, attempt]
        self.record.append(Piece(key=key, status="ok", data=data))

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None
            self.warm = False

    def _note(self, outcome: Outcome) -> None:
        """What follows from an outcome for the process; an engine that only fails keeps it."""
        if outcome.ok:
            self._deaths = 0
        elif outcome.status in ("timeout", "crashed", "oom"):
            self.close()
            self._deaths += 1
            if self._deaths >= MAX_DEATHS:
                self._given_up = Outcome("skipped", message=f"not tried: the engine died {MAX_DEATHS} times in a row")
