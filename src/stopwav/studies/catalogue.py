"""The studies that there are, and what belongs to each, imported when first asked for: one entry a study."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, get_type_hints

from pydantic import BaseModel, create_model

from stopwav.record import Record, Result


@dataclass(frozen=True)
class Study:
    """A study: the function `stopwav.studies.NAME.NAME`, its spec, and an example of what it cannot do without.

    Beside these, as MODULE.NAME below this package, functions that not every study has.
    """

    name: str
    spec: str
    example: Mapping[str, Any] = field(default_factory=dict)
    # From a record: what its charts show that is not in its results.
    view: str | None = None
    # From a record: what it says beside its results, or None where it has nothing to say; by its key in `--json`.
    beside: Mapping[str, str] = field(default_factory=dict)
    # From a run's settings: seconds, and what they are based on.
    guess: str | None = None

    @property
    def function(self) -> Callable[..., Any]:
        """What runs it."""
        function: Callable[..., Any] = find(f"{self.name}.{self.name}")
        return function

    @property
    def results(self) -> Callable[[Record], list[Result]]:
        """What a run of it found."""
        function: Callable[[Record], list[Result]] = find(f"{self.name}_results.{self.name}_results")
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
        Study(
            "latency",
            "LatencySpec",
            {"engines": ["pocketsphinx"]},
            view="latency_view.latency_view",
            beside={"explanation": "explain.explanation"},
            guess="forecast_latency.guess_latency",
        ),
        Study("grid", "GridSpec", {"engine": "pocketsphinx"}, guess="forecast_grid.guess_grid"),
        Study(
            "compare",
            "CompareSpec",
            {"engines": ["pocketsphinx", "moonshine"]},
            beside={"card": "compare_card.card"},
            guess="forecast_compare.guess_compare",
        ),
        Study("loss", "LossSpec", {"losses": ["torch"]}),
        Study("step", "StepSpec", {"model": "conformer-transducer"}, view="step_results.step_view"),
    )
}

# Arguments for Python alone: they are no values that a file can hold, or another function fills them in.
_PYTHON_ONLY = ("plan", "progress", "knobs", "make_batch", "loss_fn")
# A flag leaves out the unit that its parameter's name carries: --time-limit is time_limit_s.
_UNITS = ("_s", "_gb")


def find(path: str) -> Any:
    """What a module of this package defines, by MODULE.NAME; imported now."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(f"stopwav.studies.{module}"), name)


def flag_of(setting: str) -> str:
    """The flag of a setting, without its dashes: `time_limit_s` is `time-limit`."""
    unit = next((unit for unit in _UNITS if setting.endswith(unit)), "")
    return setting.removesuffix(unit).replace("_", "-")


@cache
def _settings(study: Study) -> type[BaseModel]:
    spec = find(f"{study.name}.{study.spec}")
    hints = get_type_hints(study.function)
    beside: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is inspect.Parameter.empty else parameter.default)
        for name, parameter in inspect.signature(study.function).parameters.items()
        if name not in spec.model_fields and name not in _PYTHON_ONLY
    }
    model: type[BaseModel] = create_model(study.name, __base__=spec, **beside)
    return model
