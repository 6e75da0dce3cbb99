"""docs/reference/cli.md: every verb, argument, option and default, from the command line itself."""

from typing import Any

import typer.main

from reference.markdown import code, page, table
from stopwav.cli import app

INTRODUCTION = """
Results go to standard output, progress and errors to standard error. Every verb takes `--json` (see [JSON](json.md),
also for exit codes) and `--help`. `NO_COLOR=1` switches colour off.

Engines are named as `NAME[:SOURCE][,key=value…]`: `pocketsphinx`, `moonshine,update_interval_s=0.25`,
`my_engine.py:MyEngine`. See [Your own engine](../guides/your-own-engine.md).
"""


def render() -> str:
    """The page."""
    group: Any = typer.main.get_command(app)
    verbs = [_verb(name, command) for name, command in group.commands.items()]
    return page("Command line", INTRODUCTION, "## stopwav", _options(group), *verbs)


def _verb(name: str, command: Any) -> str:
    arguments = [one for one in command.params if not one.opts[0].startswith("-")]
    usage = " ".join(["stopwav", name, *(_placeholder(one) for one in arguments), "[OPTIONS]"])
    parts = [f"## stopwav {name}", command.help.strip(), code(usage)]
    if arguments:
        rows = [(code(_placeholder(one)), one.help or "") for one in arguments]
        parts.append(table(("argument", "what it is"), rows))
    parts.append(_options(command))
    return "\n\n".join(part.strip() for part in parts)


def _placeholder(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper()).strip("[]")


def _options(command: Any) -> str:
    options = [one for one in command.params if one.opts[0].startswith("-")]
    rows = [(", ".join(code(name) for name in one.opts), _kind(one), _default(one), one.help or "") for one in options]
    return table(("option", "takes", "default", "what it does"), rows)


def _kind(option: Any) -> str:
    return "" if option.is_flag else option.type_descriptor.annotation.__name__.lower()


def _default(option: Any) -> str:
    return "" if option.is_flag or option.default is None else code(option.default)
