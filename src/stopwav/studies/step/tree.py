"""The rows of a step as a tree: which of them are shown, in what order, and how deep each stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from stopwav.measure.module_rows import COMMUNICATION, DATA, LOSS, MODEL, OPTIMIZER, REST, is_repeated
from stopwav.record import Result

# More rows than anybody reads, and few enough that a page stays small: run files, CSV and JSON have all.
MOST_ROWS = 400
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
        labels = [result for result in self.results if result.kind == "label"][:MOST_ROWS]
        depths: dict[str, int] = {}
        for label in labels:
            depths[label.name] = depths.get(str(label.params["parent"]), -1) + 1
        return [TreeRow(depths[label.name], str(label.params["label"]), label) for label in labels]

    @property
    def ranks(self) -> list[Result]:
        """The processes of a distributed run."""
        return [result for result in self.results if result.kind == "rank"]

    @property
    def listed(self) -> Sequence[Result]:
        """The results whose every metric a page lists: all, or where these are too many, those that it shows."""
        if len(self.results) <= MOST_ROWS:
            return self.results
        return [self.step, *(row.result for row in (*self.shown(), *self.labels)), *self.ranks]

    @property
    def warned(self) -> list[Result]:
        """The results with the warnings that no mark in the table stands for."""
        kept = [
            replace(result, warnings=tuple(warning for warning in result.warnings if warning.code != "below-noise"))
            for result in self.results
        ]
        return [result for result in kept if result.warnings]

    def left_out(self, *, unfold: bool = False, page: bool = False) -> str:
        """Return what is not shown, and where it is, as a sentence; "" where all is shown."""
        rows = sum(_is_shown(row, unfold) for row in self.rows)
        labels = sum(result.kind == "label" for result in self.results)
        parts = [f"the {MOST_ROWS} of {rows:,} rows with the largest shares"] if rows > MOST_ROWS else []
        parts += [f"the first {MOST_ROWS} of {labels:,} labels"] if labels > MOST_ROWS else []
        if page and len(self.results) > MOST_ROWS:
            parts.append("every metric of these rows alone")
        return f"Shown: {' and '.join(parts)}; --csv and --json have all, --depth makes fewer" if parts else ""

    def shown(self, *, unfold: bool = False) -> list[TreeRow]:
        """Return the rows that are shown: repeated layers as one row, or one by one where they are unfolded.

        Of too many, those with the largest shares, and the rows around them.
        """
        shown = {path_of(row): row for row in self.rows if _is_shown(row, unfold)}
        order = {path_of(row): position for position, row in enumerate(self.rows)}
        first = {path: order[members_of(row)[0]] if members_of(row) else order[path] for path, row in shown.items()}
        parents = {path: self._parent(path, shown) for path in shown}
        kept = _largest(shown, parents)
        children: dict[str | None, list[str]] = {}
        for path in sorted(kept, key=lambda path: (_ORDER.get(path, 0), first[path])):
            children.setdefault(parents[path], []).append(path)
        return list(_walk(children, shown))

    @cached_property
    def largest(self) -> list[Result]:
        """The shown rows of model and loss, the largest share of their own first, without their children."""
        rows = [row.result for row in self.shown() if row.result.kind != "phase" or row.result.name == LOSS]
        return sorted(rows, key=lambda row: -(row.metrics["self_share"].value or 0.0))

    @cached_property
    def _parents(self) -> dict[str, str | None]:
        return {path_of(row): cast("str | None", row.params["parent"]) for row in self.rows}

    def _parent(self, path: str, shown: Mapping[str, Result]) -> str | None:
        """The nearest row around a row that is shown."""
        parent = self._parents[path]
        while parent is not None and parent not in shown:
            outer = parent.rpartition(".")[0] if parent else None
            parent = self._parents.get(parent, outer)
        return parent


def path_of(row: Result) -> str:
    """Return the path of a row: its name, but for the model itself, since a module may be called so."""
    return MODEL if row.kind == "model" else row.name


def members_of(row: Result) -> list[str]:
    """Return the names of the repeated layers that a row is the sum of."""
    return list(cast("list[str]", row.params["members"]))


def _is_shown(row: Result, unfold: bool) -> bool:
    # A list of modules is never called: its children stand in its place.
    if row.kind == "module" and not row.metrics["calls"].value and not row.metrics["self_share"].value:
        return False
    summed = row.kind == "layers"
    return not summed if unfold else summed or not is_repeated(path_of(row), str(row.params["folded"]))


def _largest(shown: Mapping[str, Result], parents: Mapping[str, str | None]) -> Iterable[str]:
    """The rows that are kept where there are too many: the largest, each with the rows around it."""
    if len(shown) <= MOST_ROWS:
        return shown
    kept: dict[str, None] = {}
    refused: set[str] = set()
    for path in sorted(shown, key=lambda path: -(shown[path].metrics["share"].value or 0.0)):
        around: list[str] = []
        outer: str | None = path
        while outer is not None and outer not in kept and outer not in refused:
            around.append(outer)
            outer = parents[outer]
        if outer in refused or len(kept) + len(around) > MOST_ROWS:
            refused.add(path)
        else:
            kept |= dict.fromkeys(around)
    return kept


def _walk(children: Mapping[str | None, list[str]], shown: Mapping[str, Result]) -> Iterator[TreeRow]:
    """The rows from the outside in, each before those inside it; without recursion, as names may be any depth."""
    open_rows: list[tuple[int, str | None, str]] = [(0, None, path) for path in reversed(children.get(None, []))]
    while open_rows:
        depth, parent, path = open_rows.pop()
        yield TreeRow(depth, _relative_name(shown[path], parent), shown[path])
        open_rows += [(depth + 1, path, inner) for inner in reversed(children.get(path, []))]


def _relative_name(row: Result, parent: str | None) -> str:
    """The name of a row without that of its parent, with its class for the model and a count for repeated layers."""
    short = row.name.removeprefix(parent).lstrip(".:/") if parent else row.name.lstrip(":")
    count = len(members_of(row))
    kind = f" {row.params['type']}" if row.kind == "model" and row.params["type"] else ""
    return f"{short}{kind}" + (f" ×{count}" if count else "")
