"""An engine's class, inspected without loading the engine: its options, the settings it offers, the files it is of.

Importing a class runs code of others, so all of this is for a process of its own; what comes back is plain.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stopwav.engines.named_models import check_model
from stopwav.engines.protocol import DescriptionError
from stopwav.engines.registry import (
    BUILT_IN,
    EngineEntry,
    find_entry,
    is_streaming,
    list_knobs,
    parse_spec,
    prepare,
    streams,
    with_knob,
)
from stopwav.errors import StopwavError

# Modules that are listed as an engine's own; a folder that has more of them imported is not one engine's.
MAX_SOURCES = 200


@dataclass(frozen=True)
class Inspection:
    """What is known of an engine before it loads: the names of its options, and the files that it was imported from."""

    options: tuple[str, ...] = ()
    takes_any_option: bool = False
    sources: tuple[str, ...] = ()
    # Whether it streams; None where only the loaded engine tells.
    streaming: bool | None = None

    def takes(self, option: str) -> bool:
        """Whether the engine has such an option."""
        return self.takes_any_option or option in self.options


@dataclass(frozen=True)
class OfferedSetting:
    """A setting that an engine offers to try: the engine with it, and why that is not available here, or ""."""

    setting: str
    engine: str
    unavailable: str


class EngineInspector:
    """Inspects engines in its process. Each method returns plain values, which need no class of others to be read."""

    def __init__(self) -> None:
        self._folder = os.getcwd()

    def inspect(self, text: str) -> Inspection:
        """Return what is known of an engine; errors in its name, its file or its options are raised."""
        os.chdir(self._folder)  # an import before may have changed it
        with _named(text):
            return inspect_engine(text)

    def offered_settings(self, text: str) -> list[OfferedSetting]:
        """Return the settings that an engine offers to try; one that it does not take itself is an error."""
        with _named(text):
            return offered_settings(text)

    def is_streaming(self, entry: EngineEntry) -> bool | None:
        """Whether the engine streams; `None` where the model decides."""
        with _named(entry.name):
            return is_streaming(entry)


@contextmanager
def _named(text: str) -> Iterator[None]:
    """Turn whatever code of others raises into an error that names the engine."""
    try:
        yield
    except (StopwavError, MemoryError):
        raise
    except BaseException as error:
        raise StopwavError(f"engine {text!r}: {error!r}") from error


def inspect_engine(text: str) -> Inspection:
    """Import the class that a spec names, check options and model, and return what is known of the engine."""
    spec = parse_spec(text)
    entry = find_entry(spec)
    here = Path() if entry in BUILT_IN else Path.cwd()
    try:
        call = prepare(text)
        parameters = inspect.signature(call.func).parameters.values()
    except DescriptionError:
        # Made with its class and not when it loads; either way an error of this engine, and others are measured.
        return Inspection(takes_any_option=True, sources=(spec.name,) if entry is None else ())
    if entry is not None:
        check_model(entry, spec.source)
    # By where this process was: the import may have changed the folder.
    sources = _own_sources(here, spec.name) if entry is None else _package_sources(here, entry)
    return Inspection(
        options=tuple(parameter.name for parameter in parameters),
        takes_any_option=any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters),
        sources=sources,
        streaming=streams(call.func),
    )


def offered_settings(text: str) -> list[OfferedSetting]:
    """Return the settings that an engine's class offers to try; the options of each are checked."""
    here = os.getcwd()
    prepare(text)
    offered = []
    os.chdir(here)  # the import may have changed it
    for knob in list_knobs(text):
        os.chdir(here)
        setting = OfferedSetting(f"{knob.text}", with_knob(text, knob), f"{knob.unavailable}")
        if not setting.unavailable:
            prepare(setting.engine)
        offered.append(setting)
    return offered


def _own_sources(here: Path, file: str) -> tuple[str, ...]:
    """The user's file, and the modules next to it or below that it imported."""
    own = (here / file).resolve()
    others = (path for path in _imported_below(own.parent) if path != own)
    return (file, *(os.path.relpath(path, here) for path in others))


def _package_sources(here: Path, entry: EngineEntry) -> tuple[str, ...]:
    """The modules of another package; those of stopwav itself are told apart by its version."""
    module = sys.modules[entry.target.partition(":")[0]]
    file = getattr(module, "__file__", None)
    if file is None or module.__name__.startswith("stopwav."):
        return ()
    own = (here / file).resolve()
    # A module that is no package lies among those of others.
    below = _imported_below(own.parent) if "." in module.__name__ or own.stem == "__init__" else [own]
    return tuple(os.path.relpath(path, here) for path in below)


def _imported_below(folder: Path) -> list[Path]:
    """The files of the imported modules in a folder, but for packages that are installed in it."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    paths = {Path(file).resolve() for file in files if isinstance(file, str)}
    own = sorted(path for path in paths if path.is_relative_to(folder) and path.is_file())
    return [path for path in own if "site-packages" not in path.relative_to(folder).parts][:MAX_SOURCES]
