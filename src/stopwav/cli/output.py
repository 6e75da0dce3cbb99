"""What every study prints: results on standard output, progress on standard error, and the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from stopwav.record import Record, Result
    from stopwav.studies.latency import Progress


# How a command ended, for the shell: all was measured (0), a part was not, nothing was, or Ctrl-C.
EXIT_PARTLY = 1
EXIT_UNUSABLE = 2
EXIT_INTERRUPTED = 130


def print_results(record: Record, *, as_json: bool, every_metric: bool = False) -> None:
    """Print what a run found, and end with the exit code that tells how it went."""
    from stopwav import __version__
    from stopwav.studies import results

    found = results(record)
    if as_json:
        rows = [result.to_json() for result in found]
        print(
            json.dumps({"stopwav": __version__, "study": record.header.study, "run": str(record.path), "results": rows})
        )
    else:
        from rich.console import Console

        from stopwav.report.latency_table import print_latency

        console = Console(markup=False, highlight=False)
        print_latency(found, console, every_metric=every_metric)
        console.print(f"\nrun file: {record.path}", style="dim", highlight=False, soft_wrap=True)
    code = exit_code(found)
    if code:
        raise typer.Exit(code)


def exit_code(found: Sequence[Result]) -> int:
    """0 when all was measured, 1 when a part was not, 2 when nothing was."""
    if all(result.status != "ok" for result in found):
        return EXIT_UNUSABLE
    failed = any(result.status != "ok" for result in found)
    lost = any(w.code == "corpus" or w.code.startswith("stream-") for result in found for w in result.warnings)
    return EXIT_PARTLY if failed or lost else 0


@contextmanager
def progress_bar(on_interrupt: str = "interrupted") -> Iterator[Progress]:
    """A function that moves a progress bar on standard error; Ctrl-C ends the command with the given word."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("elapsed,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    # Twice a second: a bar redrawn more often would take time from what is being measured.
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=2, transient=True) as bar:
        tasks: dict[str, int] = {}

        def move(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done)  # type: ignore[arg-type]

        try:
            yield move
        except KeyboardInterrupt:
            bar.stop()
            print(f"stopwav: {on_interrupt}", file=sys.stderr)
            raise typer.Exit(EXIT_INTERRUPTED) from None
