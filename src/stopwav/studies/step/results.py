"""The results of a step run: one for the step as a whole, and one for each of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stopwav.errors import Caution, Status
from stopwav.measure.module_rows import COMMUNICATION
from stopwav.measure.training_step import PHASES
from stopwav.piece import Piece
from stopwav.record import Record, Result
from stopwav.stats import Estimate, cluster_ratio, scaled, summarise_rounds
from stopwav.studies.corpus_header import header_warnings
from stopwav.studies.step.completed_steps import CompletedSteps, Seconds, completed_steps, full_rounds
from stopwav.studies.step.rows import StepRow, folded_rows, label_rows, make_rows
from stopwav.studies.step.size import size_text, with_size
from stopwav.studies.step.spec import StepSpec

# A row whose hooks cost more than this share of its time says more about them than about itself.
MOST_HOOK_SHARE = 0.25
# Nor does a share whose interval is wider than itself say anything.
WIDEST_INTERVAL = 1.0


def step_results(record: Record) -> list[Result]:
    """Return the step first, then its rows in the model's order, rows of repeated layers, and other processes."""
    ready = next((piece for piece in record.pieces if piece.key[0] == "ready" and piece.status == "ok"), None)
    steps = completed_steps(record)
    if ready is None or not steps.pieces:
        warnings = _warnings(record, None, steps)
        return [Result("step", _params(record, None, steps), _failed_status(record), {}, warnings, kind="step")]
    memory = memory_pass(record)
    rows = make_rows(steps, ready.data, memory)
    folds = [_labelled(row, ready.data) for row in folded_rows(rows)]
    by_path = {row.path: row for row in rows}
    switch_s, shares = float(ready.data["switch_s"]), _Shares(steps)
    return [
        _step_result(record, ready, steps, memory, rows),
        *(_row_result(row, shares, switch_s, by_path) for row in [*rows, *folds, *label_rows(steps, memory)]),
        *_rank_results(record),
    ]


def memory_pass(record: Record) -> dict[str, Any]:
    """Return the data of the memory pass: sizes by row, and the timeline of the batch that takes most."""
    return _first_data(record, "memory") or {}


def _step_result(
    record: Record, ready: Piece, steps: CompletedSteps, memory: Mapping[str, Any], rows: Sequence[StepRow]
) -> Result:
    metrics = {"step_time": _mean(steps, steps.clean())}
    if steps.by_device:
        metrics["step_device_time"] = _mean(steps, steps.clean("device_s"))
    for name in PHASES:
        metrics[f"{name}_time"] = _mean(steps, steps.phase(name, int(steps.by_device)))
    metrics["overhead"] = _less_one(_ratio(steps, steps.profiled(), steps.clean()))
    metrics.update(_throughput(steps))
    starts = [piece.data for piece in record.pieces if piece.key[0] == "ready" and piece.status == "ok"]
    metrics["first_step_time"] = summarise_rounds([[start["first_s"]] for start in starts])
    metrics["load_time"] = summarise_rounds([[start["load_s"]] for start in starts])
    metrics["parameters"] = _counted(rows[0].parameters)
    metrics.update(_memory(memory))
    warnings = _warnings(record, ready, steps)
    return Result("step", _params(record, ready.data, steps), "ok", metrics, warnings, kind="step")


def _throughput(steps: CompletedSteps) -> Iterator[tuple[str, Estimate]]:
    batches = [piece.data["batch"] for piece in steps.pieces]
    if any(batch["real_frames"] is None for batch in batches):
        return
    real = np.array([batch["real_frames"] for batch in batches], dtype=float)
    yield "frames_per_second", _ratio(steps, real, steps.clean(), unit="1/s")
    if all(batch["padded_frames"] for batch in batches):
        # No interval: these are the batches, and not a sample of them.
        padded = sum(batch["padded_frames"] for batch in batches)
        yield "padding_efficiency", Estimate(float(real.sum()) / padded, n=len(batches))


def _memory(memory: Mapping[str, Any]) -> Iterator[tuple[str, Estimate]]:
    if not memory:
        return
    peak, method = memory["peak"], memory["method"]
    place = f"in {peak['row'] or 'the model itself'}, {peak['phase']}, step {memory['step']}; by {method}"
    yield "peak_bytes", Estimate(float(peak["peak_bytes"]), n=1, unit="B", note=place)
    yield "baseline_bytes", Estimate(float(memory["baseline_bytes"]), n=1, unit="B", note=f"by {method}")
    for part, metric in (("held", "held_bytes"), ("gradients", "gradient_bytes"), ("states", "state_bytes")):
        yield metric, Estimate(float(sum(memory[part].values())), n=1, unit="B")


