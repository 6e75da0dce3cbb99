"""What a step run found: the step as a whole, and a result for each of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stopwav.errors import Caution
from stopwav.measure.training_step import PHASES
from stopwav.record import Piece, Record, Result
from stopwav.stats import Estimate, cluster_ratio, summarise_rounds
from stopwav.studies.step.rows import Seconds, StepRow, Taken, folded_rows, rows_in, taken_of

# A row whose hooks cost more than this share of what it took says more about them than about itself.
MOST_HOOK_SHARE = 0.25
# Nor does a share whose interval is wider than itself say anything.
WIDEST_INTERVAL = 1.0


def step_results(record: Record) -> list[Result]:
    """The step first, then its rows in the model's order, rows of repeated layers after them, and other processes."""
    ready = next((piece for piece in record.pieces if piece.key[0] == "ready" and piece.status == "ok"), None)
    taken = taken_of(record)
    if ready is None or not taken.pieces:
        return [Result("step", _params(record, None), _failure(record).status, {}, _cautions(record, None, taken))]
    memory = next((piece.data for piece in record.pieces if piece.key[0] == "memory" and piece.status == "ok"), {})
    rows = rows_in(taken, ready.data, memory)
    folds = [_labelled(row, ready.data) for row in folded_rows(rows)]
    by_path = {row.path: row for row in rows}
    switch_s = float(ready.data["switch_s"])
    found = [_step_result(record, ready, taken, memory, rows)]
    found += [_row_result(row, taken, switch_s, by_path) for row in [*rows, *folds]]
    return found + list(_rank_results(record))


def step_view(record: Record) -> dict[str, Any]:
    """What charts show beside the results: the memory timeline of the step that takes most."""
    memory = next((piece.data for piece in record.pieces if piece.key[0] == "memory" and piece.status == "ok"), {})
    return {"moments": memory.get("moments", []), "baseline_bytes": memory.get("baseline_bytes", 0)}


def _step_result(
    record: Record, ready: Piece, taken: Taken, memory: Mapping[str, Any], rows: Sequence[StepRow]
) -> Result:
    model = rows[0]
    metrics = {"step_time": _mean(taken, taken.clean())}
    if taken.by_device:
        metrics["step_device_time"] = _mean(taken, taken.clean("device_s"))
    for name in PHASES:
        metrics[f"{name}_time"] = _mean(taken, taken.phase(name, int(taken.by_device)))
    metrics["overhead"] = _less_one(_ratio(taken, taken.watched(), taken.clean()))
    metrics.update(_pace(taken))
    readies = [piece.data for piece in record.pieces if piece.key[0] == "ready" and piece.status == "ok"]
    metrics["first_step_time"] = summarise_rounds([[one["first_s"]] for one in readies])
    metrics["load_time"] = summarise_rounds([[one["load_s"]] for one in readies])
    metrics["parameters"] = Estimate(float(model.parameters), n=1)
    metrics.update(_memory(memory, model))
    return Result("step", _params(record, ready.data), "ok", metrics, _cautions(record, ready, taken))


def _pace(taken: Taken) -> Iterator[tuple[str, Estimate]]:
    batches = [piece.data["batch"] for piece in taken.pieces]
    if any(one["real_frames"] is None for one in batches):
        return
    real = np.array([one["real_frames"] for one in batches], dtype=float)
    yield "frames_per_second", _ratio(taken, real, taken.clean(), unit="1/s")
    if all(one["padded_frames"] for one in batches):
        # No interval: these are the batches, and not a sample of them.
        padded = sum(one["padded_frames"] for one in batches)
        yield "padding_efficiency", Estimate(float(real.sum()) / padded, n=len(batches))


def _memory(memory: Mapping[str, Any], model: StepRow) -> Iterator[tuple[str, Estimate]]:
    if not memory:
        return
    peak = memory["peak"]
    where = f"in {peak['row'] or 'the model itself'}, {peak['phase']}, step {memory['step']}; by {memory['method']}"
    yield "peak_bytes", Estimate(float(peak["peak_bytes"]), n=1, unit="B", note=where)
    yield "baseline_bytes", Estimate(float(memory["baseline_bytes"]), n=1, unit="B", note=f"by {memory['method']}")
    for name in ("held", "gradients", "states"):
        key = {"held": "held_bytes", "gradients": "gradient_bytes", "states": "state_bytes"}[name]
        yield key, Estimate(float(sum(memory[name].values())), n=1, unit="B")


