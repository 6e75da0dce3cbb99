"""A worker: a process of its own for one engine or loss, started when first asked and again after it died."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stopwav.errors import Status
from stopwav.measure.launcher import Launcher, Process, current_launcher
from stopwav.measure.process import Outcome
from stopwav.piece import Piece

# Models of gigabytes from a slow disk take minutes.
LOAD_LIMIT_S = 600.0
# An engine that dies on every utterance would cost its time limit on each of them.
MAX_DEATHS = 3


@dataclass
class Worker:
    """Asks the object that `factory(*arguments)` makes in a process of its own; gives up after deaths in a row."""

    factory: Callable[..., object]
    arguments: tuple[object, ...]
    # What it is called in messages.
    subject: str = "engine"
    load_limit_s: float = LOAD_LIMIT_S
    max_deaths: int = MAX_DEATHS
    # The failures that count as deaths. With "error" among them an error ends the process too: it may hold half of its
    # work.
    deadly: tuple[Status, ...] = ("timeout", "crashed", "oom")
    # For whoever warms the process up; it falls with the process.
    warm: bool = False
    # How it is said that the process could not make its object.
    failed: str = "did not load"
    # The machine of whoever makes the worker; its process may be started in another thread.
    launcher: Launcher = field(default_factory=current_launcher)
    _process: Process | None = None
    _deaths: int = 0
    _given_up: Outcome | None = None

    def load(self) -> Outcome:
        """Start the process unless it runs, and return how loading ended; of a subject that was given up, why."""
        if self._given_up is not None:
            return self._given_up
        if self._process is None:
            self._process = self.launcher.open(self.factory, *self.arguments)
            loaded = self._process.start(self.load_limit_s)
            if not loaded.ok:
                # What did not load once is not tried again by this worker.
                self.close()
                self._given_up = Outcome(
                    loaded.status,
                    message=f"the {self.subject} {self.failed}: {loaded.message}",
                    last_words=loaded.last_words,
                )
                return self._given_up
        return Outcome("ok")

    def call(self, method: str, *arguments: object, time_limit_s: float) -> Outcome:
        """Return the outcome of a call; of a subject that was given up, why."""
        loaded = self.load()
        if not loaded.ok or self._process is None:
            return loaded
        outcome = self._process.call(method, *arguments, time_limit_s=time_limit_s)
        self._count_deaths(outcome)
        return outcome

    def close(self) -> None:
        """End the process; the next call starts another."""
        if self._process is not None:
            self._process.close()
            self._process = None
            self.warm = False

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _count_deaths(self, outcome: Outcome) -> None:
        """A subject that only fails keeps its process; one that dies again and again is given up."""
        if outcome.ok:
            self._deaths = 0
            return
        if outcome.status != "error" or "error" in self.deadly:
            self.close()
        if outcome.status in self.deadly:
            self._deaths += 1
            if self._deaths >= self.max_deaths:
                message = f"not tried: the {self.subject} died {self.max_deaths} times in a row"
                self._given_up = Outcome("skipped", message=message)


def outcome_to_piece(key: Sequence[str | int], outcome: Outcome, data: Mapping[str, Any] | None = None) -> Piece:
    """Return the piece that holds how a call ended; `data` in place of what the call returned."""
    returned = outcome.value if outcome.ok and isinstance(outcome.value, dict) else {}
    return Piece(
        key=list(key),
        status=outcome.status,
        message=outcome.message,
        last_words=outcome.last_words,
        data=dict(returned if data is None else data),
    )
