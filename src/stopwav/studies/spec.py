"""The settings of a study, each declared once: command line, Python function and plan file read them here."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin

from pydantic import BaseModel, PositiveInt, ValidationError, ValidationInfo, field_validator, model_validator

from stopwav.errors import Caution, StopwavError, suggestion
from stopwav.measure.launcher import ask_machine
from stopwav.record import PLAN_VERSION, Header, Record, now
from stopwav.studies.launch.destination import parse_destination
from stopwav.studies.launch.run import run_where_asked

DEFAULT_FOLDER = Path("stopwav-runs")

# What is being done, how much of it is finished, and of how much. It may have
# methods `opened`, `say` and `show` besides.
Progress = Callable[[str, int, int], None]

Spec = TypeVar("Spec", bound="StudySpec")

# The largest number that a setting may have. Of seconds that is 30 years, and more GB than any machine has; beyond it
# clocks and system calls overflow.
MOST = 10**9
# Of whole numbers: a million rounds, samples or utterances in a batch take years, or all memory.
MOST_WHOLE = 10**6
# Some may be larger: a seed is any number that JSON holds exactly, and limits may be above all there is.
_MOST_OF = {"seed": 2**53, "limit": MOST, "max_frames": MOST}
# A chunk of less than a millisecond is a few samples: pushing these one by one takes longer than the audio.
_LEAST_OF = {"chunk_ms": 1}
# A value in a message: longer ones are cut.
LONGEST_VALUE = 80

# The warning of a run whose machine had other work to do.
SHARED = Caution(
    "shared-machine",
    "it was measured with --shared: other work may have run on the machine, so no time of this run counts; its word "
    "errors do",
)

# A flag leaves out the unit that its setting's name carries: --time-limit is time_limit_s.
_UNITS = ("_s", "_gb")


@dataclass(frozen=True)
class Option:
    """A setting on the command line. A positional one is an argument; others are flags, named by the setting.

    A setting that is not `stored` says how to run, not what to measure: two runs that differ in it alone are the same.
    """

    help: str
    positional: bool = False
    metavar: str | None = None
    stored: bool = True
    # Old names of the flag, still understood.
    aliases: tuple[str, ...] = ()
    # The value of a flag that stands alone, without one.
    bare: str | None = None
    # Whether the command line takes it as a text that the spec reads, such as 5min.
    text: bool = False


@dataclass(frozen=True)
class PythonOnly:
    """A setting that only Python code can give: no value that a file or a flag can hold."""

    stored: bool = True


# The setting of a study whose utterances several machines can share.
SharingMachines = Annotated[
    PositiveInt,
    Option("With --on, so many machines of one kind share the utterances of the corpus.", stored=False),
]


class StudySpec(BaseModel, extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=True):
    """The settings of a run. Two runs with equal stored settings measure the same thing."""

    save: Annotated[Path, Option("Folder for the run file.", stored=False)] = DEFAULT_FOLDER
    resume: Annotated[bool, Option("Continue the newest unfinished run of this command.", stored=False)] = False
    on: Annotated[
        str | None,
        Option(
            "Measure on a machine of a cluster: `ray`, `ray:HOST:PORT`, or `slurm`; default: here.",
            metavar="CLUSTER",
            stored=False,
        ),
    ] = None
    place: Annotated[
        str | None,
        Option(
            "With --on, what the machine has: `gpu=H200`, or resources of the cluster as `NAME=VALUE[,…]`.",
            metavar="RESOURCES",
            stored=False,
        ),
    ] = None
    shared: Annotated[
        bool,
        Option(
            "With --on, take a part of a machine that other work may use too: for word errors, which no time is part "
            "of.",
            stored=False,
        ),
    ] = False
    progress: Annotated[Progress | None, PythonOnly(stored=False)] = None

    @field_validator("*")
    @classmethod
    def _within_bounds(cls, value: Any, field: ValidationInfo) -> Any:
        for number in value if isinstance(value, list) else [value]:
            if not isinstance(number, int | float) or isinstance(number, bool):
                continue
            most = _MOST_OF.get(str(field.field_name), MOST_WHOLE if isinstance(number, int) else MOST)
            if number > most:
                raise ValueError(f"should be at most {most:,}")
            if number < (least := _LEAST_OF.get(str(field.field_name), number)):
                raise ValueError(f"should be at least {least}")
        return value

    @model_validator(mode="after")
    def _destination(self) -> StudySpec:
        if self.on is not None:
            parse_destination(self.on, self.place, self.shared)
        elif self.place is not None or self.shared:
            option = "--shared" if self.shared else f"--place {self.place}"
            raise ValueError(f"{option} is for a cluster: name it with --on")
        elif (machines := getattr(self, "machines", 1)) > 1:
            flag = "generators" if "generators" in type(self).model_fields else "machines"
            raise ValueError(f"--{flag} {machines} is for a cluster: name it with --on")
        return self

    @classmethod
    def options(cls) -> dict[str, Option]:
        """Return what the command line takes, by setting: a study's own, then its budget, then where the run goes."""
        options = {name: _metadata(field.metadata, Option) for name, field in cls.model_fields.items()}
        declared = {name: option for name, option in options.items() if option is not None}

        def rank(name: str) -> int:
            return 2 if name in StudySpec.model_fields else int(name not in cls.__annotations__)

        return {name: declared[name] for name in sorted(declared, key=rank)}

    def stored(self) -> dict[str, Any]:
        """Return the settings as the header of a run holds them."""
        unstored = {
            name
            for name, field in type(self).model_fields.items()
            if not getattr(_metadata(field.metadata, Option, PythonOnly), "stored", True)
        }
        return self.model_dump(exclude=unstored)

    def report(self, task: str, done: int, total: int) -> None:
        """Report how much of a task is done."""
        if self.progress is not None:
            self.progress(task, done, total)

    def opened(self, record: Record) -> None:
        """Tell whoever follows the run which file it is: whatever ends it, what it holds can be shown."""
        if (opened := getattr(self.progress, "opened", None)) is not None:
            opened(record)

    def say(self, text: str) -> None:
        """Tell whoever waits, in one line, what was chosen and why; where only numbers are followed, nobody."""
        if (say := getattr(self.progress, "say", None)) is not None:
            say(text)

    def show(self, record: Record, upcoming: str = "", left_s: float | None = None) -> None:
        """Show the results so far, what is next and the time left, where somebody looks on.

        To be called between two measurements, never during one: results are computed for it.
        """
        if (show := getattr(self.progress, "show", None)) is not None:
            show(record, upcoming, left_s)