def _row_result(row: StepRow, taken: Taken, switch_s: float, rows: Mapping[str, StepRow]) -> Result:
    whole = _whole(taken)
    share = _ratio(taken, row.total, whole)
    cautions = [Caution("attribution", note) for note in row.notes]
    doubt = _doubt(row, share, switch_s)
    cautions += [Caution("below-noise", doubt)] if doubt else []
    params = {
        "kind": "layers" if row.members else row.kind,
        "type": row.type_name,
        "parent": row.parent,
        "label": row.label,
        "members": list(row.members),
        "folded": row.folded,
        "doubtful": bool(doubt),
    }
    metrics = {"share": share, "self_share": _ratio(taken, row.own, whole)}
    metrics.update(_row_times(row, taken))
    metrics.update(_row_sizes(row))
    if row.members:
        means = [float(rows[one].total.mean()) * _scale(taken) for one in row.members]
        metrics["layer_time_min"] = Estimate(min(means), n=len(means), unit="s")
        metrics["layer_time_max"] = Estimate(max(means), n=len(means), unit="s")
    return Result(row.path or "model", params, "ok", metrics, tuple(cautions))


def _row_times(row: StepRow, taken: Taken) -> Iterator[tuple[str, Estimate]]:
    """Seconds per clean step: the row's share of the watched steps, of what the clean ones took."""
    whole = _whole(taken)
    pairs = {
        "total_time": row.total,
        "forward_time": row.total_forward,
        "backward_time": row.total_backward,
        "forward_self_time": row.forward,
        "backward_self_time": row.backward,
    }
    step_s = float(_clean(taken).mean())
    for name, seconds in pairs.items():
        share = _ratio(taken, seconds, whole)
        low, high = (None if end is None else end * step_s for end in (share.low, share.high))
        yield name, Estimate(None if share.value is None else share.value * step_s, low, high, share.n, "s", share.note)
    if taken.by_device:
        for name, seconds in (("forward_wall_time", row.wall_forward), ("backward_wall_time", row.wall_backward)):
            yield name, Estimate(float(seconds.mean()), n=len(seconds), unit="s", note="host time of the watched steps")


def _row_sizes(row: StepRow) -> Iterator[tuple[str, Estimate]]:
    yield "calls", Estimate(row.calls, n=1)
    if row.kind in ("model", "module"):
        yield "parameters", Estimate(float(row.parameters), n=1)
    for name in ("held_bytes", "gradient_bytes", "state_bytes"):
        size = getattr(row, name)
        yield name, Estimate(None if size is None else float(size), n=1, unit="B", note="" if size is not None else _NO)


_NO = "the memory pass did not end well"


def _doubt(row: StepRow, share: Estimate, switch_s: float) -> str:
    """Why a row's share is not to be trusted, or ""."""
    own_s = float(row.own.mean())
    # Two changes of row for a call forward, and two backward.
    hooks_s = 4 * row.calls * switch_s
    if own_s and hooks_s > MOST_HOOK_SHARE * own_s:
        hooks_us, own_us = 1e6 * hooks_s, 1e6 * own_s
        return f"its {row.calls:g} calls a step cost about {hooks_us:.0f} µs in hooks alone; it took {own_us:.0f} µs"
    if share.value is None or share.low is None or share.high is None:
        return ""
    wide = share.high - share.low > WIDEST_INTERVAL * share.value
    return "its share varies by more than itself from step to step" if wide else ""


def _rank_results(record: Record) -> Iterator[Result]:
    """One result for each process of a distributed run, the first included, where there are several."""
    ranks = sorted({int(piece.key[1]) for piece in record.pieces if piece.key[0] == "rank"})
    for rank in [0, *ranks] if ranks else []:
        taken = taken_of(record, rank)
        waits = [
            sum(
                part[3] if taken.by_device else part[2]
                for part in piece.data["watched"]["parts"]
                if part[0] == "(communication)"
            )
            for piece in taken.pieces
        ]
        metrics = {
            "step_time": _mean(taken, taken.clean()),
            "backward_time": _mean(taken, taken.phase("backward", int(taken.by_device))),
            "communication_share": _ratio(taken, np.array(waits), _whole(taken)),
        }
        yield Result(f"rank {rank}", {"kind": "rank", "rank": rank}, "ok", metrics)


