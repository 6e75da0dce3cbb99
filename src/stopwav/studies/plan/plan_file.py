"""The plan file of `stopwav run`: studies in YAML, with shared settings on top and matrices that expand."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stopwav.errors import StopwavError, suggestion
from stopwav.studies.plan.matrix import Matrix, fill, read_matrix, references
from stopwav.studies.plan.speechbrain_recipe import is_recipe, read_recipe
from stopwav.studies.plan.yaml_file import Node, as_node, kind, parse_yaml, read_yaml, shown
from stopwav.studies.spec import said
from stopwav.studies.study import STUDIES, Study, flag_of

# The setting that holds several engines: cells that differ in nothing else become one run, in which they take turns.
_ENGINES = "engines"


@dataclass(frozen=True)
class Cell:
    """One run to make: of which study, with which arguments of its function, and where in the file it is asked for."""

    study: str
    where: str
    arguments: dict[str, Any]
    # Where each argument stands, for what is found wrong with it later.
    places: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def settings(self) -> Any:
        """Every setting of the run, those that the file does not name at their defaults."""
        return STUDIES[self.study].settings.model_validate(self.arguments)


def read_plan(path: Path | str, overrides: Mapping[str, Any] | None = None) -> list[Cell]:
    """The runs that a plan file asks for, all of them checked; overrides win over what the file says."""
    nodes = {key: as_node(value, f"override {key}") for key, value in (overrides or {}).items()}
    return cells_of(read_yaml(Path(path)), nodes)


def parse_override(text: str) -> tuple[str, Node]:
    """The key and the value of `--set KEY=VALUE`."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise StopwavError(f"--set {shown(text)}: write KEY=VALUE, such as --set limit=5")
    where = f"--set {key.strip()}"
    return key.strip(), as_node(parse_yaml(value, where).plain(), where)


def cells_of(root: Node, overrides: Mapping[str, Node]) -> list[Cell]:
    """The runs that a file's content asks for."""
    shared = dict(root.mapping("the file"))
    listed = shared.pop("studies", None)
    if listed is None:
        near = difflib.get_close_matches("studies", list(shared), n=1)
        hint = f"did you mean it by {shown(near[0])}?" if near else "see docs/guides/run-from-a-file.md"
        raise StopwavError(f"{root.where}: no `studies`, the list of what to run; {hint}")
    entries = [_entry(node) for node in listed.sequence("studies")]
    if not entries:
        raise StopwavError(f"{listed.where}: studies is empty; write `- latency: {{engines: [pocketsphinx]}}` in it")
    named = [study for study, _ in entries]
    _check_used(shared, named, "no study of this file")
    _check_used(overrides, named, "no study of the file")
    cells = [cell for study, node in entries for cell in _expand(study, node, shared, overrides)]
    _check_different(cells)
    return cells


def _entry(node: Node) -> tuple[Study, Node]:
    entry = node.mapping("an item of studies")
    if len(entry) != 1:
        found = ", ".join(map(shown, entry)) or "nothing"
        raise StopwavError(f"{node.where}: an item of studies names one study and holds its settings, here {found}")
    ((name, settings),) = entry.items()
    if name not in STUDIES:
        raise StopwavError(f"{settings.key_where}: unknown study {shown(name)}; {suggestion(name, STUDIES)}")
    return STUDIES[name], settings


def _check_used(settings: Mapping[str, Node], studies: Iterable[Study], nobody: str) -> None:
    """Raise for a setting that none of the studies takes."""
    several = list(studies)
    for key, node in settings.items():
        if not any(_is_key(study, key) for study in several):
            keys = dict.fromkeys(one for study in several for one in [*study.keys(), "studies", "quick"])
            raise StopwavError(f"{node.key_where}: unknown key {shown(key)}, which {nobody} takes; {_hint(key, keys)}")


def _is_key(study: Study, key: str) -> bool:
    return key == "quick" or study.setting(key) is not None


def _hint(key: str, keys: Iterable[str]) -> str:
    return suggestion(key.replace("_", "-"), keys)


def _expand(study: Study, node: Node, shared: Mapping[str, Node], overrides: Mapping[str, Node]) -> list[Cell]:
    """The runs of one entry: one, or with a matrix one for each combination."""
    own = {} if node.value is None else dict(node.mapping(study.name))
    matrix_node = own.pop("matrix", None)
    for key, value in own.items():
        if not _is_key(study, key):
            hint = _hint(key, [*study.keys(), "quick", "matrix"])
            raise StopwavError(f"{value.key_where}: unknown key {shown(key)} of {study.name}; {hint}")
    settings: dict[str, Node] = {}
    for level in (shared, own, overrides):
        settings |= _named(study, level)
    if matrix_node is None:
        return [_cell(study, node, settings)]
    matrix = read_matrix(matrix_node)
    return _together([_cell(study, node, filled) for filled in _filled(study, settings, matrix, matrix_node)])


