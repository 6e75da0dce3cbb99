"""Cells of a grid that have no round: why, and where time is the reason, how much of it they need."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from stopwav.errors import Caution
from stopwav.measure.rounds import Measurement
from stopwav.record import Record
from stopwav.studies.budget import spent_s, time_text
from stopwav.studies.grid.cell import GridCell
from stopwav.studies.grid.cells import cells_of, is_skipped, rising_cells
from stopwav.studies.grid.costs import costs_of
from stopwav.studies.grid.spec import GridSpec
from stopwav.studies.grid.stored_pieces import left_out_s


@dataclass(frozen=True)
class Absence:
    """Why a cell has no round, and the seconds of a call of it where they are known."""

    caution: Caution
    call_s: float | None = None


def absences(record: Record, spec: GridSpec, measured: Mapping[GridCell, Measurement]) -> dict[GridCell, Absence]:
    """Return the cells without a round, each with the reason."""
    costs, left_out = costs_of(measured), left_out_s(record)
    waiting = [cell for cell in rising_cells(spec) if cell not in measured and cell not in left_out]
    absent: dict[GridCell, Absence] = {}
    for cell in cells_of(spec):
        if cell in measured:
            continue
        if is_skipped(spec, cell):
            absent[cell] = Absence(Caution("triangle", "left out by --triangle"))
        elif cell in left_out:
            absent[cell] = _left_out(left_out[cell], spent_s(record) + costs.load_s)
        else:
            absent[cell] = _waiting(costs.call_s(cell), cell == waiting[0])
    return absent


def _left_out(call_s: float, spent: float) -> Absence:
    """A cell that did not fit into the budget; it would after what the run has spent."""
    more = f"--resume --budget {budget_text(spent + call_s)}"
    return Absence(Caution("budget", f"a call takes about {time_text(call_s)}: {more}"), call_s)


def _waiting(call_s: float | None, is_next: bool) -> Absence:
    """A cell that is not measured yet: the first of them is the next."""
    takes = "" if call_s is None else f", about {time_text(call_s)}"
    return Absence(Caution("incomplete", f"not measured yet: {'next' if is_next else 'later'}{takes}"), call_s)


def budget_text(seconds: float) -> str:
    """Return a budget that has time for so many seconds and a tenth more, as the option takes it."""
    minutes = math.ceil(1.1 * seconds / 60)
    return f"{minutes}min" if minutes < 120 else f"{math.ceil(minutes / 60)}h"
