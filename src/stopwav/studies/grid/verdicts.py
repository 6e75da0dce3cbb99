"""The engines of a grid against the first: which is faster in which cell, from the rounds that both have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from stopwav.measure.rounds import Measurement
from stopwav.record import Record
from stopwav.stats import DEFAULT_THRESHOLD
from stopwav.stats.change import Change, Question, answer_all
from stopwav.studies.budget import verdict_rule
from stopwav.studies.comparable import NoValue, RoundMetric, ask_metric
from stopwav.studies.grid.cell import GridCell
from stopwav.studies.grid.cells import asked_cells, measurements
from stopwav.studies.grid.spec import GridSpec
from stopwav.studies.stored_fields import stored_spec

_RTF = RoundMetric("rtf", "", "time")


@dataclass(frozen=True)
class CellVerdict:
    """One engine against the first of the run in one cell: the change of its real-time factor."""

    engine: str
    duration_s: float
    batch_size: int
    rtf: Change

    def to_json(self) -> dict[str, Any]:
        """Return the fields as `--json` prints them."""
        return {**vars(self), "rtf": self.rtf.to_json()}


@dataclass(frozen=True)
class GridVerdicts:
    """The engines of a run against the first of them, cell by cell; all verdicts have one confidence of 95 %."""

    base: str
    verdicts: tuple[CellVerdict, ...]

    @property
    def engines(self) -> list[str]:
        """The engines that are held against the first."""
        return list(dict.fromkeys(verdict.engine for verdict in self.verdicts))

    def of(self, engine: str) -> list[CellVerdict]:
        """Return the verdicts on an engine."""
        return [verdict for verdict in self.verdicts if verdict.engine == engine]

    def to_json(self) -> dict[str, Any]:
        """Return the verdicts as `--json` prints them."""
        return {"base": self.base, "verdicts": [verdict.to_json() for verdict in self.verdicts]}


def grid_verdicts(record: Record) -> GridVerdicts | None:
    """Return which engines of a run are faster than the first, cell by cell; None where there is only one engine."""
    spec = stored_spec(GridSpec, record.header)
    base, *others = spec.lanes
    if not others:
        return None
    cells = [cell for cell in asked_cells(spec) if cell.lane in others]
    answers = answer_all(list(_questions(record, cells, base)))
    verdicts = (
        CellVerdict(cell.lane, cell.duration_s, cell.batch_size, change)
        for cell, change in zip(cells, answers, strict=True)
    )
    return GridVerdicts(base, tuple(verdicts))


def _questions(record: Record, cells: list[GridCell], base: str) -> Iterator[Question]:
    measured, rule = dict(measurements(record)), verdict_rule(record)
    for cell in cells:
        own, first = (_by_round(measured.get(other), other) for other in (cell, replace(cell, lane=base)))
        shared = sorted(own.keys() & first.keys())
        values = ([rtf[index] for index in shared] for rtf in (first, own))
        a, b = (rtfs or NoValue("no round in which both were measured") for rtfs in values)
        yield ask_metric(_RTF, a, b, DEFAULT_THRESHOLD, paired=True, rule=rule)


def _by_round(measured: Measurement | None, cell: GridCell) -> dict[int, float]:
    """The real-time factor of a cell in each of its rounds that completed."""
    rounds = [] if measured is None else measured.good
    return {round_.index: round_.median_s / cell.audio_s for round_ in rounds}