def _cautions(record: Record, ready: Piece | None, taken: Taken) -> tuple[Caution, ...]:
    found = [Caution(one["code"], one["message"]) for one in record.header.warnings]
    failed = [piece for piece in record.pieces if piece.status != "ok"]
    for piece in failed:
        what = {"ready": "loading or warming up", "step": "a step", "memory": "the memory pass"}.get(
            str(piece.key[0]), "a pass"
        )
        place = f" {piece.key[2]} of round {piece.key[1]}" if piece.key[0] == "step" else ""
        kept = f"; the {len(taken.pieces)} steps before are kept" if piece.key[0] == "step" else ""
        found.append(Caution(f"step-{piece.status}", f"{what}{place} ended with {piece.status}: {piece.message}{kept}"))
    if not record.complete:
        found.append(Caution("incomplete", "the run stopped early; --resume goes on"))
    if ready is not None:
        if ready.data["compiled"]:
            told = "a compiled graph runs no module of its own: only the whole model can be attributed"
            found.append(Caution("compiled", told))
        for name, others in ready.data["shared"].items():
            told = f"parameter {name} is also {', '.join(others)}: it is counted where it stands first"
            found.append(Caution("shared-parameter", told))
    return tuple(dict.fromkeys(found))


def _params(record: Record, ready: Mapping[str, Any] | None) -> dict[str, Any]:
    spec = record.header.spec
    asked = ("model", "dtype", "autocast", "compile", "device", "depth", "optimizer", "steps", "rounds", "shapes")
    return {
        "kind": "step",
        **{name: spec[name] for name in (*asked, "max_frames", "batch_size", "sort")},
        "class": None if ready is None else ready["model"],
        "clock": "device" if taken_of(record).by_device else "wall",
        "profile": _profile_of(record),
    }


def _profile_of(record: Record) -> dict[str, Any] | None:
    """What the profiler's pass found, where there was one."""
    piece = next((piece for piece in record.pieces if piece.key[0] == "profile" and piece.status == "ok"), None)
    return None if piece is None else piece.data


def _failure(record: Record) -> Piece:
    failed = [piece for piece in record.pieces if piece.status != "ok"]
    return failed[0] if failed else Piece(key=["step"], status="skipped", message="nothing was measured")


def _labelled(row: StepRow, ready: Mapping[str, Any]) -> StepRow:
    label = row.path.rpartition(":")[2] if row.kind == "stage" else ready["labels"].get(row.path, "")
    return replace(row, label=label)


def _clean(taken: Taken) -> Seconds:
    return taken.clean("device_s" if taken.by_device else "wall_s")


def _whole(taken: Taken) -> Seconds:
    """The watched steps without what the instrument took for itself: what shares are shares of."""
    column = 3 if taken.by_device else 2
    return np.array(
        [
            sum(part[column] for part in piece.data["watched"]["parts"] if part[0] != "(instrument)")
            for piece in taken.pieces
        ]
    )


def _scale(taken: Taken) -> float:
    """What a second of a watched step is in a clean one."""
    return float(_clean(taken).sum() / _whole(taken).sum())


def _mean(taken: Taken, seconds: Seconds) -> Estimate:
    """Seconds per step: every step has a batch of its own, so it is their mean that a round has, and not a median."""
    rounds = sorted(set(taken.rounds))
    means = [[float(np.mean([s for s, r in zip(seconds, taken.rounds, strict=True) if r == one]))] for one in rounds]
    return summarise_rounds(means)


def _ratio(taken: Taken, top: Seconds, bottom: Seconds, unit: str = "") -> Estimate:
    found = cluster_ratio(top, bottom, clusters=taken.numbers, rounds=taken.rounds, unit=unit)
    # What is drawn anew here are steps.
    return replace(found, note=found.note.replace("utterance", "step"))


def _less_one(ratio: Estimate) -> Estimate:
    if ratio.value is None:
        return ratio
    low, high = (None if end is None else end - 1 for end in (ratio.low, ratio.high))
    return Estimate(ratio.value - 1, low, high, ratio.n, ratio.unit, ratio.note)
