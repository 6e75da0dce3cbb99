"""The time that a run may spend: a budget instead of a plan of rounds, what is spent of it, and when it is enough."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.stats import Estimate, Rule
from stopwav.studies.piece_kinds import ANY_COUNT, PieceKind
from stopwav.studies.spec import MOST_WHOLE, Option, PythonOnly, StudySpec
from stopwav.studies.stored_fields import Seconds, StoredFields

# Long enough for several rounds of two small recognisers on two cores, and short enough to wait for.
BUDGET_S = 300.0
# The budget of --quick.
QUICK_S = 60.0
# The part of the budget in which the first sweep gives a whole answer: three more like it are the rounds of a report.
SWEEP_SHARE = 0.25
# Half-width of an interval, as a share of its value, below which more rounds tell nothing that people act on.
PRECISION = 0.05
# The fewest rounds with a Student interval: one from within a process does not include how processes differ.
FEWEST_ROUNDS = 3

_TIME = re.compile(r"(?P<number>[0-9]*\.?[0-9]+)\s*(?P<unit>s|sec|seconds?|min|minutes?|m|h|hours?)?", re.IGNORECASE)
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
SPENT = "spent"


class BudgetedSpec(StudySpec):
    """The settings of a run that spends a budget, or follows a fixed plan of rounds where that is asked for."""

    rounds: Annotated[
        int | None,
        Option("Rounds of a fixed plan, each in fresh processes; default: as many as --budget has time for."),
    ] = Field(default=None, gt=0)
    budget_s: Annotated[
        float | None,
        Option(
            "Time to spend, such as 90s, 5min or 2h; default 5min. With --resume, the time of the whole run.",
            metavar="TIME",
            stored=False,
            text=True,
        ),
    ] = Field(default=None, gt=0)
    precision: Annotated[
        float,
        Option(
            "Stop before the budget is spent once every interval is this narrow and every verdict is there.",
            metavar="PERCENT",
            stored=False,
            text=True,
        ),
    ] = Field(default=PRECISION, gt=0)
    thorough: Annotated[
        bool, Option("The fixed plan for a publication, instead of --budget; it may take hours.", stored=False)
    ] = False
    # Whether a run of a budget holds enough, asked after every round in place of the study's own rule: whoever measures
    # for one decision knows when it is made. The verdicts have to be valid at any stop.
    until: Annotated[Callable[[Record], bool] | None, PythonOnly(stored=False)] = None

    @field_validator("budget_s", mode="before")
    @classmethod
    def _seconds(cls, value: Any) -> Any:
        return parse_time(value) if isinstance(value, str) else value

    @field_validator("precision", mode="before")
    @classmethod
    def _share(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        number, percent = value.strip().removesuffix("%"), value.strip().endswith("%")
        try:
            return float(number) / (100 if percent else 1)
        except ValueError:
            raise ValueError("give a percentage, such as 5%, or a share, such as 0.05") from None

    @model_validator(mode="after")
    def _one_plan(self) -> BudgetedSpec:
        if self.budget_s is not None and (self.rounds is not None or self.thorough):
            fixed = "--thorough" if self.thorough else f"--rounds {self.rounds}"
            raise ValueError(f"{fixed} is a fixed plan, which takes the time it takes: leave out --budget (or --quick)")
        if self.thorough and self.rounds is None:
            self.rounds = self.thorough_rounds()
        return self

    @classmethod
    def thorough_rounds(cls) -> int:
        """The rounds of --thorough."""
        return 3

    @property
    def is_budgeted(self) -> bool:
        """Whether time, and not a number of rounds, ends the run."""
        return self.rounds is None

    @property
    def total_s(self) -> float:
        """The time of the whole run; without end where the plan is fixed."""
        return (self.budget_s or BUDGET_S) if self.is_budgeted else math.inf


class Budget:
    """The time of a run, running: that of earlier commands that this one resumes counts."""

    def __init__(
        self, total_s: float, spent_before_s: float = 0.0, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.total_s = total_s
        self._now_s = now_s
        self._start_s = now_s() - spent_before_s

    @property
    def spent_s(self) -> float:
        """Seconds since the run began."""
        return self._now_s() - self._start_s

    @property
    def left_s(self) -> float:
        """Seconds that are left, 0 at the least."""
        return max(0.0, self.total_s - self.spent_s)

    @property
    def sweep_left_s(self) -> float:
        """Seconds that are left of the first sweep, 0 at the least."""
        return max(0.0, SWEEP_SHARE * self.total_s - self.spent_s)

    def fits(self, seconds: float) -> bool:
        """Whether something that takes so long ends within the budget."""
        return seconds <= self.left_s


class StoredSpent(StoredFields):
    """Seconds of the budget that were spent since the last such piece, and the budget of the command."""

    seconds: Seconds
    budget_s: Seconds | None = None


# Part of the pieces of every study that has a budget.
SPENT_KIND = PieceKind(SPENT, (ANY_COUNT,), StoredSpent)


def open_budget(spec: BudgetedSpec, record: Record, begun_s: float | None = None) -> Budget:
    """Return the budget of a run that starts now, or did at `begun_s` of the monotonic clock, or is resumed."""
    since_s = 0.0 if begun_s is None else time.monotonic() - begun_s
    return Budget(spec.total_s, spent_s(record) + since_s)


def budget_text(spec: BudgetedSpec, record: Record) -> str:
    """Return what whoever waits is told of a run's time before it starts."""
    before_s = spent_s(record)
    if before_s:
        return f"{time_text(max(0.0, spec.total_s - before_s))} left of {time_text(spec.total_s)} (--budget)"
    first = time_text(SWEEP_SHARE * spec.total_s)
    return (
        f"at most {time_text(spec.total_s)} (--budget), with a first result for everything after {first}; "
        "Ctrl-C prints the results so far"
    )


