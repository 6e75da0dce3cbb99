"""The modules of a model as rows of a table: which of them are watched, what they are called, and what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

Kind = Literal["model", "module", "stage", "phase"]

# Parts of a step that are no module. The brackets keep them apart from modules of the same name.
DATA, LOSS, OPTIMIZER, REST, COMMUNICATION = "(data)", "(loss)", "(optimizer)", "(rest)", "(communication)"
# Time that the instrument takes for itself: it is no part of the step.
INSTRUMENT = "(instrument)"
# The model itself, as PyTorch names it.
MODEL = ""


@dataclass(frozen=True)
class ModuleRow:
    """A module that is watched: its first name, its class, and its own parameters with those of modules inside it."""

    path: str
    kind: Kind
    type_name: str
    parameters: int = 0
    parameter_bytes: int = 0
    # Other names of the same module.
    also: tuple[str, ...] = ()
    # The name of its row when repeated layers share one.
    folded: str = ""


@dataclass(frozen=True)
class RowSet:
    """The rows of a model, and which row each module and each parameter belongs to."""

    rows: dict[str, ModuleRow]
    modules: list[tuple[Any, str]]
    # By the identity of the parameter: the row of the innermost watched module that holds it.
    owners: dict[int, str]
    # Parameters that several modules hold, by the name under which they are counted.
    shared: dict[str, tuple[str, ...]]


def rows_of(model: Any, depth: int, patterns: Sequence[str] = ()) -> RowSet:
    """The modules of a model down to `depth`, and any whose name matches a pattern such as `encoder.layers.*.conv`.

    The number of a layer among others of its class does not count towards the depth: `encoder.layers.3.conv` is 3 deep.
    """
    named: dict[int, list[str]] = {}
    found: dict[int, Any] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        named.setdefault(id(module), []).append(path)
        found[id(module)] = module
    watched = {
        paths[0]: found[key]
        for key, paths in named.items()
        if depth_of(_folded(paths[0], model)) <= depth or any(fnmatchcase(paths[0], one) for one in patterns)
    }
    rows = {path: _row(path, module, model, tuple(named[id(module)][1:])) for path, module in watched.items()}
    owners, shared = _owners(model, watched)
    return RowSet(rows, [(module, path) for path, module in watched.items()], owners, shared)


def depth_of(path: str) -> int:
    """How deep a row lies, by its folded name."""
    return sum(part != "*" for part in path.split(".")) if path else 0


def parent_of(path: str) -> str | None:
    """The row that a row belongs to: of a stage what it was passed in, of a module the module around it."""
    if path == MODEL:
        return None
    head, colon, stage = path.rpartition(":")
    if colon:
        outer, slash, _ = stage.rpartition("/")
        return f"{head}:{outer}" if slash else head
    return None if path.startswith("(") else path.rpartition(".")[0]


def _row(path: str, module: Any, model: Any, also: tuple[str, ...]) -> ModuleRow:
    held = list(module.parameters())
    return ModuleRow(
        path,
        "module" if path else "model",
        type(module).__name__,
        sum(one.numel() for one in held),
        sum(one.numel() * one.element_size() for one in held),
        also,
        _folded(path, model),
    )


def _folded(path: str, model: Any) -> str:
    """The path with a star for each number of a list whose modules are all of one class."""
    parts: list[str] = []
    around = model
    for part in path.split(".") if path else []:
        alike = [type(child) for name, child in around.named_children() if name.isdigit()]
        parts.append("*" if part.isdigit() and len(alike) > 1 and len(set(alike)) == 1 else part)
        around = getattr(around, part)
    return ".".join(parts)


def _owners(model: Any, watched: dict[str, Any]) -> tuple[dict[int, str], dict[str, tuple[str, ...]]]:
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    owners = {key: _innermost(paths[0].rpartition(".")[0], watched) for key, paths in names.items()}
    return owners, {paths[0]: tuple(paths[1:]) for paths in names.values() if len(paths) > 1}


def _innermost(path: str, watched: dict[str, Any]) -> str:
    while path and path not in watched:
        path = path.rpartition(".")[0]
    return path
