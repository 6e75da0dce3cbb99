"""`stopwav run`: the studies of a plan file, one after the other; one that fails does not stop the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.studies.plan.plan_file import Cell, read_plan
from stopwav.studies.spec import Progress
from stopwav.studies.study import STUDIES


@dataclass(frozen=True)
class Ran:
    """How a run of a plan ended: with its record, or with the reason why there is none."""

    cell: Cell
    record: Record | None
    error: str = ""


def run(
    file: Path | str,
    *,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> list[Ran]:
    """How each run of a plan file ended; `overrides` are settings by name that win over the file's."""
    return [run_cell(cell, resume=resume, progress=progress) for cell in read_plan(file, overrides)]


def run_cell(cell: Cell, *, resume: bool = False, progress: Progress | None = None) -> Ran:
    """How one run of a plan ended."""
    arguments = {**cell.arguments, "progress": progress}
    if resume:
        arguments["resume"] = True
    try:
        return Ran(cell, STUDIES[cell.study].function(**arguments))
    except StopwavError as error:
        return Ran(cell, None, str(error))
    except Exception as error:
        # Not ours to foresee; the night's other runs go on, and this one says what it was.
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return Ran(cell, None, f"{cell.where}: {cell.study} broke off ({reason})")
