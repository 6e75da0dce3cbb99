"""The modules of a model as rows of a table: which of them are profiled, their names, and their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

Kind = Literal["model", "module", "stage", "phase"]

# Parts of a step that are not modules. The brackets distinguish them from modules of the same name.
DATA, LOSS, OPTIMIZER, REST, COMMUNICATION = "(data)", "(loss)", "(optimizer)", "(rest)", "(communication)"
# Time that the profiler itself takes: it is not part of the step.
INSTRUMENT = "(instrument)"
# The model itself, as PyTorch names it.
MODEL = ""
# The active row at the beginning of each phase of a step.
PHASE_ROWS = {"data": DATA, "forward": MODEL, "loss": LOSS, "backward": LOSS, "optimizer": OPTIMIZER, "rest": REST}


@dataclass(frozen=True)
class ModuleRow:
    """A profiled module: its first name, its class, and its parameters, those of modules inside it included."""

    path: str
    kind: Kind
    type_name: str
    parameters: int = 0
    parameter_bytes: int = 0
    # Further names of the same module.
    also: tuple[str, ...] = ()
    # The name of the row that repeated layers share.
    folded: str = ""


@dataclass(frozen=True)
class RowSet:
    """The rows of a model, and the row of each module and of each parameter."""

    rows: dict[str, ModuleRow]
    modules: list[tuple[Any, str]]
    # By the identity of the parameter: the row of the innermost profiled module that has it.
    owners: dict[int, str]
    # Parameters that several modules share, by the name under which they are counted.
    shared: dict[str, tuple[str, ...]]


def rows_of(model: Any, depth: int, patterns: Sequence[str] = ()) -> RowSet:
    """Return the modules of a model down to `depth`, and those that match a pattern such as `encoder.layers.*.conv`.

    The number of a layer among others of its class does not count towards the depth: `encoder.layers.3.conv` is 3 deep.
    """
    paths_of: dict[int, list[str]] = {}
    modules: dict[int, Any] = {}
    folded = {MODEL: MODEL}
    for path, module in model.named_modules(remove_duplicate=False):
        paths_of.setdefault(id(module), []).append(path)
        modules[id(module)] = module
        folded |= _folded_children(path, folded[path], module)
    profiled: dict[str, Any] = {}
    for key, (path, *_) in paths_of.items():
        if depth_of(folded[path]) <= depth or any(fnmatchcase(path, pattern) for pattern in patterns):
            # Of two modules of the same name, which only odd names can give, the first.
            profiled.setdefault(path, modules[key])
    rows = {
        path: _row(path, folded[path], module, tuple(paths_of[id(module)][1:])) for path, module in profiled.items()
    }
    owners, shared = _owners(model, profiled)
    return RowSet(rows, [(module, path) for path, module in profiled.items()], owners, shared)


def is_repeated(path: str, folded: str) -> bool:
    """Return whether a row is one of repeated layers: its folded name is then another one than its own."""
    # Not by a star in it: a module may be called so.
    return folded not in ("", path)


def depth_of(path: str) -> int:
    """Return the depth of a row, by its folded name."""
    return sum(part != "*" for part in path.split(".")) if path else 0


def parent_of(path: str) -> str | None:
    """Return the row above: for a stage the row it ran in, for a module the module around it."""
    if path == MODEL:
        return None
    head, colon, stage = path.rpartition(":")
    if colon:
        outer, slash, _ = stage.rpartition("/")
        return f"{head}:{outer}" if slash else head
    return None if path.startswith("(") else path.rpartition(".")[0]


def _row(path: str, folded: str, module: Any, also: tuple[str, ...]) -> ModuleRow:
    parameters = list(module.parameters())
    return ModuleRow(
        path,
        "module" if path else "model",
        type(module).__name__,
        sum(parameter.numel() for parameter in parameters),
        sum(parameter.numel() * parameter.element_size() for parameter in parameters),
        also,
        folded,
    )


def _folded_children(path: str, folded: str, module: Any) -> dict[str, str]:
    """Return the paths of a module's children, with a star for each number of a list that is all of one class."""
    classes = [type(child) for name, child in module.named_children() if name.isdigit()]
    repeated = len(classes) > 1 and len(set(classes)) == 1
    return {
        _joined(path, name): _joined(folded, "*" if repeated and name.isdigit() else name)
        # Not named_children, which leaves out the second name of a module.
        for name, child in module._modules.items()
        if child is not None
    }


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _owners(model: Any, profiled: dict[str, Any]) -> tuple[dict[int, str], dict[str, tuple[str, ...]]]:
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    owners = {key: _innermost(paths[0].rpartition(".")[0], profiled) for key, paths in names.items()}
    return owners, {paths[0]: tuple(paths[1:]) for paths in names.values() if len(paths) > 1}


def _innermost(path: str, profiled: dict[str, Any]) -> str:
    while path and path not in profiled:
        path = path.rpartition(".")[0]
    return path
