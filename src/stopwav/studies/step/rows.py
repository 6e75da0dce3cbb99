"""The rows of a step run: the time of each module, stage and phase in every step, by itself and with its children."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stopwav.measure.module_rows import INSTRUMENT, parent_of
from stopwav.record import Piece, Record

Seconds = NDArray[np.float64]
FORWARD = ("forward", "loss")
# Begins the path of a label, and each further one of nested labels: no module or stage has such a name.
LABEL = "@"


@dataclass(frozen=True)
class CompletedSteps:
    """The steps of a run that completed, in order: their batches, clean and profiled times, and rounds."""

    pieces: list[Piece]
    # Whether rows are by the device's clock; else by the wall's.
    by_device: bool

    @property
    def rounds(self) -> list[int]:
        """The round of each step."""
        return [int(piece.key[1]) for piece in self.pieces]

    @property
    def numbers(self) -> list[int]:
        """The number of each step in its round."""
        return [int(piece.key[2]) for piece in self.pieces]

    def clean(self, clock: str = "wall_s") -> Seconds:
        """Return the times of the clean steps."""
        return np.array([piece.data["clean"][clock] for piece in self.pieces], dtype=float)

    def profiled(self) -> Seconds:
        """Return the wall times of the profiled steps, the instrument's own time included."""
        return np.array([piece.data["watched"]["wall_s"] for piece in self.pieces], dtype=float)

    def phase(self, name: str, clock: int) -> Seconds:
        """Return the time of a phase in the clean steps: by the wall (0) or by the device (1)."""
        return np.array([piece.data["clean"]["phases"][name][clock] for piece in self.pieces], dtype=float)


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
    children: list[str] = field(default_factory=list)

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


def completed_steps(record: Record, rank: int = 0) -> CompletedSteps:
    """Return the steps of a run that completed, of the first process or of another one."""
    start = ["rank", rank] if rank else []
    pieces = [
        piece for piece in record.pieces if piece.status == "ok" and piece.key[: len(start) + 1] == [*start, "step"]
    ]
    pieces = [
        Piece(piece.key[len(start) :], piece.status, piece.message, piece.last_words, piece.data) for piece in pieces
    ]
    by_device = bool(pieces) and pieces[0].data["watched"]["device_s"] is not None
    return CompletedSteps(pieces, by_device)


def make_rows(steps: CompletedSteps, ready: Mapping[str, Any], memory: Mapping[str, Any]) -> list[StepRow]:
    """Return the rows in the model's order, then those of no module; each with the sum of its children."""
    known = {row["path"]: row for row in ready["modules"]}
    sums = _own_sums(steps, known)
    order = [*known, *(path for path in sums if path not in known)]
    for path in order:
        sums.setdefault(path, _empty(len(steps.pieces)))
    parents = {path: _nearest(path, set(order)) for path in order}
    for path, parent in parents.items():
        if parent is not None:
            sums[parent].children.append(path)
    return [_row(path, parents[path], sums, known.get(path, {}), steps, ready, memory) for path in order]


def label_rows(steps: CompletedSteps, memory: Mapping[str, Any]) -> list[StepRow]:
    """Return a row for each label of the user's code, in the order of their first use, each after those around it.

    All its time is that of other rows: what runs from its beginning to its end, and the backward pass of that.
    """
    calls = Counter[tuple[str, ...]]()
    for piece in steps.pieces:
        for names, count in piece.data["watched"].get("label_calls", ()):
            calls[tuple(names)] += count
    held = memory.get("held_by_label", ()) if memory else None
    position = {names: number for number, names in enumerate(calls)}
    nested = sorted(calls, key=lambda names: [position[names[: depth + 1]] for depth in range(len(names))])
    return [_label_row(names, calls[names] / len(steps.pieces), steps, held) for names in nested]


