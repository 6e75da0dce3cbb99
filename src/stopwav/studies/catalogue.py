"""The studies that a plan file can name, and the settings that each takes: one line a study."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, get_type_hints

from pydantic import BaseModel, create_model


@dataclass(frozen=True)
class Study:
    """A study: the function `stopwav.studies.NAME.NAME`, its spec, and an example of what it cannot do without."""

    name: str
    spec: str
    example: Mapping[str, Any] = field(default_factory=dict)

    @property
    def function(self) -> Callable[..., Any]:
        """What runs it; imported when first asked for."""
        function: Callable[..., Any] = getattr(import_module(f"stopwav.studies.{self.name}"), self.name)
        return function

    @property
    def settings(self) -> type[BaseModel]:
        """The model of all it takes: its spec, and what its function takes beside it, such as where to save."""
        return _settings(self)

    def setting(self, key: str) -> str | None:
        """The setting that a key of a file names, written as its flag or as its parameter; `None` where none is."""
        name = key.replace("-", "_")
        # `engine` may stand for a list of one.
        candidates = (name, *(name + unit for unit in _UNITS), f"{name}s")
        return next((one for one in candidates if one in self.names()), None)

    def names(self) -> list[str]:
        """Every setting that a file may name."""
        return [name for name in self.settings.model_fields if name not in _PYTHON_ONLY]

    def keys(self) -> list[str]:
        """The same, as their flags are written."""
        return [flag_of(name) for name in self.names()]

    def __hash__(self) -> int:
        return hash(self.name)


STUDIES = {
    study.name: study
    for study in (
        Study("latency", "LatencySpec", {"engines": ["pocketsphinx"]}),
        Study("grid", "GridSpec", {"engine": "pocketsphinx"}),
        Study("compare", "CompareSpec", {"engines": ["pocketsphinx", "moonshine"]}),
        Study("loss", "LossSpec", {"losses": ["torch"]}),
        Study("step", "StepSpec", {"model": "conformer-transducer"}),
    )
}

# Arguments for Python alone: they are no values that a file can hold, or another function fills them in.
_PYTHON_ONLY = ("plan", "progress", "knobs", "make_batch", "loss_fn")
# A flag leaves out the unit that its parameter's name carries: --time-limit is time_limit_s.
_UNITS = ("_s", "_gb")


def flag_of(setting: str) -> str:
    """The flag of a setting, without its dashes: `time_limit_s` is `time-limit`."""
    unit = next((unit for unit in _UNITS if setting.endswith(unit)), "")
    return setting.removesuffix(unit).replace("_", "-")


@cache
def _settings(study: Study) -> type[BaseModel]:
    spec = getattr(import_module(f"stopwav.studies.{study.name}"), study.spec)
    hints = get_type_hints(study.function)
    beside: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is inspect.Parameter.empty else parameter.default)
        for name, parameter in inspect.signature(study.function).parameters.items()
        if name not in spec.model_fields and name not in _PYTHON_ONLY
    }
    model: type[BaseModel] = create_model(study.name, __base__=spec, **beside)
    return model
