"""How two grid runs are compared: by real-time factor and peak host memory of each cell, per round."""

from __future__ import annotations

from collections.abc import Mapping

from stopwav.measure.rounds import Measurement, Round
from stopwav.record import Record
from stopwav.studies.comparable import Comparable, ComparableItem, NoValue, RoundMetric
from stopwav.studies.grid.cell import GridCell
from stopwav.studies.grid.cells import measurements, own_rounds, result_name
from stopwav.studies.grid.spec import GridSpec, device_of
from stopwav.studies.stored_fields import stored_spec


def _items(record: Record) -> dict[str, ComparableItem]:
    measured = {cell: measurement for cell, measurement in measurements(record) if measurement.good}
    rising = sorted(measured, key=lambda cell: (cell.lane, cell.duration_s, cell.batch_size))
    spec = stored_spec(GridSpec, record.header)
    return {result_name(spec, cell): _item(cell, measured[cell], own_rounds(record, cell)) for cell in rising}


def _item(cell: GridCell, measurement: Measurement, opened: list[Round]) -> ComparableItem:
    def values(metric: RoundMetric, utterances: set[str]) -> list[float] | NoValue:
        if metric.name == "rtf":
            return [round_.median_s / cell.audio_s for round_ in measurement.good]
        # Where earlier cells left memory in the process, the peak is a bound.
        rounds = [round_ for round_ in measurement.good if not round_.leftover_bytes]
        peaks = [float(round_.memory.peak_bytes) for round_ in (*rounds, *opened) if round_.memory]
        return peaks or NoValue("no peak was measured")

    return ComparableItem(values, rounds=len(measurement.good))


def _item_settings(record: Record, name: str) -> Mapping[str, object]:
    """The device that the engine of a cell ran on."""
    spec = stored_spec(GridSpec, record.header)
    lane = next((lane for lane in spec.lanes if name.startswith(f"{spec.name(lane)} ")), None)
    return {} if lane is None else {"device": device_of(spec, lane)}


COMPARABLE = Comparable(
    noun="measured cell",
    metrics=(RoundMetric("rtf", "", "time"), RoundMetric("peak_host_bytes", "B", "size")),
    items=_items,
    item_settings=_item_settings,
    model_settings=("device",),
)
