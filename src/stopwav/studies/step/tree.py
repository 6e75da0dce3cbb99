"""The rows of a step as a tree: which of them are shown, in what order, and how deep each stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from stopwav.measure.module_rows import COMMUNICATION, DATA, LOSS, OPTIMIZER, REST
from stopwav.record import Result

MODEL = "model"
# The phases in the order of a step: the data come before the model, the others after it.
_ORDER = {DATA: -1, LOSS: 1, OPTIMIZER: 2, COMMUNICATION: 3, REST: 4}


@dataclass(frozen=True)
class TreeRow:
    """A row of the tree: how deep it stands, its name there, and its result."""

    depth: int
    name: str
    result: Result


@dataclass(frozen=True)
class StepTree:
    """The results of a step run: the step, its rows, and its processes where there are several."""

    results: Sequence[Result]

    @property
    def step(self) -> Result:
        """The step as a whole."""
        return self.results[0]

    @cached_property
    def rows(self) -> list[Result]:
        """The rows in the model's order."""
        return [result for result in self.results if result.kind not in ("step", "rank", "label")]

    @property
    def labels(self) -> list[TreeRow]:
        """The labels of the user's code, each as deep as it is nested: the time of other rows, seen once more."""
        labels = [result for result in self.results if result.kind == "label"]
        depths: dict[str, int] = {}
        for label in labels:
            depths[label.name] = depths.get(str(label.params["parent"]), -1) + 1
        return [TreeRow(depths[label.name], str(label.params["label"]), label) for label in labels]

    @property
    def ranks(self) -> list[Result]:
        """The processes of a distributed run."""
        return [result for result in self.results if result.kind == "rank"]

    def shown(self, *, unfold: bool = False) -> list[TreeRow]:
        """Return the rows that are shown: repeated layers as one row, or one by one where they are unfolded."""
        shown = {row.name: row for row in self.rows if _is_shown(row, unfold)}
        order = {row.name: position for position, row in enumerate(self.rows)}
        first = {name: order[members_of(row)[0]] if members_of(row) else order[name] for name, row in shown.items()}
        children: dict[str | None, list[str]] = {}
        for name in sorted(shown, key=lambda name: (_ORDER.get(name, 0), first[name])):
            children.setdefault(self._parent(name, shown), []).append(name)
        return list(_walk(None, 0, children, shown))

    def largest(self) -> list[Result]:
        """Return the shown rows of model and loss, the largest share of their own first, without their children."""
        rows = [row.result for row in self.shown() if row.result.kind != "phase" or row.result.name == LOSS]
        return sorted(rows, key=lambda row: -(row.metrics["self_share"].value or 0.0))

    @cached_property
    def _parents(self) -> dict[str, str | None]:
        return {row.name: cast("str | None", row.params["parent"]) for row in self.rows}

    def _parent(self, name: str, shown: Mapping[str, Result]) -> str | None:
        """The nearest row around a row that is shown."""
        parent = self._parents[name]
        while parent is not None:
            parent = parent or MODEL
            if parent in shown:
                return parent
            parent = self._parents[parent] if parent in self._parents else parent.rpartition(".")[0]
        return None


def members_of(row: Result) -> list[str]:
    """Return the names of the repeated layers that a row is the sum of."""
    return list(cast("list[str]", row.params["members"]))


def _is_shown(row: Result, unfold: bool) -> bool:
    # A list of modules is never called: its children stand in its place.
    if row.kind == "module" and not row.metrics["calls"].value and not row.metrics["self_share"].value:
        return False
    summed = row.kind == "layers"
    return not summed if unfold else summed or "*" not in str(row.params["folded"])


def _walk(
    parent: str | None, depth: int, children: Mapping[str | None, list[str]], shown: Mapping[str, Result]
) -> Iterator[TreeRow]:
    for name in children.get(parent, ()):
        yield TreeRow(depth, _relative_name(shown[name], parent), shown[name])
        yield from _walk(name, depth + 1, children, shown)


def _relative_name(row: Result, parent: str | None) -> str:
    """The name of a row without that of its parent, with its class for the model and a count for repeated layers."""
    base = "" if parent in (None, MODEL) else str(parent)
    short = row.name.removeprefix(base).lstrip(".:/") if base else row.name.lstrip(":")
    count = len(members_of(row))
    kind = f" {row.params['type']}" if row.name == MODEL and row.params["type"] else ""
    return f"{short}{kind}" + (f" ×{count}" if count else "")