def _named(study: Study, level: Mapping[str, Node]) -> dict[str, Node]:
    """The settings of one level that the study takes, by parameter name."""
    found: dict[str, Node] = {}
    for key, node in level.items():
        name = study.setting(key)
        if name in found:
            raise StopwavError(f"{node.key_where}: {shown(key)} is the same as the key at {found[name].key_where}")
        if name is not None:
            found[name] = node
    quick = level.get("quick")
    if quick is not None and "rounds" in study.settings.model_fields:
        if not isinstance(quick.value, bool):
            raise StopwavError(f"{quick.where}: quick should be true or false, not {kind(quick)}")
        if quick.value:
            found["rounds"] = replace(quick, value=1)
    return found


def _filled(study: Study, settings: dict[str, Node], matrix: Matrix, where: Node) -> Iterator[dict[str, Node]]:
    """The settings under each combination; a name of the matrix that is used nowhere may be a setting itself."""
    used = {name for node in settings.values() for name in references(node)}
    direct = {}
    for name in matrix.axes:
        if name not in used:
            key = study.setting(name)
            if key is None or key in settings:
                place = where.value[name].key_where
                raise StopwavError(f"{place}: matrix {name} is used nowhere; write {{{name}}} in a setting")
            direct[name] = key
    for combination in matrix.combinations():
        filled = {name: fill(node, combination) for name, node in settings.items()}
        yield filled | {key: as_node(combination[name], where.value[name].where) for name, key in direct.items()}


def _cell(study: Study, node: Node, settings: dict[str, Node]) -> Cell:
    properties = study.settings.model_json_schema()["properties"]
    nodes = {name: _listed(one, properties[name]) for name, one in settings.items()}
    try:
        # As JSON: strict about types (true is no number, "3" is none), yet a list may become a tuple and a text a path.
        text = json.dumps({name: one.plain() for name, one in nodes.items()})
        model = study.settings.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise StopwavError(_wrong(error, study, node, nodes)) from None
    places = {name: one.where for name, one in nodes.items()}
    arguments = model.model_dump(exclude_unset=True)
    if is_recipe(arguments.get("engine", "")):
        # As on the command line: what is said here wins over what the recipe says.
        arguments = read_recipe(arguments.pop("engine"), arguments.keys()) | arguments
    return Cell(study.name, node.key_where or node.where, arguments, places)


def _listed(node: Node, schema: Mapping[str, Any]) -> Node:
    """The node, as a list where a list is wanted: of one value, or of the numbers of `1,2,5` as a flag takes them."""
    kinds = [schema, *schema.get("anyOf", ())]
    array = next((one for one in kinds if one.get("type") == "array"), None)
    if array is None or node.value is None or isinstance(node.value, list | dict):
        return node
    if isinstance(node.value, str) and array.get("items", {}).get("type") in ("number", "integer"):
        return replace(
            node, value=[as_node(parse_yaml(part, node.where).plain(), node.where) for part in node.value.split(",")]
        )
    return replace(node, value=[node])


def _wrong(error: ValidationError, study: Study, entry: Node, nodes: Mapping[str, Node]) -> str:
    first = error.errors(include_url=False)[0]
    message = said(first)
    if not first["loc"]:  # settings that do not go together; the message names them
        return f"{entry.key_where or entry.where}: {message}"
    name, *path = first["loc"]
    key = flag_of(str(name))
    if first["type"] == "missing":
        return f"{entry.key_where or entry.where}: {study.name} needs {key!r}, which is not there"
    node = nodes.get(str(name), entry)
    for part in path:
        if isinstance(part, int) and isinstance(node.value, list) and part < len(node.value):
            node = node.value[part]
    if first["type"] == "value_error":  # of the house, about the value as a whole
        return f"{node.where}: {key} {shown(node.plain())}: {message}"
    hint = "; put it in quotes" if first["type"] == "string_type" and not isinstance(node.value, list | dict) else ""
    return f"{node.where}: {key} {message}, not {kind(node)}{hint}"


def _together(cells: list[Cell]) -> list[Cell]:
    """The cells of one matrix, those that differ in the engines alone as one run, so that the engines take turns."""
    if _ENGINES not in cells[0].arguments:
        return cells
    found: dict[str, Cell] = {}
    for cell in cells:
        rest = repr({name: value for name, value in cell.arguments.items() if name != _ENGINES})
        before = found[rest].arguments[_ENGINES] if rest in found else []
        found[rest] = replace(cell, arguments={**cell.arguments, _ENGINES: [*before, *cell.arguments[_ENGINES]]})
    return list(found.values())


def _check_different(cells: list[Cell]) -> None:
    # --resume finds a run by its settings: it could not tell two equal ones apart.
    first: dict[tuple[str, str], Cell] = {}
    for cell in cells:
        other = first.setdefault((cell.study, repr(cell.settings)), cell)
        if other is not cell:
            raise StopwavError(
                f"{cell.where}: asks for the same run as {other.where}; give it another seed, or remove it"
            )