def study_function(spec: type[Spec], *positional: str) -> Callable[[Callable[[Spec], Record]], Callable[..., Record]]:
    """Return a decorator that makes a function of a spec one of its settings, given by name or by these positions."""

    def decorate(run: Callable[[Spec], Record]) -> Callable[..., Record]:
        signature = signature_of(spec, positional)

        @functools.wraps(run)
        def function(*arguments: Any, **settings: Any) -> Record:
            named = dict(zip(positional, arguments, strict=False))
            if len(arguments) > len(positional) or named.keys() & settings:
                signature.bind(*arguments, **settings)  # raises as Python does for wrong arguments
            return run_where_asked(checked(spec, **named, **settings), run)

        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    return decorate


def signature_of(spec: type[StudySpec], positional: tuple[str, ...]) -> inspect.Signature:
    """Return the signature of a study's function: its settings with their types and defaults."""
    fields = spec.model_fields
    parameters: list[inspect.Parameter] = []
    for name in dict.fromkeys([*positional, *spec.options(), *_python_only(spec)]):
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if name in positional else inspect.Parameter.KEYWORD_ONLY
        field = fields[name]
        default = inspect.Parameter.empty if field.is_required() else field.get_default(call_default_factory=True)
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=field.annotation))
    return inspect.Signature(parameters, return_annotation="Record")


def checked(model: type[Spec], /, **fields: Any) -> Spec:
    """Return the spec, or raise an error that names the option with a wrong value."""
    for name in fields:
        if name not in model.model_fields:
            raise StopwavError(f"unknown setting {name!r}; {suggestion(name, model.model_fields)}")
    try:
        return model(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        message = format_validation_error(first)
        if not first["loc"]:  # settings that do not go together; the message names them
            raise StopwavError(message) from error
        # Of a list, what is wrong is the item, which is the input.
        raise StopwavError(f"--{flag_of(str(first['loc'][0]))} {shown_value(first['input'])}: {message}") from error


def shown_value(value: object) -> str:
    """Return a value as a message shows it: on one line and short."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return f"a {type(value).__name__} of too many digits"
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def format_validation_error(error: Mapping[str, Any]) -> str:
    """Return what pydantic says is wrong with a value, as a sentence of ours."""
    if error["type"] == "too_short":
        return "should have at least one value"
    return " ".join(error["msg"].removeprefix("Value error, ").replace("Input should", "should").split())


def flag_of(setting: str) -> str:
    """Return the flag of a setting, without its dashes: `time_limit_s` is `time-limit`."""
    unit = next((unit for unit in _UNITS if setting.endswith(unit)), "")
    return setting.removesuffix(unit).replace("_", "-")


def setting_of(spec: type[StudySpec], key: str) -> str | None:
    """Return the setting that a key of a file names, written as its flag or as its parameter; None where none is."""
    name = key.replace("-", "_")
    # `engine` may stand for a list of one.
    candidates = (name, *(name + unit for unit in _UNITS), f"{name}s")
    return next((candidate for candidate in candidates if candidate in spec.options()), None)


def list_item(annotation: Any) -> type | None:
    """Return the type of the items of a setting that is a list, or may be one; None for any other."""
    for part in (annotation, *get_args(annotation)):
        if get_origin(part) is list:
            item = get_args(part)[0]
            return cast(type, get_args(item)[0] if get_origin(item) is Annotated else item)
    return None


def make_header(study: str, spec: StudySpec, **more: Any) -> Header:
    """Return the header of a run that starts now, on this machine; `more` is what the study itself adds."""
    from stopwav import __version__
    from stopwav.measure.health import health
    from stopwav.measure.machine import describe

    return Header(
        stopwav=__version__,
        study=study,
        started=now(),
        spec=spec.stored(),
        machine=ask_machine(describe).as_dict(),
        place=spec.place or "",
        warnings=[
            {"code": warning.code, "message": warning.message}
            for warning in [*ask_machine(health), *([SHARED] if spec.shared else [])]
        ],
        plan_version=PLAN_VERSION,
        **more,
    )


def _python_only(spec: type[StudySpec]) -> list[str]:
    return [name for name, field in spec.model_fields.items() if _metadata(field.metadata, PythonOnly) is not None]


def _metadata(metadata: list[Any], *kinds: type) -> Any:
    return next((item for item in metadata if isinstance(item, kinds)), None)