def store_spent(record: Record, budget: Budget) -> None:
    """Store what was spent since this was last called: after every round, so that a killed run loses one at most."""
    count = sum(key[0] == SPENT for key in record.keys)
    seconds = max(0.0, budget.spent_s - spent_s(record))
    budget_s = budget.total_s if math.isfinite(budget.total_s) else None
    record.append(Piece(key=[SPENT, count], status="ok", data={"seconds": seconds, "budget_s": budget_s}))


def spent_s(record: Record) -> float:
    """Return the seconds that a run has spent."""
    pieces = (record.find(key) for key in record.keys if key[0] == SPENT)
    return sum(float(piece.data["seconds"]) for piece in pieces if piece is not None)


def pieces_by_round(record: Record, kinds: Iterable[PieceKind]) -> dict[int | None, list[Piece]]:
    """Return the pieces of each round of a run, in rising order; under None are those that belong to no round.

    `kinds` are those that the run may hold, by its study.
    """
    # The first part of a key is the round wherever it is a number with an end: other counts have none.
    numbered = {kind.name for kind in kinds if kind.key and isinstance(kind.key[0], range) and kind.key[0] != ANY_COUNT}
    by_round: dict[int | None, list[Piece]] = {None: []}
    for piece in record.pieces:
        by_round.setdefault(int(piece.key[1]) if piece.key[0] in numbered else None, []).append(piece)
    return {index: by_round[index] for index in sorted(by_round, key=lambda index: -1 if index is None else index)}


def rounds_of(record: Record, kinds: Iterable[PieceKind]) -> list[int]:
    """Return the numbers of the rounds of which a run holds a piece, in rising order."""
    return [index for index in pieces_by_round(record, kinds) if index is not None]


def rounds_text(record: Record, kinds: Iterable[PieceKind]) -> str:
    """Return the rounds of a run and, where it has a budget, the time: `4 rounds in 4 min 51 s of 5 min`."""
    planned = record.header.spec.get("rounds")
    rounds = planned if planned is not None and record.complete else len(rounds_of(record, kinds))
    text = f"{rounds} round{'' if rounds == 1 else 's'}"
    if planned is not None:
        return text if rounds == planned else f"{rounds} of {planned} rounds"
    last = next((record.find(key) for key in reversed(record.keys) if key[0] == SPENT), None)
    if last is None:
        return text if rounds else ""
    budget_s = last.data.get("budget_s")
    return f"{text} in {exact_time_text(spent_s(record))}" + (f" of {exact_time_text(budget_s)}" if budget_s else "")


def is_finished(record: Record, spec: BudgetedSpec) -> bool:
    """Whether nothing is left to do: the run is complete, and no more time is given than it has spent."""
    return record.complete and not (spec.is_budgeted and spec.total_s > spent_s(record))


def possible_rounds(rounds: int | None) -> range:
    """Return the numbers that rounds may have: those of a fixed plan, or any."""
    return range(MOST_WHOLE if rounds is None else rounds)


def planned_rounds(rounds: int | None) -> range:
    """Return the rounds without which a run is not complete: those of a fixed plan, or the first sweep."""
    return range(1 if rounds is None else rounds)


def verdict_rule(record: Record) -> Rule:
    """Return the rule by which verdicts of a run are made: a fixed plan that is complete was not looked at to stop it.

    Whatever a budget or a user stopped has verdicts that are valid at any stop.
    """
    return "fixed" if record.complete and record.header.spec.get("rounds") is not None else "anytime"


def half_width(estimate: Estimate) -> float:
    """Return the half-width of an interval as a share of its value, on the log scale; infinite where there is none."""
    if estimate.value is None or estimate.low is None or estimate.high is None or estimate.low <= 0:
        return math.inf
    return math.expm1((math.log(estimate.high) - math.log(estimate.low)) / 2)


def parse_time(text: str) -> float:
    """Return the seconds that a text names: `90`, `90s`, `5min`, `2h`."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError("give a time, such as 90s, 5min or 2h")
    return float(match["number"]) * _UNITS_S[(match["unit"] or "s")[0].lower()]


def time_text(seconds: float) -> str:
    """Return a time as a person says it: `45 s`, `5 min`, `1.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def exact_time_text(seconds: float) -> str:
    """Return a time that was measured or set: `45 s`, `4 min 51 s`, `1 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    larger, smaller = (f"{whole // 60} min", f"{whole % 60} s")
    if whole >= 3600:
        larger, smaller = f"{whole // 3600} h", f"{whole % 3600 // 60} min"
    return larger if smaller.startswith("0 ") else f"{larger} {smaller}"
