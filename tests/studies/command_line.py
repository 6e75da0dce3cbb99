"""The command line called in this process: starting Python for each command would take most of the tests' time."""

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest.mock import patch

from stopwav.cli import main


@dataclass(frozen=True)
class Done:
    """What a command left: exit code and output."""

    code: int
    stdout: str
    stderr: str


def command(*arguments: object, **environment: str) -> Done:
    """What `stopwav ARGUMENTS…` does, with these variables in its environment."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    named = patch.object(sys, "argv", ["stopwav", *map(str, arguments)])
    plain = {"COLUMNS": os.environ.get("COLUMNS", "80"), "NO_COLOR": "1"}
    with named, patch.dict(os.environ, plain | environment), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Done(code, out.getvalue(), err.getvalue())