class _Shares:
    """The shares of a step, each estimated once: all times of a module without children are its own."""

    def __init__(self, steps: CompletedSteps) -> None:
        self.steps = steps
        self._known: dict[bytes, Estimate] = {}

    def of(self, seconds: Seconds) -> Estimate:
        """Return what share of the profiled steps these seconds of each are."""
        key = seconds.tobytes()
        if key not in self._known:
            self._known[key] = _ratio(self.steps, seconds, self.steps.whole)
        return self._known[key]


def _row_result(row: StepRow, shares: _Shares, switch_s: float, rows: Mapping[str, StepRow]) -> Result:
    steps, share = shares.steps, shares.of(row.total)
    warnings = [Caution("attribution", note) for note in row.notes]
    doubt = _doubt(row, share, switch_s)
    warnings += [Caution("below-noise", doubt)] if doubt else []
    params = {**row_params(row), "doubtful": bool(doubt)}
    metrics = {"share": share, "self_share": shares.of(row.own)}
    metrics.update(_row_times(row, shares))
    metrics.update(_row_sizes(row))
    if row.members:
        means = [float(rows[member].total.mean()) * _scale(steps) for member in row.members]
        metrics["layer_time_min"] = Estimate(min(means), n=len(means), unit="s")
        metrics["layer_time_max"] = Estimate(max(means), n=len(means), unit="s")
    return Result(row.path or "model", params, "ok", metrics, tuple(warnings), kind=str(params["kind"]))


def row_params(row: StepRow) -> dict[str, object]:
    """Return what a row is and where it stands."""
    return {
        "kind": "layers" if row.members else row.kind,
        "type": row.type_name,
        "parent": row.parent,
        "label": row.label,
        "members": list(row.members),
        "folded": row.folded,
    }


def _row_times(row: StepRow, shares: _Shares) -> Iterator[tuple[str, Estimate]]:
    """Seconds per clean step: the row's share of the profiled steps, times the time of the clean ones."""
    steps = shares.steps
    times = {
        "total_time": row.total,
        "forward_time": row.total_forward,
        "backward_time": row.total_backward,
        "forward_self_time": row.forward,
        "backward_self_time": row.backward,
    }
    step_s = float(_clean(steps).mean())
    for name, seconds in times.items():
        yield name, scaled(shares.of(seconds), step_s, "s")
    if steps.by_device:
        for name, seconds in (("forward_wall_time", row.wall_forward), ("backward_wall_time", row.wall_backward)):
            yield (
                name,
                Estimate(float(seconds.mean()), n=len(seconds), unit="s", note="host time, profiled steps"),
            )


def _row_sizes(row: StepRow) -> Iterator[tuple[str, Estimate]]:
    yield "calls", Estimate(row.calls, n=1)
    if row.kind in ("model", "module"):
        yield "parameters", _counted(row.parameters)
    sizes = ("held_bytes",) if row.kind == "label" else ("held_bytes", "gradient_bytes", "state_bytes")
    for name in sizes:
        size = getattr(row, name)
        if size is None:
            yield name, Estimate(None, n=1, unit="B", note="the memory pass failed", code="no-memory-pass")
        else:
            yield name, Estimate(float(size), n=1, unit="B")


def _doubt(row: StepRow, share: Estimate, switch_s: float) -> str:
    """Why a row's share is not to be trusted, or ""."""
    # What a label surrounds is not its own.
    own_s = float((row.total if row.kind == "label" else row.own).mean())
    # Two changes of row for a call forward, and two backward.
    hooks_s = 4 * row.calls * switch_s
    if own_s and hooks_s > MOST_HOOK_SHARE * own_s:
        hooks_us, own_us = 1e6 * hooks_s, 1e6 * own_s
        return f"its hooks take about {hooks_us:.0f} µs per step ({row.calls:g} calls); it took {own_us:.0f} µs"
    if share.value is None or share.low is None or share.high is None:
        return ""
    wide = share.high - share.low > WIDEST_INTERVAL * share.value
    return "its share varies by more than itself from step to step" if wide else ""


def _rank_results(record: Record) -> Iterator[Result]:
    """A result for each process of a distributed run, the first included, where there are several."""
    ranks = sorted({int(piece.key[1]) for piece in record.pieces if piece.key[0] == "rank"})
    for rank in [0, *ranks] if ranks else []:
        steps = completed_steps(record, rank)
        metrics = {
            "step_time": _mean(steps, steps.clean()),
            "backward_time": _mean(steps, steps.phase("backward", int(steps.by_device))),
            "communication_share": _ratio(steps, steps.summed_parts(lambda row: row == COMMUNICATION), steps.whole),
        }
        yield Result(f"rank {rank}", {"kind": "rank", "rank": rank}, "ok", metrics, kind="rank")


