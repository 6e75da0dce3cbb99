"""How `report`, `--html`, `diff`, `history` and `run --check` grow with the size of a run. Prints Markdown tables.

    python benchmarks/growth.py [--utterances 100,1000,10000] [--compared 1000,10000] [--streams 518,3600]
                                [--modules 1600,6400] [--only utterances,compared,streams,modules,check]
                                [--folder FOLDER]

Runs are those of `drawn_runs.py`: nothing is measured to make them. `check` is `run --check` next to the largest run of
utterances. Each command runs in a process of its own; user time and peak resident memory are the kernel's. --folder
keeps runs, and uses them again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from drawn_runs import ENGINE, write_compare_run, write_step_run, write_stream_run, write_utterance_run

from stopwav.measure.machine import describe


@dataclass(frozen=True)
class Cost:
    """What one command took; a command that failed has the reason."""

    user_s: float
    wall_s: float
    peak_bytes: int
    failure: str = ""

    def __str__(self) -> str:
        if self.failure:
            return f"failed: {self.failure}"
        return f"{self.user_s:.1f} s ({self.wall_s:.1f} s wall), {self.peak_bytes / 1e6:.0f} MB"


def run_stopwav(*arguments: object) -> Cost:
    """Return the cost of one command; exit code 1 says that a part of a run failed, and is a result."""
    command = [sys.executable, "-m", "stopwav", *map(str, arguments)]
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        last = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
    failure = "" if process.returncode in (0, 1) else f"exit code {process.returncode} {last}"
    return Cost(usage.ru_utime, wall_s, usage.ru_maxrss * 1024, failure)


def measure_pairs(folder: Path, study: str, counts: Iterable[int], write: Callable[[Path, int, float], None]) -> None:
    """Print the table of runs of many utterances, of one study: of one run, and of two."""
    title = f"utterances ({study})"
    print(f"\n| {title} | file | `report` user, peak | `--html` user, peak, page | `diff` | `history` |")
    print("|---|---|---|---|---|---|")
    for count in counts:
        base, other = (drawn_run(folder, study, count, write, slower) for slower in (1.0, 1.03))
        with tempfile.TemporaryDirectory(dir=folder) as both:
            for run in (base, other):
                (Path(both) / run.name).hardlink_to(run)
            followed = run_stopwav("history", both)
        print(f"| {count:,} | {_reports(base)} | {run_stopwav('diff', base, other)} | {followed} |", flush=True)


def measure_reports(title: str, prefix: str, sizes: Iterable[int], write: Callable[[Path, int], None]) -> None:
    """Print the table of runs of one kind; the prefix is the path of their files without size and ending."""
    print(f"\n| {title} | file | `report` user, peak | `--html` user, peak, page |\n|---|---|---|---|")
    for size in sizes:
        write_once(path := Path(f"{prefix}-{size}.jsonl"), write, size)
        print(f"| {size:,} | {_reports(path)} |", flush=True)


def _reports(run: Path) -> str:
    """The size of a run file, and what its report and its page cost."""
    page = run.with_suffix(".html")
    cells = f"{_megabytes(run)} | {run_stopwav('report', run)} | {run_stopwav('report', run, '--html', page)}"
    return f"{cells}, {_megabytes(page)}" if page.exists() else cells


def measure_check(folder: Path, count: int) -> None:
    """Print the table of `run --check` next to one large run."""
    run = drawn_run(folder, "latency", count, write_utterance_run)
    plan = folder / "plan.yaml"
    with tempfile.TemporaryDirectory(dir=folder) as save:
        (Path(save) / "latency-large.jsonl").hardlink_to(run)
        plan.write_text(f"save: {save}\nstudies:\n  - latency:\n      engine: {ENGINE}\n")
        cost = run_stopwav("run", "--check", plan)
    print(f"\n| next to | `run --check` user, peak |\n|---|---|\n| {_megabytes(run)} | {cost} |", flush=True)


def drawn_run(
    folder: Path, study: str, count: int, write: Callable[[Path, int, float], None], slower: float = 1.0
) -> Path:
    """Return a run of this many utterances."""
    path = folder / f"{study}-{count}{'' if slower == 1 else '-slower'}.jsonl"
    write_once(path, write, count, slower)
    return path


def write_once(path: Path, write: Callable[..., None], *arguments: object) -> None:
    """Write a run in another process: a child's peak memory is at least that of the process that started it."""
    if not path.exists():
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            pool.submit(write, path, *arguments).result()


def _megabytes(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f} MB"


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--utterances", type=_numbers, default="100,1000,10000")
    parser.add_argument("--compared", type=_numbers, default="1000,10000")
    parser.add_argument("--streams", type=_numbers, default="518,3600")
    parser.add_argument("--modules", type=_numbers, default="1600,6400")
    parser.add_argument("--only", default="utterances,compared,streams,modules,check")
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    machine = describe()
    print(f"{machine.cpu}, {machine.logical_cores} cores")
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        sections: dict[str, Callable[[], None]] = {
            "utterances": lambda: measure_pairs(folder, "latency", chosen.utterances, write_utterance_run),
            "compared": lambda: measure_pairs(folder, "compare", chosen.compared, write_compare_run),
            "streams": lambda: measure_reports("seconds", f"{folder}/stream", chosen.streams, write_stream_run),
            "modules": lambda: measure_reports("modules", f"{folder}/step", chosen.modules, write_step_run),
            "check": lambda: measure_check(folder, max(chosen.utterances)),
        }
        for name in chosen.only.split(","):
            sections[name]()


if __name__ == "__main__":
    main()