def _label_row(
    names: tuple[str, ...], calls: float, steps: CompletedSteps, held: Sequence[tuple[list[str], int]] | None
) -> StepRow:
    own, total = _empty(len(steps.pieces)), _empty(len(steps.pieces))
    for number, piece in enumerate(steps.pieces):
        for inside, phase, wall_s, device_s in piece.data["watched"].get("labels", ()):
            for sums in (total, own) if tuple(inside) == names else (total,) if _is_within(inside, names) else ():
                sums.add(number, "backward" if phase == "backward" else "forward", wall_s, device_s)
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
        held_bytes=None if held is None else sum(size for inside, size in held if _is_within(inside, names)),
        label=names[-1],
    )


def _is_within(inside: Sequence[str], names: tuple[str, ...]) -> bool:
    return tuple(inside[: len(names)]) == names


def folded_rows(rows: Sequence[StepRow]) -> list[StepRow]:
    """Return a row for each set of repeated layers: the sum of its members."""
    groups: dict[str, list[StepRow]] = {}
    for row in rows:
        if "*" in row.folded:
            groups.setdefault(row.folded, []).append(row)
    return [_folded(path, group) for path, group in groups.items()]


def _own_sums(steps: CompletedSteps, known: Iterable[str]) -> dict[str, _Sums]:
    sums = {path: _empty(len(steps.pieces)) for path in known}
    for number, piece in enumerate(steps.pieces):
        for row, phase, wall_s, device_s in piece.data["watched"]["parts"]:
            if row == INSTRUMENT:
                continue
            sums.setdefault(row, _empty(len(steps.pieces))).add(number, phase, wall_s, device_s)
    return sums


def _row(
    path: str,
    parent: str | None,
    sums: dict[str, _Sums],
    about: Mapping[str, Any],
    steps: CompletedSteps,
    ready: Mapping[str, Any],
    memory: Mapping[str, Any],
) -> StepRow:
    own = sums[path]
    kind = about.get("kind") or ("stage" if ":" in path else "phase")
    held, gradients, states = (_within(path, sums, memory.get(name)) for name in ("held", "gradients", "states"))
    folded = about.get("folded", "") or _stage_fold(path, ready)
    return StepRow(
        path=path,
        kind=kind,
        type_name=about.get("type_name", ""),
        parent=parent,
        forward=own.forward,
        backward=own.backward,
        other=own.other,
        total_forward=_total(path, sums, "forward"),
        total_backward=_total(path, sums, "backward"),
        wall_forward=_total(path, sums, "wall_forward"),
        wall_backward=_total(path, sums, "wall_backward"),
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
    return "" if "*" in folded else str(ready["labels"].get(path, ""))


def _notes(path: str, about: Mapping[str, Any], steps: CompletedSteps) -> Iterable[str]:
    if about.get("also"):
        yield f"the same module as {', '.join(about['also'])}: all its calls are counted here"
    callers = {caller for piece in steps.pieces for caller in piece.data["watched"]["callers"].get(path, ())}
    if callers:
        yield f"also called from {', '.join(sorted(callers))}, whose times do not include it"
    if any(path in piece.data["watched"]["recomputed"] for piece in steps.pieces):
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


def _total(path: str, sums: dict[str, _Sums], name: str) -> Seconds:
    own: Seconds = getattr(sums[path], name)
    return sum((_total(child, sums, name) for child in sums[path].children), own)


def _within(path: str, sums: dict[str, _Sums], sizes: Mapping[str, int] | None) -> int | None:
    if sizes is None:
        return None
    return sizes.get(path, 0) + sum(_within(child, sums, sizes) or 0 for child in sums[path].children)


def _calls(path: str, steps: CompletedSteps) -> float:
    counts = [piece.data["watched"]["calls"].get(path, 0) for piece in steps.pieces]
    return sum(counts) / len(counts) if counts else 0.0


def _stage_fold(path: str, ready: Mapping[str, Any]) -> str:
    head, colon, stage = path.rpartition(":")
    module = next((row for row in ready["modules"] if row["path"] == head), None)
    return f"{module['folded']}:{stage}" if colon and module and "*" in module["folded"] else ""


def _nearest(path: str, rows: set[str]) -> str | None:
    parent = parent_of(path)
    while parent is not None and parent not in rows:
        parent = parent_of(parent)
    return parent


def _empty(count: int) -> _Sums:
    return _Sums(np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count))
