"""`stopwav init`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stopwav.cli.options import Json
from stopwav.errors import StopwavError

if TYPE_CHECKING:
    from stopwav.studies.study import Study


def init(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="The study to start from, such as latency.")],
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="File to write; default: STUDY.yaml.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
    json: Json = False,
) -> None:
    """Write a commented file for `stopwav run`, with every setting of a study and its default."""
    from stopwav.cli.output import print_json, write_file
    from stopwav.studies.study import find_study

    chosen = find_study(study)
    path = file or Path(f"{study}.yaml")
    if os.path.exists(path) and not force:
        raise StopwavError(f"{path}: exists already; name another file, or add --force to overwrite it")
    write_file(path, starter(chosen, path.name))
    if json:
        print_json({"study": study, "file": str(path)})
    else:
        print(f"{path}: edit it, then `stopwav run --check {path}`")


def starter(study: Study, name: str) -> str:
    """Return the text of a starter file: what the study needs is set, the rest is there at its default."""
    import textwrap

    lines = [
        f"# {study.name}: {study.question}",
        f"# Check it: stopwav run --check {name}      Run it: stopwav run {name}",
        "# Lines that are commented out show the defaults. All keys: docs/guides/run-from-a-file.md",
        "",
        "studies:",
        f"  - {study.name}:",
    ]
    for setting, option in study.spec.options().items():
        field = study.spec.model_fields[setting]
        lines += [f"      # {line}" for line in textwrap.wrap(option.help, width=100)]
        required = setting in study.example
        value = study.example[setting] if required else field.get_default(call_default_factory=True)
        lines.append(f"      {'' if required else '# '}{_line(setting, value)}")
    return "\n".join([*lines, ""])


def _line(setting: str, value: Any) -> str:
    import json

    from stopwav.studies.spec import flag_of

    plain = list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
    # JSON is YAML, but for its pairs of surrogates.
    return f"{flag_of(setting)}: {json.dumps(plain, ensure_ascii=False)}"
