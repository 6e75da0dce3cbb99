"""What the engines of a run are called in its results: by their labels or, without one, by their settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from stopwav.engines.label import read_label


def engine_names(engines: Sequence[str]) -> list[str]:
    """Return a name for each engine, numbered where the same one is named twice (to be compared with itself)."""
    names: list[str] = []
    for position, engine in enumerate(engines):
        seen = engines[:position].count(engine)
        name = read_label(engine).name
        names.append(name if seen == 0 else f"{name}#{seen + 1}")
    return names


def engine_settings(spec: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of each engine or target in a run's spec, without its label, by its name in results."""
    engines = spec.get("engines") or spec.get("targets") or [spec[key] for key in ("engine",) if key in spec]
    return {name: read_label(engine).setting for name, engine in zip(engine_names(engines), engines, strict=True)}


def label_line(spec: Mapping[str, Any]) -> str:
    """Return the setting of every engine that has a label, in one line; "" where none has."""
    settings = engine_settings(spec)
    return "; ".join(f"{name}: {setting}" for name, setting in settings.items() if not is_own_name(name, setting))


def is_own_name(name: str, setting: str) -> bool:
    """Whether results call an engine by its setting, numbered or not."""
    return name == setting or name.startswith(f"{setting}#")


def _listed(engines: Any) -> Any:
    """The engines as a list; one alone may be a text."""
    return [engines] if isinstance(engines, str) else engines


def _with_names(engines: list[str]) -> list[str]:
    """The engines, if each has a name of its own."""
    labels = [read_label(engine) for engine in engines]
    for position, own in enumerate(labels):
        for other in labels[:position]:
            # The same text twice is an engine that is compared with itself; its names are numbered.
            if own.name == other.name and (own.label or other.label):
                both = f"{other.setting[:80]!r} and {own.setting[:80]!r}"
                raise ValueError(f"two engines are called {own.name[:80]!r}: {both}; give each a label of its own")
    return engines


# The setting of a study that names engines; each has a name of its own in the results.
EngineList = Annotated[list[str], BeforeValidator(_listed), AfterValidator(_with_names)]
