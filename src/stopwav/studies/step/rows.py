"""The rows of a step run: the time of each module, stage and phase in every step, by itself and with its children."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stopwav.measure.module_rows import INSTRUMENT, is_repeated, parent_of
from stopwav.studies.step.completed_steps import CompletedSteps, Seconds

FORWARD = ("forward", "loss")
# Begins the path of a label, and each further one of nested labels: no module or stage has such a name.
LABEL = "@"


@dataclass(frozen=True)
class StepRow:
    """A row: its own seconds in every step, forward and backward, and in phases that are neither."""

    path: str
    kind: str
    type_name: str
    parent: str | None
    forward: Seconds
    backward: Seconds
    other: Seconds
    # With all of its children.
    total_forward: Seconds
    total_backward: Seconds
    # Host seconds; the same as above where there is no device.
    wall_forward: Seconds
    wall_backward: Seconds
    calls: float = 0.0
    parameters: int = 0
    parameter_bytes: int = 0
    held_bytes: int | None = None
    gradient_bytes: int | None = None
    state_bytes: int | None = None
    label: str = ""
    notes: tuple[str, ...] = ()
    # Of a row of repeated layers: the rows that it is the sum of.
    members: tuple[str, ...] = ()
    folded: str = ""

    @property
    def own(self) -> Seconds:
        """All of its own time, without its children."""
        return self.forward + self.backward + self.other

    @property
    def total(self) -> Seconds:
        """All of its time, with that of its children."""
        return self.total_forward + self.total_backward + self.other


@dataclass
class _Sums:
    forward: Seconds
    backward: Seconds
    other: Seconds
    wall_forward: Seconds
    wall_backward: Seconds

    def add(self, number: int, phase: str, wall_s: float, device_s: float | None) -> None:
        """Add the time of a part of a step, by the device's clock where there is one."""
        seconds = wall_s if device_s is None else device_s
        if phase in FORWARD:
            self.forward[number] += seconds
            self.wall_forward[number] += wall_s
        elif phase == "backward":
            self.backward[number] += seconds
            self.wall_backward[number] += wall_s
        else:
            self.other[number] += seconds

    def plus(self, inner: _Sums) -> _Sums:
        """Return the sums with those of a row inside; what is neither forward nor backward stays each row's own."""
        return _Sums(
            self.forward + inner.forward,
            self.backward + inner.backward,
            self.other,
            self.wall_forward + inner.wall_forward,
            self.wall_backward + inner.wall_backward,
        )


def make_rows(steps: CompletedSteps, ready: Mapping[str, Any], memory: Mapping[str, Any]) -> list[StepRow]:
    """Return the rows in the model's order, then those of no module; each with the sum of its children."""
    known = {row["path"]: row for row in ready["modules"]}
    own = _own_sums(steps, known)
    # A path is longer than that of any row around it.
    inner_first = sorted(own, key=len, reverse=True)
    parents = {path: _nearest(path, own) for path in own}
    totals = {path: replace(sums) for path, sums in own.items()}
    for path in inner_first:
        if (parent := parents[path]) is not None:
            totals[parent] = totals[parent].plus(totals[path])
    sizes = [_summed_sizes(memory.get(name), parents, inner_first) for name in ("held", "gradients", "states")]
    folds = _folds(own, known)
    return [
        _row(path, parents[path], own[path], totals[path], known.get(path, {}), steps, ready, sizes, folds[path])
        for path in own
    ]


def label_rows(steps: CompletedSteps, memory: Mapping[str, Any]) -> list[StepRow]:
    """Return a row for each label of the user's code, in the order of their first use, each after those around it.

    All its time is that of other rows: what runs from its beginning to its end, and the backward pass of that.
    """
    calls = Counter[tuple[str, ...]]()
    for piece in steps.pieces:
        for names, count in piece.data["watched"].get("label_calls", ()):
            calls[tuple(names)] += count
    own, total = ({names: _empty(len(steps.pieces)) for names in calls} for _ in range(2))
    for number, piece in enumerate(steps.pieces):
        for inside, phase, wall_s, device_s in piece.data["watched"].get("labels", ()):
            for names in _around(inside):
                for sums in (total, own) if len(names) == len(inside) else (total,):
                    if names in sums:
                        sums[names].add(number, "backward" if phase == "backward" else "forward", wall_s, device_s)
    held = Counter[tuple[str, ...]]()
    for inside, size in memory.get("held_by_label", ()):
        for names in _around(inside):
            held[names] += size
    position = {names: number for number, names in enumerate(calls)}
    nested = sorted(calls, key=lambda names: [position[names[: depth + 1]] for depth in range(len(names))])
    return [
        _label_row(names, calls[names] / len(steps.pieces), own[names], total[names], held[names] if memory else None)
        for names in nested
    ]


