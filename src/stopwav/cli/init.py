"""`stopwav init`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stopwav.cli.options import Json
from stopwav.errors import StopwavError, suggestion

if TYPE_CHECKING:
    from stopwav.studies.study import Study


def init(
    study: Annotated[str, typer.Argument(help="The study to start from, such as latency.")],
    file: Annotated[Path | None, typer.Argument(help="File to write; default: STUDY.yaml.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it is there.")] = False,
    json: Json = False,
) -> None:
    """Write a commented file for `stopwav run`, with every setting of a study and its default."""
    import json as json_text

    from stopwav import __version__
    from stopwav.cli.output import write_file
    from stopwav.studies.study import STUDIES

    if study not in STUDIES:
        raise StopwavError(f"unknown study {study!r}: {suggestion(study, STUDIES)}")
    path = file or Path(f"{study}.yaml")
    if path.exists() and not force:
        raise StopwavError(f"{path}: exists already; name another file, or add --force to overwrite it")
    write_file(path, starter(STUDIES[study], path.name))
    if json:
        print(json_text.dumps({"stopwav": __version__, "study": study, "file": str(path)}))
    else:
        print(f"{path}: edit it, then `stopwav run --check {path}`")


def starter(study: Study, name: str) -> str:
    """The text of a starter file: what the study cannot do without is set, the rest is there at its default."""
    helps = _helps(study)
    lines = [
        f"# {study.name}: {helps['']}",
        f"# Check it: stopwav run --check {name}      Run it: stopwav run {name}",
        "# What is commented out stands at its default. All keys: docs/guides/run-from-a-file.md",
        "",
        "studies:",
        f"  - {study.name}:",
    ]
    for setting in study.names():
        field = study.settings.model_fields[setting]
        lines += [f"      # {line}" for line in _wrapped(helps.get(setting, ""))]
        required = setting in study.example
        value = study.example[setting] if required else field.get_default(call_default_factory=True)
        lines.append(f"      {'' if required else '# '}{_line(setting, value)}")
    return "\n".join([*lines, ""])


def _helps(study: Study) -> dict[str, str]:
    """What the study's verb says of itself (under "") and of each setting."""
    import typer.main

    from stopwav.cli import app

    group: Any = typer.main.get_command(app)
    command = group.commands[study.name]
    found = {"": command.help.strip().splitlines()[0]}
    for parameter in command.params:
        flag = next((one for one in parameter.opts if one.startswith("--")), parameter.name).removeprefix("--")
        setting = study.setting(flag)
        if setting is not None:
            found[setting] = parameter.help or ""
    return found


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width=100)


def _line(setting: str, value: Any) -> str:
    import json

    from stopwav.studies.study import flag_of

    plain = list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
    # JSON is YAML, but for its pairs of surrogates.
    return f"{flag_of(setting)}: {json.dumps(plain, ensure_ascii=False)}"
