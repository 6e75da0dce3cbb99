"""How long the default commands take, from the keyboard to the end, and when each first has a value for everything.

    python benchmarks/default_commands.py [COMMAND …]

Prints the table of docs/concepts/budget.md. Needs the extras moonshine and torch; a command that is named is `grid
moonshine`, in quotes. Every command writes into a folder of its own, so that none is calibrated by another.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from tempfile import TemporaryDirectory

COMMANDS = (
    "latency pocketsphinx moonshine",
    "grid moonshine",
    "grid pocketsphinx",
    "compare pocketsphinx moonshine",
    "loss",
    "step conformer-transducer",
)
WHOLE = re.compile(r"every result has a first value after (\d+):(\d\d)")


def measure(command: str) -> tuple[float, str, int]:
    """Return the seconds of a command, when its table was whole, and its exit code."""
    begun_s = time.monotonic()
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "stopwav", *command.split(), "--save", folder], capture_output=True, text=True
        )
    seconds = time.monotonic() - begun_s
    whole = WHOLE.search(done.stderr)
    if done.returncode not in (0, 1) or whole is None:
        print(done.stderr[-2000:], file=sys.stderr)
    first = "–" if whole is None else f"{60 * int(whole[1]) + int(whole[2])} s"
    return seconds, first, done.returncode


def main() -> None:
    """Print a row per command."""
    print("| command | first value for everything | end | exit code |\n|---|---|---|---|", flush=True)
    for command in sys.argv[1:] or COMMANDS:
        seconds, first, code = measure(command)
        print(f"| `stopwav {command}` | {first} | {seconds:.0f} s | {code} |", flush=True)


if __name__ == "__main__":
    main()
