"""SpeechBrain's profiling recipe (`profile.yaml`), read as data: its settings as arguments of `stopwav.grid`.

HyperPyYAML would make objects from tags such as `!new:`. Here every tag is refused but `!ref`, which is replaced as
text: `!ref <folder>/a.wav`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError, suggestion
from stopwav.studies.plan.yaml_file import Node, kind, read_yaml, shown

_MODEL = "pretrained_model"
_DIMENSIONS = "profiling_dimensions"
_REF = "!ref"
_REFERENCE = re.compile(r"<([^<>]*)>")
# A recipe has a handful of references. A circular one has no end, and a few that double at each step take too long.
_MAX_REFERENCES = 100
# The defaults of SpeechBrain's script. Its input is then noise.
_DURATIONS_S = (1, 2)
_BATCH_SIZES = (1, 2)


def is_recipe(engine: str) -> bool:
    """Return whether the name of an engine is that of a recipe file."""
    return engine.endswith((".yaml", ".yml"))


def holds_recipe(path: Path) -> bool:
    """Return whether a file of settings is a recipe, not a list of studies."""
    if not is_recipe(str(path)):
        return False
    keys = read_yaml(path, frozenset({_REF})).value
    return isinstance(keys, dict) and "studies" not in keys and not keys.keys().isdisjoint((_MODEL, _DIMENSIONS))


def recipe_note(settings: Mapping[str, Any], expanded: Mapping[str, Any]) -> str:
    """Return what a user has to know of the settings that a recipe stands for: its device, which it does not name."""
    if (recipe := _recipe_of(settings)) is None:
        return ""
    device = expanded["device"]
    if settings.get("device"):
        return f"{recipe}: SpeechBrain's recipe, on {device} as given"
    state = "found" if device == "cuda" else "not found"
    return f"{recipe}: SpeechBrain's recipe, on {device}: CUDA, which its tools prefer, was {state} here"


def expand_recipe(settings: dict[str, Any], given: Collection[str]) -> dict[str, Any]:
    """Return the settings of a grid, with what a recipe asks for where one stands in the place of the engine.

    A setting that was given wins over the recipe's. It names no device: that is as SpeechBrain's tools take it.
    """
    if (recipe := _recipe_of(settings)) is None:
        return settings
    kept = [name for name in given if name != "engines"]
    return {**settings, **read_recipe(recipe, kept)}


def _recipe_of(settings: Mapping[str, Any]) -> str | None:
    """The recipe file that stands in the place of the engine; None where an engine does, or several do."""
    named = settings.get("engines")
    engines = [named] if isinstance(named, str) else list(named or ())
    return str(engines[0]) if len(engines) == 1 and is_recipe(str(engines[0])) else None


def read_recipe(path: Path | str, given: Collection[str] = ()) -> dict[str, Any]:
    """Return the arguments of `stopwav.grid` for a recipe file, except those given; paths are relative to the file."""
    file = Path(path)
    root = read_yaml(file, frozenset({_REF})).mapping("the file")
    named: list[str] = []
    sections = {
        name: _resolve(node, root, named).mapping(name) for name, node in root.items() if name in (_MODEL, _DIMENSIONS)
    }
    if _MODEL not in sections:
        hint = f"; `stopwav run {file}` runs studies" if "studies" in root else "; it needs source and type"
        raise StopwavError(f"{file}: no {_MODEL!r}, so not a profiling recipe of SpeechBrain{hint}")
    # A key that is there to be referred to is known by that.
    _check_keys(root, (_MODEL, _DIMENSIONS, *named), "a profiling recipe")
    model, dimensions = sections[_MODEL], sections.get(_DIMENSIONS, {})
    _check_keys(model, ("source", "type", "savedir"), _MODEL)
    readers: dict[str, tuple[str, Callable[[Node, Path], Any]]] = {
        "audio_mockup_secs": ("durations", _positive_numbers),
        "batch_sizes": ("batch_sizes", _positive_counts),
        "example_audio": ("audio", _audio),
        "triangle_only": ("triangle", _switch),
        "export_logs": ("traces", _switch),
    }
    _check_keys(dimensions, readers, _DIMENSIONS)
    arguments: dict[str, Any] = {
        "engines": [_engine(file, root[_MODEL], model)],
        "durations": list(_DURATIONS_S),
        "batch_sizes": list(_BATCH_SIZES),
        "audio": "noise",
        "triangle": True,
        "traces": False,
        "device": _device(),
    }
    for key, node in dimensions.items():
        name, read = readers[key]
        if name not in given:
            arguments[name] = read(node, file)
    return {name: value for name, value in arguments.items() if name not in given}


def _device() -> str:
    """The device that SpeechBrain's tools choose: CUDA where PyTorch finds it."""
    try:
        import torch
    except ImportError:
        return "cpu"  # SpeechBrain is then missing too, which the engine says
    return "cuda" if torch.cuda.is_available() else "cpu"