def _warnings(record: Record, ready: Piece | None, steps: CompletedSteps) -> tuple[Caution, ...]:
    warnings = header_warnings(record.header)
    warnings += [_failure_warning(piece, steps) for piece in record.pieces if piece.status != "ok"]
    if not record.complete:
        warnings.append(Caution("incomplete", "the run stopped early; continue with --resume"))
    starts = [piece.data for piece in record.pieces if piece.key[0] == "ready" and piece.status == "ok"]
    warnings += [Caution(*caution) for start in starts for caution in start.get("cautions", ())]
    if ready is not None:
        if ready.data["compiled"]:
            message = "a compiled graph runs no module of its own: only the whole model can be attributed"
            warnings.append(Caution("compiled", message))
        for name, others in ready.data["shared"].items():
            message = f"parameter {name} is also {', '.join(others)}: it is counted at its first place"
            warnings.append(Caution("shared-parameter", message))
    return tuple(dict.fromkeys(warnings))


def _failure_warning(piece: Piece, steps: CompletedSteps) -> Caution:
    kind = str(piece.key[0])
    what = {"ready": "loading or warming up", "step": "a step", "memory": "the memory pass"}.get(kind, "a pass")
    place = f" {piece.key[2]} of round {piece.key[1]}" if kind == "step" else ""
    kept = f"; steps kept: {len(steps.pieces)}" if kind == "step" else ""
    return Caution(f"step-{piece.status}", f"{what}{place} ended with {piece.status}: {piece.message}{kept}")


def _params(record: Record, ready: Mapping[str, Any] | None, steps: CompletedSteps) -> dict[str, Any]:
    spec = with_size(StepSpec(**record.header.spec), record.header.corpus).stored()
    settings = ("model", "dtype", "autocast", "compile", "device", "depth", "optimizer", "shapes")
    return {
        "kind": "step",
        # Those that are there.
        "rounds": len(set(steps.rounds)),
        "steps": len(set(steps.numbers)),
        "size": size_text(record.header.corpus),
        **{name: spec[name] for name in (*settings, "max_frames", "batch_size", "sort")},
        # What the frames of the shapes are; a run from before there was a choice took all as encoder frames.
        "frames": record.header.corpus.get("frames", "encoder"),
        "class": None if ready is None else ready["model"],
        "clock": "device" if steps.by_device else "wall",
        "profile": _first_data(record, "profile"),
    }


def _first_data(record: Record, kind: str) -> dict[str, Any] | None:
    """The data of the first piece of a kind that completed."""
    return next((piece.data for piece in record.pieces if piece.key[0] == kind and piece.status == "ok"), None)


def _failed_status(record: Record) -> Status:
    return next((piece.status for piece in record.pieces if piece.status != "ok"), "skipped")


def _labelled(row: StepRow, ready: Mapping[str, Any]) -> StepRow:
    label = row.path.rpartition(":")[2] if row.kind == "stage" else ready["labels"].get(row.path, "")
    return replace(row, label=label)


def _counted(number: float) -> Estimate:
    """A number that is counted, and so exact: its interval is the number itself."""
    return Estimate(float(number), number, number, n=1)


def _clean(steps: CompletedSteps) -> Seconds:
    return steps.clean("device_s" if steps.by_device else "wall_s")


def _scale(steps: CompletedSteps) -> float:
    """Seconds of a clean step per second of a profiled one."""
    return float(_clean(steps).sum() / steps.whole.sum())


def _mean(steps: CompletedSteps, seconds: Seconds) -> Estimate:
    """Seconds per step: every step has a batch of its own, so a round is represented by their mean, not a median.

    A round that was stopped has other batches than the rest, and does not count, unless it is the only one.
    """
    rounds = np.array(steps.rounds)
    full = sorted(set(full_rounds(steps).rounds))
    return summarise_rounds([[float(np.mean(seconds[rounds == index]))] for index in full])


def _ratio(steps: CompletedSteps, numerators: Seconds, denominators: Seconds, unit: str = "") -> Estimate:
    """The ratio of two times, or of frames and time: positive, but for rows that took no time in some steps."""
    return cluster_ratio(numerators, denominators, steps.numbers, steps.rounds, unit=unit, positive=True)


def _less_one(ratio: Estimate) -> Estimate:
    if ratio.value is None:
        return ratio
    low, high = (None if end is None else end - 1 for end in (ratio.low, ratio.high))
    return replace(ratio, value=ratio.value - 1, low=low, high=high)
