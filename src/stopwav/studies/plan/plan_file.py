"""The plan file of `stopwav run`: studies in YAML, with shared settings on top and matrices that expand."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stopwav.errors import StopwavError, suggestion
from stopwav.studies.budget import QUICK_S
from stopwav.studies.plan.matrix import Matrix, fill, read_matrix, references
from stopwav.studies.plan.plan_gate import PlanGate, check_engines, check_shared_gate, read_gate
from stopwav.studies.plan.speechbrain_recipe import holds_recipe
from stopwav.studies.plan.yaml_file import Node, as_node, kind, parse_yaml, read_yaml, shown
from stopwav.studies.spec import StudySpec, flag_of, format_validation_error, list_item, setting_of
from stopwav.studies.study import Study, find_study, study_names

# The setting that holds several engines: runs that differ in nothing else become one, in which they are interleaved.
_ENGINES = "engines"
# The key of the conditions on a run, which is no setting of a study.
_GATE = "gate"


@dataclass(frozen=True)
class PlannedRun:
    """One run of a plan: of which study, with which settings, and where in the file it is asked for."""

    study: str
    where: str
    arguments: dict[str, Any]
    # What is to be said of them before the run; "" for nothing.
    note: str = field(default="", compare=False)
    # Where each argument stands, for what is wrong with it later.
    places: dict[str, str] = field(default_factory=dict, compare=False)
    # The conditions that `--gate` holds its results to.
    gate: PlanGate = field(default=PlanGate(), compare=False)

    @property
    def spec(self) -> StudySpec:
        """Every setting of the run, those that the file does not name at their defaults."""
        return find_study(self.study).spec(**self.arguments)


def read_plan(path: Path | str, overrides: Mapping[str, Any] | None = None) -> list[PlannedRun]:
    """Return the runs that a plan file asks for, all of them checked; overrides win over the file."""
    nodes = {key: as_node(value, f"override {key}") for key, value in (overrides or {}).items()}
    return file_runs(Path(path), nodes)


def file_runs(path: Path, overrides: Mapping[str, Node]) -> list[PlannedRun]:
    """Return the runs that a file asks for: those of its studies, or the one grid of a recipe of SpeechBrain."""
    if holds_recipe(path):
        return planned_runs(as_node({"studies": [{"grid": {"engines": [str(path)]}}]}, str(path)), overrides)
    return planned_runs(read_yaml(path), overrides)


def parse_override(text: str) -> tuple[str, Node]:
    """Return the key and the value of `--set KEY=VALUE`."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise StopwavError(f"--set {shown(text)}: write KEY=VALUE, such as --set limit=5")
    where = f"--set {key.strip()}"
    return key.strip(), as_node(parse_yaml(value, where).plain(), where)


def planned_runs(root: Node, overrides: Mapping[str, Node]) -> list[PlannedRun]:
    """Return the runs that the content of a file asks for."""
    shared = dict(root.mapping("the file"))
    listed = shared.pop("studies", None)
    if listed is None:
        near = difflib.get_close_matches("studies", list(shared), n=1)
        hint = f"rename {shown(near[0])}?" if near else "see docs/guides/run-from-a-file.md"
        raise StopwavError(f"{root.where}: no `studies`, the list of what to run; {hint}")
    entries = [_entry(node) for node in listed.sequence("studies")]
    if not entries:
        raise StopwavError(f"{listed.where}: studies is empty; write `- latency: {{engines: [pocketsphinx]}}` in it")
    named, gate = [study for study, _ in entries], shared.pop(_GATE, None)
    _check_used(shared, named)
    _check_used(overrides, named)
    check_shared_gate(gate, named)
    runs = [
        replace(run, gate=read_gate(gate, study, shared=True) + run.gate)
        for study, node in entries
        for run in _expand(study, node, shared, overrides)
    ]
    _check_different(runs)
    for run in runs:
        check_engines(run.gate, run.arguments, run.where)
    return runs


# The settings that a setting of an inner level, or of the command line, takes the place of.
_REPLACED_BY = {"budget_s": ("rounds", "thorough"), "rounds": ("budget_s",), "thorough": ("budget_s", "rounds")}


def _entry(node: Node) -> tuple[Study, Node]:
    entry = node.mapping("an item of studies")
    if len(entry) != 1:
        names = ", ".join(map(shown, entry)) or "nothing"
        raise StopwavError(f"{node.where}: an item of studies names one study and holds its settings, here {names}")
    ((name, settings),) = entry.items()
    if name not in study_names():
        raise StopwavError(f"{settings.key_where}: unknown study {shown(name)}; {suggestion(name, study_names())}")
    return find_study(name), settings


def _check_used(settings: Mapping[str, Node], studies: Sequence[Study]) -> None:
    """Raise for a setting that none of the studies takes."""
    for key, node in settings.items():
        if not any(_is_key(study, key) for study in studies):
            keys = dict.fromkeys(key for study in studies for key in [*_keys(study), "studies", "quick", _GATE])
            raise StopwavError(
                f"{node.key_where}: unknown key {shown(key)}, which no study of this file takes; {_hint(key, keys)}"
            )


def _is_key(study: Study, key: str) -> bool:
    return key == "quick" or setting_of(study.spec, key) is not None


def _keys(study: Study) -> list[str]:
    """Every key that a file may hold for a study, as its flag is written."""
    return [flag_of(setting) for setting in study.spec.options()]


def _hint(key: str, keys: Iterable[str]) -> str:
    return suggestion(key.replace("_", "-"), keys)


