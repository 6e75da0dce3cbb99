"""How soon `stopwav grid ENGINE` answers: when its first sweep is through, and when the command ends.

    python benchmarks/grid_budget.py ENGINE [OPTION of stopwav grid …]

Starts the command as a user does, in a folder of its own, and looks at the run file four times a second. Every cell has
either its number or the time of its call from the end of the sweep's quarter on. Prints a row of a Markdown table.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.record import Record
from stopwav.studies.budget import BUDGET_S, SWEEP_SHARE

# Often enough for seconds, and next to nothing of a core.
POLL_S = 0.25


def cell_counts(folder: Path) -> tuple[int, int]:
    """How many cells of the run have a number, and how many are left out."""
    try:
        keys = [key for path in folder.glob("*.jsonl") for key in Record.read(path).keys]
    except StopwavError:  # its header is being written
        return 0, 0
    measured = {key[2:4] for key in keys if key[0] == "cell"}
    return len(measured), len({key[1:3] for key in keys if key[0] == "left-out"} - measured)


def main() -> None:
    """Run the command and print when it got how far."""
    arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        load_before, start_s = os.getloadavg()[0], time.perf_counter()
        command = [sys.executable, "-m", "stopwav", "grid", *arguments, "--save", scratch]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        at_quarter, last, last_s = 0, (0, 0), 0.0
        while process.poll() is None:
            time.sleep(POLL_S)
            counts, now_s = cell_counts(Path(scratch)), time.perf_counter() - start_s
            if counts != last:
                last, last_s = counts, now_s
            if now_s <= SWEEP_SHARE * BUDGET_S:
                at_quarter = counts[0]
        end_s = time.perf_counter() - start_s
        load = f"{load_before:.1f} and {os.getloadavg()[0]:.1f}"
    print("| grid | measured after 75 s | last cell | measured, left out | end | exit code | load before and after |")
    print("|---|---|---|---|---|---|---|")
    row = (" ".join(arguments), at_quarter, f"{last_s:.0f} s", f"{last[0]}, {last[1]}", f"{end_s:.0f} s")
    print(f"| {' | '.join(map(str, row))} | {process.returncode} | {load} |")


if __name__ == "__main__":
    main()
