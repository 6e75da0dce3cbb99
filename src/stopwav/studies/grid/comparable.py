"""What changed from one grid run to another, cell by cell: real-time factor and peak host memory, by rounds."""

from __future__ import annotations

from collections.abc import Mapping

from stopwav.errors import StopwavError
from stopwav.measure.rounds import Measurement
from stopwav.record import Record
from stopwav.stats.change import Question, answer_all, ask_nothing, ask_ratio
from stopwav.studies.diff.comparable import remarks, visible
from stopwav.studies.diff.diff import Cell, Diff, check_comparable
from stopwav.studies.grid.cell import Cell as Place
from stopwav.studies.grid.cell import measurements
from stopwav.studies.grid.run import GridSpec, device_of


def grid_diff(a: Record, b: Record, limits: Mapping[str, float], force: bool) -> Diff:
    """What changed between two runs of the same grid; a cell that went well in one of them alone is named."""
    forced = check_comparable(a, b, [], force)
    specs = [GridSpec(**record.header.spec) for record in (a, b)]
    engines = [f"{spec.engine} on {device_of(spec)}" for spec in specs]
    if engines[0] != engines[1]:
        told = visible(f"other engine ({engines[0]} against {engines[1]})")
        if not force:
            raise StopwavError(
                f"{b.path} cannot be compared with {a.path}: {told}; add --force to compare all the same"
            )
        forced = (*forced, told)
    before, after = ({place: one for place, one in measurements(run) if one.good} for run in (a, b))
    shared = [place for place in before if place in after]
    if not shared:
        raise StopwavError(f"{a.path} and {b.path} have no measured cell in common; give both the same --durations")
    return Diff(
        a=a.path,
        b=b.path,
        study="grid",
        cells=_cells(sorted(shared, key=_order), before, after, limits),
        only_a=tuple(str(place) for place in sorted(before, key=_order) if place not in after),
        only_b=tuple(str(place) for place in sorted(after, key=_order) if place not in before),
        forced=forced,
        remarks=tuple(remarks(a, b)),
    )


def _order(place: Place) -> tuple[float, int]:
    return place.duration_s, place.batch_size


def _cells(
    places: list[Place],
    before: Mapping[Place, Measurement],
    after: Mapping[Place, Measurement],
    limits: Mapping[str, float],
) -> tuple[Cell, ...]:
    """One cell per place; all their questions are decided together."""
    asked = {place: _questions(place, before[place], after[place], limits) for place in places}
    answers = iter(answer_all([question for questions in asked.values() for question in questions]))
    return tuple(Cell(str(place), tuple(next(answers) for _ in asked[place]), 1) for place in places)


def _questions(place: Place, a: Measurement, b: Measurement, limits: Mapping[str, float]) -> list[Question]:
    rtf_a, rtf_b = ([one.median_s / place.audio_s for one in side.good] for side in (a, b))
    questions = [ask_ratio("rtf", "", "time", rtf_a, rtf_b, limits["rtf"])]
    peaks_a, peaks_b = ([float(one.memory.peak_bytes) for one in side.good if one.memory] for side in (a, b))
    limit = limits["peak_host_bytes"]
    if not (peaks_a and peaks_b):
        return [*questions, ask_nothing("peak_host_bytes", "B", limit, "no peak was measured")]
    return [*questions, ask_ratio("peak_host_bytes", "B", "size", peaks_a, peaks_b, limit)]