def _expand(study: Study, node: Node, shared: Mapping[str, Node], overrides: Mapping[str, Node]) -> list[PlannedRun]:
    """The runs of one entry: one, or with a matrix one for each combination."""
    own = {} if node.value is None else dict(node.mapping(study.name))
    matrix_node, gate = own.pop("matrix", None), read_gate(own.pop(_GATE, None), study)
    for key, value in own.items():
        if not _is_key(study, key):
            hint = _hint(key, [*_keys(study), "quick", "matrix", _GATE])
            raise StopwavError(f"{value.key_where}: unknown key {shown(key)} of {study.name}; {hint}")
    settings: dict[str, Node] = {}
    for level in (shared, own, overrides):
        named = _named(study, level)
        # A budget replaces a fixed plan of an outer level, and a plan a budget.
        for replaced in _REPLACED_BY.get(next((name for name in _REPLACED_BY if name in named), ""), ()):
            settings.pop(replaced, None)
        settings |= named
    if matrix_node is None:
        return [replace(_planned(study, node, settings), gate=gate)]
    matrix = read_matrix(matrix_node)
    runs = [_planned(study, node, filled) for filled in _filled(study, settings, matrix, matrix_node)]
    return _together([replace(run, gate=gate) for run in runs])


def _named(study: Study, level: Mapping[str, Node]) -> dict[str, Node]:
    """The settings of one level that the study takes, by parameter name."""
    settings: dict[str, Node] = {}
    for key, node in level.items():
        name = setting_of(study.spec, key)
        if name in settings:
            raise StopwavError(f"{node.key_where}: {shown(key)} is the same as the key at {settings[name].key_where}")
        if name is not None:
            settings[name] = node
    quick = level.get("quick")
    if quick is not None and "budget_s" in study.spec.model_fields:
        if not isinstance(quick.value, bool):
            raise StopwavError(f"{quick.where}: quick should be true or false, not {kind(quick)}")
        if quick.value:
            settings.setdefault("budget_s", replace(quick, value=QUICK_S))
    return settings


def _filled(study: Study, settings: dict[str, Node], matrix: Matrix, where: Node) -> Iterator[dict[str, Node]]:
    """The settings under each combination; a name of the matrix that is used nowhere may be a setting itself."""
    used = {name for node in settings.values() for name in references(node)}
    direct = {}
    for name in matrix.axes:
        if name not in used:
            key = setting_of(study.spec, name)
            if key is None or key in settings:
                place = where.value[name].key_where
                raise StopwavError(f"{place}: matrix {name} is used nowhere; write {{{name}}} in a setting")
            direct[name] = key
    for combination in matrix.combinations():
        filled = {name: fill(node, combination) for name, node in settings.items()}
        yield filled | {key: as_node(combination[name], where.value[name].where) for name, key in direct.items()}


def _planned(study: Study, node: Node, settings: dict[str, Node]) -> PlannedRun:
    nodes = {name: _listed(value, study.spec.model_fields[name].annotation) for name, value in settings.items()}
    try:
        # As JSON: strict about types (true is no number, "3" is none), yet a list may become a tuple and a text a path.
        text = json.dumps({name: value.plain() for name, value in nodes.items()})
        spec = study.spec.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise StopwavError(_wrong(error, study, node, nodes)) from None
    places = {name: value.where for name, value in nodes.items()}
    given = spec.model_dump(include=set(nodes))
    # As on the command line: what is said here wins over what a recipe says.
    expanded = study.expand(given, given.keys())
    note = study.expansion_note(given, expanded)
    return PlannedRun(study.name, node.key_where or node.where, expanded, note, places)


def _listed(node: Node, annotation: Any) -> Node:
    """The node, as a list where a list is wanted: of one value, or of the numbers of `1,2,5` as a flag takes them."""
    item = list_item(annotation)
    if item is None or node.value is None or isinstance(node.value, list | dict):
        return node
    if isinstance(node.value, str) and item in (int, float):
        parts = [as_node(parse_yaml(part, node.where).plain(), node.where) for part in node.value.split(",")]
        return replace(node, value=parts)
    return replace(node, value=[node])


def _wrong(error: ValidationError, study: Study, entry: Node, nodes: Mapping[str, Node]) -> str:
    first = error.errors(include_url=False)[0]
    message = format_validation_error(first)
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
    if first["type"] == "value_error":  # a check of our own, about the value as a whole
        return f"{node.where}: {key} {shown(node.plain())}: {message}"
    hint = "; put it in quotes" if first["type"] == "string_type" and not isinstance(node.value, list | dict) else ""
    return f"{node.where}: {key} {message}, not {kind(node)}{hint}"


def _together(runs: list[PlannedRun]) -> list[PlannedRun]:
    """The runs of one matrix, those that differ in their engines alone as one run, which interleaves the engines."""
    if _ENGINES not in runs[0].arguments:
        return runs
    merged: dict[str, PlannedRun] = {}
    for run in runs:
        rest = repr({name: value for name, value in run.arguments.items() if name != _ENGINES})
        before = merged[rest].arguments[_ENGINES] if rest in merged else []
        merged[rest] = replace(run, arguments={**run.arguments, _ENGINES: [*before, *run.arguments[_ENGINES]]})
    return list(merged.values())


def _check_different(runs: list[PlannedRun]) -> None:
    # --resume finds a run by its settings: it could not tell two equal ones apart.
    first: dict[tuple[str, str], PlannedRun] = {}
    for run in runs:
        other = first.setdefault((run.study, repr(run.spec)), run)
        if other is not run:
            raise StopwavError(
                f"{run.where}: asks for the same run as {other.where}; give it another seed, or remove it"
            )
