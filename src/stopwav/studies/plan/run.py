"""`stopwav run`: the studies of a plan file, one after the other; one that fails does not stop the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.studies.plan.plan_file import PlannedRun, read_plan
from stopwav.studies.plan.plan_gate import stop_rule
from stopwav.studies.spec import Progress
from stopwav.studies.study import find_study


@dataclass(frozen=True)
class FinishedRun:
    """How a run of a plan ended: with its record, or with the reason why there is none."""

    planned: PlannedRun
    record: Record | None
    error: str = ""


def run(
    file: Path | str,
    *,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> list[FinishedRun]:
    """Return how each run of a plan file ended; `overrides` are settings by name that win over the file's."""
    return [run_planned(planned, resume=resume, progress=progress) for planned in read_plan(file, overrides)]


def run_planned(
    planned: PlannedRun, *, resume: bool = False, progress: Progress | None = None, gate: bool = False
) -> FinishedRun:
    """Return how one run of a plan ended; for its `gate`, it ends as soon as that is decided, where it may."""
    arguments = {**planned.arguments, "progress": progress, **(stop_rule(planned.gate) if gate else {})}
    if resume:
        arguments["resume"] = True
    try:
        return FinishedRun(planned, find_study(planned.study).run(**arguments))
    except StopwavError as error:
        return FinishedRun(planned, None, str(error))
    except Exception as error:
        # Whatever it was, the other runs of the night go on, and this one says what happened.
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return FinishedRun(planned, None, f"{planned.where}: {planned.study} broke off ({reason})")
