"""docs/reference/cli.md: every verb, argument, option and default, from the command line itself."""

from collections.abc import Collection
from typing import Any

import typer.main

from reference.markdown import code, page, table
from stopwav.cli import app, verb
from stopwav.studies.study import LISTED, find_study, study_names

INTRODUCTION = """
Results go to standard output, progress and errors to standard error. Every verb takes `--json` (see [JSON](json.md),
also for exit codes) and `--help`. `NO_COLOR=1` switches colour off.

Engines are named as `NAME[:SOURCE][,key=value…]`: `pocketsphinx`, `moonshine,update_interval_s=0.25`,
`my_engine.py:MyEngine`. See [Your own engine](../guides/your-own-engine.md).
"""


def render() -> str:
    """Return the page."""
    group: Any = typer.main.get_command(app)
    # Studies of other packages are documented there.
    foreign = set(study_names()) - set(LISTED)
    verbs = [_verb(name, verb(name)) for name in group.list_commands(None) if name not in foreign]
    return page("Command line", INTRODUCTION, "## stopwav", _options(group), *verbs)


def _verb(name: str, command: Any) -> str:
    arguments = [parameter for parameter in command.params if not parameter.opts[0].startswith("-")]
    below = getattr(command, "commands", {})  # of a verb with verbs of its own
    placeholders = ["VERB"] if below else [_placeholder(argument) for argument in arguments]
    usage = " ".join(["stopwav", name, *placeholders, "[OPTIONS]"])
    parts = [f"## stopwav {name}", command.help.strip(), code(usage)]
    if arguments:
        rows = [(code(_placeholder(argument)), argument.help or "") for argument in arguments]
        parts.append(table(("argument", "meaning"), rows))
    parts += [_verb(f"{name} {other}", one) for other, one in below.items()] or [_options(command, _aliases(name))]
    return "\n\n".join(part.strip() for part in parts)


def _placeholder(argument: Any) -> str:
    name = str(argument.metavar or argument.name.upper()).strip("[]")
    return f"{name}…" if argument.nargs == -1 else name


def _aliases(name: str) -> set[str]:
    """The old names of a study's flags, which are understood and not listed."""
    options = find_study(name).spec.options().values() if name in LISTED else ()
    return {alias for option in options for alias in option.aliases}


def _options(command: Any, aliases: Collection[str] = ()) -> str:
    options = [
        parameter
        for parameter in command.params
        if parameter.opts[0].startswith("-") and not getattr(parameter, "hidden", False)
    ]
    rows = [
        (
            ", ".join(code(name) for name in option.opts if name not in aliases),
            _kind(option),
            _default(option),
            option.help or "",
        )
        for option in options
    ]
    return table(("option", "takes", "default", "meaning"), rows)


def _kind(option: Any) -> str:
    return "" if option.is_flag else option.type_descriptor.annotation.__name__.lower()


def _default(option: Any) -> str:
    return "" if option.is_flag or option.default is None else code(option.default)
