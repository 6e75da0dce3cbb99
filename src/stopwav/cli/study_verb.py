"""The verb of a study, made from its settings: each is declared once, in the spec, and read here."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer

from stopwav.cli import options
from stopwav.cli.command import Command
from stopwav.report.document import Detail

if TYPE_CHECKING:
    from stopwav.studies.spec import Option, StudySpec
    from stopwav.studies.study import Study

# Below that people wait without asking.
LONG_S = 180.0
# What every study's verb takes besides its settings.
_SHOWN: dict[str, Any] = {"every_metric": options.EveryMetric, "no_html": options.NoHtml, "json": options.Json}


def study_verb(study: Study) -> Callable[..., None]:
    """Return the verb: parse, announce how long it may take, measure, print."""

    def verb(context: typer.Context, **values: Any) -> None:
        given = [name for name in values if _is_given(context, name)]
        settings = {name: _parsed(study.spec, name, values[name]) for name in study.spec.options()}
        # A text that was not given leaves the setting at its default.
        unset = [name for name, option in study.spec.options().items() if option.text and settings[name] is None]
        settings = {name: value for name, value in settings.items() if name not in unset}
        if values.get("quick"):
            settings.setdefault("budget_s", options.QUICK)
        own = {name: values[name] for name in study.verb.options}
        prepared = study.verb.prepare({**settings, **own, "json": values["json"]}, given)
        if prepared is None:
            return
        chosen = {name: prepared[name] for name in study.spec.options() if name in prepared}
        expanded = study.expand(chosen, given)
        if note := study.expansion_note(chosen, expanded):
            print(f"stopwav: {note}", file=sys.stderr)
        _measure(study, expanded, values)

    verb.__name__ = study.name
    verb.__doc__ = study.question
    parameters = _parameters(study)
    verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    verb.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return verb


def command_class(study: Study) -> type[Command]:
    """Return the class of a study's command: one whose flags may stand alone where their option has a bare value."""
    fields = study.spec.model_fields
    bare = {
        f"--{_flag(name)}": (option.bare, get_args(fields[name].annotation))
        for name, option in study.spec.options().items()
        if option.bare is not None
    }

    class StudyCommand(Command):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return super().parse_args(ctx, list(_with_bare_values(args, bare)))

    return StudyCommand


def _with_bare_values(arguments: Sequence[str], bare: Mapping[str, tuple[str, Sequence[object]]]) -> Iterator[str]:
    """The arguments, with its bare value for each flag that none of its choices follows."""
    for position, argument in enumerate(arguments):
        value, choices = bare.get(argument, ("", ()))
        alone = value and not (position + 1 < len(arguments) and arguments[position + 1] in choices)
        yield f"{argument}={value}" if alone else argument


def _measure(study: Study, settings: dict[str, Any], values: dict[str, Any]) -> None:
    from stopwav.cli.live import Stopped, follow
    from stopwav.cli.output import print_run

    line = None if settings.get("resume") else forecast_line(study, settings)
    if line:
        print(line, file=sys.stderr)
    code = None
    try:
        record = follow(lambda display: study.run(**settings, progress=display))
    except Stopped as stopped:
        record, code = stopped.record, stopped.code
    study.verb.after(record, settings)
    shown = ("every_metric", "scientific", "unfold", "labels", "print_texts")
    fields = {name: values[name] for name in shown if name in values}
    print_run(record, as_json=values["json"], detail=Detail(**fields), page=not values["no_html"], code=code)


def _is_given(context: typer.Context, name: str) -> bool:
    return getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"


def _parameters(study: Study) -> list[inspect.Parameter]:
    fields = study.spec.model_fields
    parameters = [inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
    for name, option in study.spec.options().items():
        field = fields[name]
        default = ... if field.is_required() else field.get_default(call_default_factory=True)
        parameters.append(_parameter(name, field.annotation, default, option))
        if name == "budget_s":
            parameters.append(_keyword("quick", options.Quick, False))
    texts = {} if study.texts is None else {"print_texts": options.PrintTexts}
    for name, annotation in {**study.verb.options, **texts, **_SHOWN}.items():
        parameters.append(_keyword(name, annotation, None if _is_optional(annotation) else False))
    return parameters


def _is_optional(annotation: Any) -> bool:
    return type(None) in get_args(get_args(annotation)[0])


def _parameter(name: str, annotation: Any, default: Any, option: Option) -> inspect.Parameter:
    kind = str | None if option.text else _kind(annotation)
    if option.text:
        default = None
    if _numbers(annotation):
        default = None if default in (None, ...) else ",".join(f"{number:g}" for number in default)
    if option.positional:
        wanted = typer.Argument(metavar=option.metavar, help=option.help)
        # An argument that may be left out is left out of the settings too.
        default = inspect.Parameter.empty if default is ... else None
        kind = kind if default is inspect.Parameter.empty else kind | None
        return _keyword(name, Annotated[kind, wanted], default)
    flags = [f"--{_flag(name)}", *option.aliases]
    if kind == list[str] or option.bare is not None:
        kind, default = kind | None, None
    return _keyword(name, Annotated[kind, typer.Option(*flags, metavar=option.metavar, help=option.help)], default)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _flag(name: str) -> str:
    from stopwav.studies.spec import flag_of

    return flag_of(name)


def _kind(annotation: Any) -> Any:
    """The type that typer reads: numbers of a list come with commas, and a choice is checked by the spec."""
    if get_origin(annotation) in (typing.Union, types.UnionType):
        inner = [_kind(part) for part in get_args(annotation) if part is not type(None)]
        return inner[0] | None if type(None) in get_args(annotation) else inner[0]
    if _numbers(annotation) or get_origin(annotation) is typing.Literal:
        return str
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0])
    return annotation


def _numbers(annotation: Any) -> type | None:
    """The type of the numbers of a list, where the setting is one."""
    from stopwav.studies.spec import list_item

    item = list_item(annotation)
    return item if item in (int, float) else None


def _parsed(spec: type[StudySpec], name: str, value: Any) -> Any:
    field = spec.model_fields[name]
    number = _numbers(field.annotation)
    if number is not None and isinstance(value, str):
        example = "1,2,5" if number is float else "1,4,8"
        return options.read_numbers(f"--{_flag(name)}", value, number, example)
    if value is None and get_origin(field.annotation) is list:
        return []
    return str(value) if isinstance(value, Path) and field.annotation is not Path else value


def about(seconds: float | None) -> str:
    """Return a time as a person says it: no more digits than an estimate has."""
    from stopwav.studies.budget import time_text

    return "time unknown" if seconds is None else f"about {time_text(seconds)}"


def forecast_line(study: Study, settings: Mapping[str, Any]) -> str | None:
    """Return the line about how long a run may take; None where it is short or where nothing is known."""
    from stopwav.studies.budget import BudgetedSpec, time_text
    from stopwav.studies.spec import checked

    try:
        spec = checked(study.spec, **settings)
        # One with a budget says so itself, once it is known that it can be measured.
        if isinstance(spec, BudgetedSpec) and spec.is_budgeted:
            return None
        if study.forecast is None or any(True for _ in study.problems(spec)):
            return None
        estimate = study.forecast(spec)
    except Exception:  # an estimate never stops a run; the study itself says what is wrong with its settings
        return None
    if estimate.seconds is None or estimate.seconds < LONG_S:
        return None
    # The first line says what is to be done; the rest, how fast that will go.
    speed = "; ".join(estimate.basis[1:])
    return f"stopwav: estimated {time_text(estimate.seconds)} ({speed}); for less: --budget 5min, not a fixed plan"
