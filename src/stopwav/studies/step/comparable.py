"""How two step runs are compared: step, forward, backward and memory, then the rows of the tree by time and share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from stopwav.record import Record, Result
from stopwav.stats import Estimate
from stopwav.studies.comparable import Comparable, ComparableItem, NoValue, RoundMetric, Values
from stopwav.studies.step.completed_steps import CompletedSteps, Seconds, completed_steps, full_rounds
from stopwav.studies.step.results import memory_pass, row_params
from stopwav.studies.step.rows import StepRow, folded_rows, make_rows
from stopwav.studies.step.size import with_size
from stopwav.studies.step.spec import StepSpec
from stopwav.studies.step.tree import StepTree, path_of
from stopwav.studies.stored_fields import stored_spec

STEP, WHOLE_MODEL = "step", "model"
_WHOLE = ("step_time", "forward_time", "backward_time", "peak_bytes")
_PARTS = ("total_time", "share", "held_bytes")


@dataclass(frozen=True)
class _Steps:
    """The steps of the rounds that are whole, in which place of which round each is, and the steps that all have."""

    steps: CompletedSteps

    @property
    def rounds(self) -> list[int]:
        """The whole rounds."""
        return sorted(set(self.steps.rounds))

    @property
    def numbers(self) -> list[int]:
        """The numbers of the steps that completed in each of them."""
        by_round = [set(np.array(self.steps.numbers)[np.array(self.steps.rounds) == index]) for index in self.rounds]
        return sorted(map(int, set.intersection(*by_round))) if by_round else []

    def by_round(self, seconds: Seconds, numbers: Collection[int]) -> list[float]:
        """Return the mean over these steps, in each round."""
        rounds, chosen = np.array(self.steps.rounds), np.isin(self.steps.numbers, list(numbers))
        return [float(seconds[chosen & (rounds == index)].mean()) for index in self.rounds]

    @property
    def clean(self) -> Seconds:
        """The clean steps by the clock of the rows."""
        return self.steps.clean("device_s" if self.steps.by_device else "wall_s")


def _items(record: Record) -> dict[str, ComparableItem]:
    """The step, then its rows as they stand in the tree."""
    ready = next((piece for piece in record.pieces if piece.key[0] == "ready" and piece.status == "ok"), None)
    everything = completed_steps(record)
    if ready is None or not everything.pieces:
        return {}
    steps, memory = _Steps(full_rounds(everything)), memory_pass(record)
    samples = {str(number): None for number in steps.numbers}
    whole = ComparableItem(
        partial(_values_of_step, steps, memory),
        samples,
        rounds=len(steps.rounds),
        unfinished_rounds=len(set(everything.rounds)) - len(steps.rounds),
        metrics=_WHOLE,
    )
    rows = make_rows(steps.steps, ready.data, memory)
    return {STEP: whole, **_parts(steps, [*rows, *folded_rows(rows)], samples)}


def _parts(steps: _Steps, rows: Sequence[StepRow], samples: Mapping[str, str | None]) -> dict[str, ComparableItem]:
    whole_s = float(steps.steps.whole.sum())
    by_path = {row.path: row for row in rows}
    tree = StepTree([Result(STEP, {}, "ok", kind="step"), *(_as_result(row, whole_s) for row in rows)])
    parts = {}
    for shown in tree.shown():
        row = by_path[path_of(shown.result)]
        name = row.path or WHOLE_MODEL
        # A module may be called so.
        name = f"{name} (module)" if row.path in (STEP, WHOLE_MODEL) else name
        parts[name] = ComparableItem(
            partial(_values_of_row, steps, row),
            samples,
            rounds=len(steps.rounds),
            metrics=_PARTS,
            part=shown.name,
            depth=shown.depth,
            optional=True,
        )
    return parts


def _as_result(row: StepRow, whole_s: float) -> Result:
    """The row as the tree orders rows: by its shares and calls."""
    metrics = {
        "share": Estimate(float(row.total.sum()) / whole_s),
        "self_share": Estimate(float(row.own.sum()) / whole_s),
        "calls": Estimate(row.calls),
    }
    params = row_params(row)
    return Result(row.path or WHOLE_MODEL, params, "ok", metrics, kind=str(params["kind"]))


def _values_of_step(steps: _Steps, memory: Mapping[str, Any], metric: RoundMetric, numbers: set[str]) -> Values:
    if metric.name == "peak_bytes":
        return _counted(memory["peak"]["peak_bytes"] if memory else None)
    phase = metric.name.removesuffix("_time")
    clock = int(steps.steps.by_device)
    seconds = steps.steps.clean() if metric.name == "step_time" else steps.steps.phase(phase, clock)
    return _positive(steps.by_round(seconds, set(map(int, numbers))))


def _values_of_row(steps: _Steps, row: StepRow, metric: RoundMetric, numbers: set[str]) -> Values:
    """The share of the profiled steps in each round, that share of the clean ones, or the saved activations."""
    if metric.name == "held_bytes":
        return _counted(row.held_bytes)
    chosen = set(map(int, numbers))
    own_s, whole_s = steps.by_round(row.total, chosen), steps.by_round(steps.steps.whole, chosen)
    shares = [own / whole for own, whole in zip(own_s, whole_s, strict=True)]
    if metric.name == "share":
        return _positive(shares)
    return _positive([share * s for share, s in zip(shares, steps.by_round(steps.clean, chosen), strict=True)])


def _positive(values: list[float]) -> Values:
    return values if values and min(values) > 0 else NoValue("it took no time that can be measured")


def _counted(size: int | None) -> Values:
    """Bytes that one pass counted; nothing where there are none, such as of a row that saves nothing."""
    if size is None:
        return NoValue("the memory pass failed", "no-memory-pass")
    return Estimate(float(size), size, size, n=1, unit="B")


def _settings(record: Record) -> Mapping[str, object]:
    spec = with_size(stored_spec(StepSpec, record.header), record.header.corpus)
    batches = f"{spec.steps} of {spec.max_frames or 'any number of'} frames"
    if spec.batch_size is not None:
        batches = f"{spec.steps} of {spec.batch_size} utterances"
    return {
        "dtype": f"{spec.dtype}{', autocast' if spec.autocast else ''}{', compiled' if spec.compile else ''}",
        "device": spec.device,
        "optimiser": spec.optimizer,
        "batches": f"{batches}{', sorted' if spec.sort else ''}, seed {spec.seed}",
    }


def _model(record: Record) -> str:
    return with_size(stored_spec(StepSpec, record.header), record.header.corpus).model


COMPARABLE = Comparable(
    noun="row",
    metrics=(
        RoundMetric("step_time", "s", "time"),
        RoundMetric("forward_time", "s", "time"),
        RoundMetric("backward_time", "s", "time"),
        RoundMetric("peak_bytes", "B", "size"),
        RoundMetric("total_time", "s", "time"),
        # More of one row is less of another: a share is shown with its verdict, and no gate fails on it.
        RoundMetric("share", "", "share"),
        RoundMetric("held_bytes", "B", "size"),
    ),
    items=_items,
    settings=_settings,
    models=lambda record: {"": _model(record)},
    sample="step",
)
