"""What every verb over runs prints or writes: results on standard output, the rest on standard error, the exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from stopwav.errors import StopwavError
from stopwav.report.detail import Detail

if TYPE_CHECKING:
    from stopwav.record import Record, Result
    from stopwav.studies.spec import Progress


T = TypeVar("T")

# How a command ended, for the shell: all was measured (0), a part was not, nothing was, or Ctrl-C.
EXIT_PARTLY = 1
EXIT_UNUSABLE = 2
EXIT_INTERRUPTED = 130

USUAL = Detail()

# A run with what was found in it.
Found = tuple["Record", "list[Result]"]


def print_results(record: Record, *, as_json: bool, detail: Detail = USUAL, page: bool = True) -> None:
    """Print what a study found, write its page beside the run, and end with the exit code that tells how it went."""
    tell_resumed(record)
    found = results_of(record)
    print_runs([(record, found)], as_json=as_json, detail=detail)
    if page:
        write_page_or_warn([(record, found)], page_of(record))
    end_with(exit_code(found))


def tell_resumed(record: Record) -> None:
    """Say how much of a run an earlier command had left, where there was something to go on with."""
    if record.previous_count:
        print(f"stopwav: {record.previous_count} pieces were there already, in {record.path}", file=sys.stderr)


def results_of(record: Record) -> list[Result]:
    """What a run found; a run file that was tampered with is an error in one line."""
    from stopwav.studies import results

    return _understood(results, record)


def beside_of(record: Record) -> dict[str, Any]:
    """What a run says beside its results, by its key in `--json`: what its settings gain, or a comparison's card."""
    from stopwav.studies import beside

    return _understood(beside, record)


def _understood(read: Callable[[Record], T], record: Record) -> T:
    from stopwav.studies.resumption import UNREADABLE

    try:
        return read(record)
    except UNREADABLE as error:
        reason = f"{type(error).__name__}: {error}".replace("\n", " ")[:120]
        raise StopwavError(
            f"{record.path}: a run that stopwav cannot make sense of ({reason}); measure again"
        ) from error


def print_runs(runs: Sequence[Found], *, as_json: bool, detail: Detail = USUAL) -> None:
    """Print what runs found: one JSON object, or tables one run after the other."""
    from stopwav import __version__

    if as_json:
        rows = [run_to_json(record, found) for record, found in runs]
        print(json.dumps({"stopwav": __version__, **(rows[0] if len(rows) == 1 else {"runs": rows})}))
        return
    from rich.console import Console
    from rich.text import Text

    from stopwav.report.plain import plain
    from stopwav.report.presentation import presentation_of

    console = Console(markup=False, highlight=False)
    for index, (record, found) in enumerate(runs):
        if index:
            console.print()
        presentation_of(record.header.study).terminal(found, beside_of(record), console, detail)
        console.print(Text(f"\nrun file: {plain(str(record.path), 4096)}", style="dim"), soft_wrap=True)


def run_to_json(record: Record, found: Sequence[Result]) -> dict[str, Any]:
    """A run and its results as `--json` prints them."""
    return {
        "study": record.header.study,
        "run": str(record.path),
        "results": [one.to_json() for one in found],
        **{key: one.to_json() for key, one in beside_of(record).items()},
    }


def print_text(text: str) -> None:
    """Print a whole document; what the terminal's encoding lacks is escaped, since half a document is worse."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def page_of(record: Record) -> Path:
    """Where the page of a run lies: beside it."""
    return record.path.with_suffix(".html")


def write_page(runs: Sequence[Found], path: Path) -> None:
    """Write one page with a section per run, and a comparison on top where there are several."""
    from stopwav.report.comparison import comparison_html
    from stopwav.report.page import Section, render_page

    sections = [Section(record, found, view_of(record)) for record, found in runs]
    html = render_page(sections, comparison_html=comparison_html(runs) if len(runs) > 1 else "")
    write_file(path, html, [record.path for record, _ in runs])
    print(f"page: {path}", file=sys.stderr)


def view_of(record: Record) -> dict[str, Any]:
    """What the page and the charts of a run show that is not in its results."""
    from stopwav.studies import view

    return {**view(record), **beside_of(record)}


def write_page_or_warn(runs: Sequence[Found], path: Path) -> bool:
    """Whether the page was written; whatever goes wrong is a warning, as the results are safe without it."""
    try:
        write_page(runs, path)
    except Exception as error:
        reason = str(error) if isinstance(error, StopwavError) else f"{type(error).__name__}: {error}"
        print(f"stopwav: no page ({' '.join(reason.split())[:300]}); the run is kept", file=sys.stderr)
        return False
    return True


def write_file(path: Path, text: str, runs: Sequence[Path] = ()) -> None:
    """Write a whole file or none, and never over one of the runs it is made from."""
    if any(path.resolve() == run.resolve() for run in runs):
        raise StopwavError(f"{path}: is the run itself and would be overwritten; name another file")
    target = path.resolve()  # a link stays one
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            beside = target  # a pipe or a device is written to, not replaced
        # A lone surrogate from an engine's output has no UTF-8.
        beside.write_text(text, encoding="utf-8", errors="replace")
        if beside != target:
            beside.replace(target)
    except OSError as error:
        if beside != target:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
        raise StopwavError(f"{path}: cannot be written ({error.strerror}); name another place") from error


def end_with(code: int) -> None:
    """End the command, where the code is not 0."""
    if code:
        raise typer.Exit(code)


def exit_code(found: Sequence[Result]) -> int:
    """0 when all was measured, 1 when a part was not, 2 when nothing was; what was to be skipped counts for nothing."""
    found = [result for result in found if not any(w.code == "triangle" for w in result.warnings)]
    if all(result.status != "ok" for result in found):
        return EXIT_UNUSABLE
    failed = any(result.status != "ok" for result in found)
    codes = [warning.code for result in found for warning in result.warnings]
    lost = any(code == "corpus" or code.startswith(("stream-", "sample-", "step-")) for code in codes)
    return EXIT_PARTLY if failed or lost else 0


@contextmanager
def progress_bar(*, resumable: bool = False) -> Iterator[Progress]:
    """A function that moves a progress bar on standard error; Ctrl-C ends the command, and says how to go on."""
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
            kept = "; what was measured is kept: add --resume to go on" if resumable else ""
            print(f"stopwav: interrupted{kept}", file=sys.stderr)
            raise typer.Exit(EXIT_INTERRUPTED) from None
