"""The fixture `stopwav`: the functions of the package, whose runs go to one folder and are listed at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stopwav.record import Record, Result
    from stopwav.studies.diff.condition import ConditionOutcome
    from stopwav.studies.diff.gate import Gate
    from stopwav.studies.plan.run import FinishedRun


class Measuring:
    """Everything that `import stopwav` gives; studies save their runs in one folder, and conditions are noted."""

    def __init__(self, save: Path, note: Callable[[str], None]) -> None:
        # Where runs are saved, unless a test names another folder.
        self.save = save
        self._note = note

    def require(
        self, measured: Record | Result | Sequence[Result], *conditions: str, allow_undecided: bool = False
    ) -> list[ConditionOutcome]:
        """Do as `stopwav.require`, and note how each condition was judged."""
        from stopwav.testing.requirement import outcome_line, require

        __tracebackhide__ = True
        outcomes = require(measured, *conditions, allow_undecided=allow_undecided)
        for outcome in outcomes:
            self._note(outcome_line(outcome))
        return outcomes

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # which pytest looks for in every fixture
            raise AttributeError(name)
        import stopwav
        from stopwav.studies.study import find_study, study_names

        if name in study_names():
            return partial(self._measure, find_study(name).run)
        if name in ("run", "gate_race"):
            return partial(self._run_plan if name == "run" else self._race, getattr(stopwav, name))
        return getattr(stopwav, name)

    def _measure(self, study: Callable[..., Record], *arguments: Any, **settings: Any) -> Record:
        record = study(*arguments, **{"save": self.save, **settings})
        self._note_run(record)
        return record

    def _run_plan(self, run: Callable[..., list[FinishedRun]], *arguments: Any, **settings: Any) -> list[FinishedRun]:
        finished = run(*arguments, **settings)
        for planned in finished:
            if planned.record is None:
                self._note(f"not measured: {planned.error}")
            else:
                self._note_run(planned.record)
        return finished

    def _race(self, race: Callable[..., Gate], *engines: Any, **settings: Any) -> Gate:
        outcome = race(*engines, **{"save": self.save, **settings})
        self._note(f"race {'passed' if outcome.passed else 'failed'}: {outcome.diff.b}")
        return outcome

    def _note_run(self, record: Record) -> None:
        whole = "" if record.complete else ", not complete"
        self._note(f"{record.header.study} run: {record.path}{whole}")