def _around(inside: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """A label by its name after those around it, and each of those."""
    return (tuple(inside[: depth + 1]) for depth in range(len(inside)))


def _label_row(names: tuple[str, ...], calls: float, own: _Sums, total: _Sums, held_bytes: int | None) -> StepRow:
    return StepRow(
        path=LABEL + LABEL.join(names),
        kind="label",
        type_name="",
        parent=LABEL + LABEL.join(names[:-1]) if names[:-1] else None,
        forward=own.forward,
        backward=own.backward,
        other=own.other,
        total_forward=total.forward,
        total_backward=total.backward,
        wall_forward=total.wall_forward,
        wall_backward=total.wall_backward,
        calls=calls,
        held_bytes=held_bytes,
        label=names[-1],
    )


def folded_rows(rows: Sequence[StepRow]) -> list[StepRow]:
    """Return a row for each set of repeated layers: the sum of its members."""
    groups: dict[str, list[StepRow]] = {}
    for row in rows:
        if is_repeated(row.path, row.folded):
            groups.setdefault(row.folded, []).append(row)
    return [_folded(path, group) for path, group in groups.items()]


def _own_sums(steps: CompletedSteps, known: Iterable[str]) -> dict[str, _Sums]:
    sums = {path: _empty(len(steps.pieces)) for path in known}
    for number, piece in enumerate(steps.pieces):
        for row, phase, wall_s, device_s in piece.data["watched"]["parts"]:
            if row == INSTRUMENT:
                continue
            if row not in sums:
                sums[row] = _empty(len(steps.pieces))
            sums[row].add(number, phase, wall_s, device_s)
    return sums


def _row(
    path: str,
    parent: str | None,
    own: _Sums,
    total: _Sums,
    about: Mapping[str, Any],
    steps: CompletedSteps,
    ready: Mapping[str, Any],
    sizes: Sequence[Mapping[str, int] | None],
    folded: str,
) -> StepRow:
    kind = about.get("kind") or ("stage" if ":" in path else "phase")
    held, gradients, states = (None if of_rows is None else of_rows[path] for of_rows in sizes)
    return StepRow(
        path=path,
        kind=kind,
        type_name=about.get("type_name", ""),
        parent=parent,
        forward=own.forward,
        backward=own.backward,
        other=own.other,
        total_forward=total.forward,
        total_backward=total.backward,
        wall_forward=total.wall_forward,
        wall_backward=total.wall_backward,
        calls=_calls(path, steps),
        parameters=about.get("parameters", 0),
        parameter_bytes=about.get("parameter_bytes", 0),
        held_bytes=held,
        gradient_bytes=gradients,
        state_bytes=states,
        label=_label(path, folded, kind, ready),
        notes=tuple(_notes(path, about, steps)),
        folded=folded,
    )


def _label(path: str, folded: str, kind: str, ready: Mapping[str, Any]) -> str:
    if kind == "stage":
        return path.rpartition(":")[2]
    # The label of repeated layers belongs to the row that is their sum.
    return "" if is_repeated(path, folded) else str(ready["labels"].get(path, ""))


def _notes(path: str, about: Mapping[str, Any], steps: CompletedSteps) -> Iterable[str]:
    if about.get("also"):
        yield f"the same module as {', '.join(about['also'])}: all its calls are counted here"
    callers = {caller for piece in steps.pieces for caller in piece.data["watched"]["callers"].get(path, ())}
    if callers:
        yield f"also called from {', '.join(sorted(callers))}, whose times do not include it"
    if path in steps.recomputed:
        yield "recomputed in the backward pass by a checkpoint: that time is part of its backward time"


def _folded(path: str, group: Sequence[StepRow]) -> StepRow:
    def summed(name: str) -> Any:
        values = [getattr(row, name) for row in group]
        return None if any(value is None for value in values) else sum(values[1:], values[0])

    names = ("forward", "backward", "other", "total_forward", "total_backward", "wall_forward", "wall_backward")
    numbers = ("calls", "parameters", "parameter_bytes", "held_bytes", "gradient_bytes", "state_bytes")
    parent = parent_of(path)
    return StepRow(
        path=path,
        kind=group[0].kind,
        type_name=group[0].type_name,
        parent=parent,
        **{name: summed(name) for name in (*names, *numbers)},
        notes=tuple(dict.fromkeys(note for row in group for note in row.notes)),
        members=tuple(row.path for row in group),
        folded=path,
    )


def _summed_sizes(
    sizes: Mapping[str, int] | None, parents: Mapping[str, str | None], inner_first: Sequence[str]
) -> dict[str, int] | None:
    """The bytes of each row with those of its children; None where the memory pass failed."""
    if sizes is None:
        return None
    summed = {path: sizes.get(path, 0) for path in inner_first}
    for path in inner_first:
        if (parent := parents[path]) is not None:
            summed[parent] += summed[path]
    return summed


def _calls(path: str, steps: CompletedSteps) -> float:
    counts = [piece.data["watched"]["calls"].get(path, 0) for piece in steps.pieces]
    return sum(counts) / len(counts) if counts else 0.0


def _folds(paths: Iterable[str], known: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The name of each row with a star for the number of a repeated layer; "" for a stage that is in none."""
    folds = dict.fromkeys(paths, "")
    for path in folds:
        head, colon, stage = path.rpartition(":")
        if path in known:
            folds[path] = known[path].get("folded", "")
        elif colon and head in known and is_repeated(head, known[head].get("folded", "")):
            folds[path] = f"{known[head]['folded']}:{stage}"
    # A module that is itself called by a star is not the sum of others, and hides none.
    return {path: path if fold and fold in known else fold for path, fold in folds.items()}


def _nearest(path: str, rows: Container[str]) -> str | None:
    parent = parent_of(path)
    while parent is not None and parent not in rows:
        parent = parent_of(parent)
    return parent


def _empty(count: int) -> _Sums:
    return _Sums(np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count))