def _check_keys(entries: Mapping[str, Node], known: Mapping[str, object] | tuple[str, ...], what: str) -> None:
    for key, node in entries.items():
        if key not in known:
            raise StopwavError(f"{node.key_where}: unknown key {shown(key)} of {what}; {suggestion(key, known)}")


def _engine(file: Path, section: Node, model: Mapping[str, Node]) -> str:
    for name in ("source", "type"):
        if name not in model:
            raise StopwavError(f"{section.key_where}: {_MODEL} needs {name!r}, which is not there")
    source, kind_of_model = _text(model["source"], "source"), _text(model["type"], "type")
    folders = [file.parent / source]
    # Where SpeechBrain's script puts what it fetched: a model that is there needs no fetching.
    kept = _text(model["savedir"], "savedir") if "savedir" in model else f"pretrained_models/{source}"
    folders.append(file.parent / kept)
    # A folder, or else the name of a model on a hub.
    model_source = next((str(folder) for folder in folders if (folder / "hyperparams.yaml").is_file()), source)
    for part in (model_source, kind_of_model):
        if "," in part:
            raise StopwavError(f"{section.where}: {shown(part)} has a comma, which the name of an engine cannot hold")
    return f"speechbrain:{model_source},type={kind_of_model}"


def _text(node: Node, key: str) -> str:
    if not isinstance(node.value, str) or not node.value:
        raise StopwavError(f"{node.where}: {key} should be text, not {kind(node)}")
    return node.value


def _positive_numbers(node: Node, file: Path) -> list[float]:
    key = "audio_mockup_secs"
    return [_positive(item, (int, float), f"{key} should be a number of seconds") for item in _several(node, key)]


def _positive_counts(node: Node, file: Path) -> list[int]:
    key = "batch_sizes"
    return [_positive(item, (int,), f"{key} should be a whole number") for item in _several(node, key)]


def _several(node: Node, key: str) -> list[Node]:
    items = node.sequence(key)
    if not items:
        raise StopwavError(f"{node.where}: {key} is empty")
    return items


def _positive(node: Node, types: tuple[type, ...], what: str) -> Any:
    # True is an int to Python, and no number to anyone else.
    value: Any = node.value
    if isinstance(value, bool) or not isinstance(value, types) or not value > 0:  # type: ignore[operator]
        raise StopwavError(f"{node.where}: {what} greater than 0, not {kind(node)}")
    return value


def _switch(node: Node, file: Path) -> bool:
    if not isinstance(node.value, bool):
        raise StopwavError(f"{node.where}: should be True or False, not {kind(node)}")
    return node.value


def _audio(node: Node, file: Path) -> str:
    # The recipe's own comments write `None`, which YAML takes for text.
    if node.value in (None, "None"):
        return "noise"
    path = file.parent / _text(node, "example_audio")
    if not path.is_file():
        raise StopwavError(f"{node.where}: example_audio: there is no file {shown(str(path))}")
    return str(path)


def _resolve(node: Node, root: Mapping[str, Node], named: list[str]) -> Node:
    """The node with every `!ref` replaced by what it refers to; the names of those are added to `named`."""
    if isinstance(node.value, dict):
        return replace(node, value={key: _resolve(item, root, named) for key, item in node.value.items()})
    if isinstance(node.value, list):
        return replace(node, value=[_resolve(item, root, named) for item in node.value])
    if node.tag != _REF:
        return node
    alone = _REFERENCE.fullmatch(node.value.strip())
    if alone:
        referred = _referred(alone[1], node, root, named)
        return replace(referred, where=node.where, key_where=node.key_where)
    text = _REFERENCE.sub(lambda match: _as_text(_referred(match[1], node, root, named), node), node.value)
    return replace(node, value=text, tag="")


def _referred(path: str, node: Node, root: Mapping[str, Node], named: list[str]) -> Node:
    """The node that `<key>` or `<key[inner]>` refers to."""
    named.append(path.split("[")[0].strip())
    if len(named) > _MAX_REFERENCES:
        raise StopwavError(f"{node.where}: {_REF} <{path[:80]}> is circular, or there are more than {_MAX_REFERENCES}")
    entries: Any = root
    referred = None
    for name in re.split(r"[\[\]]+", path.strip().rstrip("]")):
        referred = entries.get(name) if isinstance(entries, Mapping) else None
        if referred is None:
            raise StopwavError(f"{node.where}: {_REF} <{path[:80]}>: there is no {shown(name)} in the file")
        entries = referred.value
    assert referred is not None
    return _resolve(referred, root, named)


def _as_text(referred: Node, node: Node) -> str:
    if referred.value is None or isinstance(referred.value, dict | list):
        raise StopwavError(f"{node.where}: {_REF} to {kind(referred)} cannot stand within a text")
    return str(referred.value)
