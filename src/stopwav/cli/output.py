"""The output of every verb over runs: results on standard output, the rest on standard error, the exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from stopwav.errors import StopwavError
from stopwav.report.document import Detail

if TYPE_CHECKING:
    from rich.console import Console

    from stopwav.record import Record
    from stopwav.report.document import Document
    from stopwav.studies.run_choice import RunChoice
    from stopwav.studies.spec import Progress
    from stopwav.studies.study import StudyRun


T = TypeVar("T")

# How a command ended, for the shell: all was measured (0), a part was not, nothing was, or Ctrl-C.
EXIT_PARTLY = 1
EXIT_UNUSABLE = 2
# Of a gate: a condition is violated, or not known to hold.
EXIT_VIOLATED = 3
EXIT_UNDECIDED = 4
# There is no baseline of this machine to compare with.
EXIT_NO_BASELINE = 5
EXIT_INTERRUPTED = 130
# By SIGTERM, which ends it as Ctrl-C does.
EXIT_TERMINATED = 143
STOPPED_CODES = (EXIT_INTERRUPTED, EXIT_TERMINATED)

USUAL = Detail()


def print_run(
    record: Record, *, as_json: bool, detail: Detail = USUAL, page: bool = True, code: int | None = None
) -> None:
    """Print the results of a run, write its page next to it, and end with the exit code that says how it went.

    `code` is that of a command that was stopped.
    """
    report_resumed(record)
    run = read_results(record)
    print_runs([run], as_json=as_json, detail=detail)
    if page and not as_json:
        write_page_or_warn([run], page_of(record))
    end_with(exit_code([run]) if code is None else code)


def report_resumed(record: Record) -> None:
    """Say how many pieces of a run an earlier command had measured, or that there was nothing left to measure."""
    if record.complete and record.previous_count == len(record.pieces):
        hint = "leave out --resume to measure again"
        print(f"stopwav: {record.path} is complete: nothing was measured; {hint}", file=sys.stderr)
    elif record.previous_count:
        from stopwav.report.text import counted

        pieces = counted(record.previous_count, "piece")
        print(f"stopwav: resumed {record.path}: {pieces} measured before", file=sys.stderr)


def report_choice(choice: RunChoice) -> Path:
    """Return the run that a name stands for, and say which it is where the name was not its own."""
    if choice.reason:
        print(f"stopwav: took {choice.path}, {choice.reason}", file=sys.stderr)
    return choice.path


def read_results(record: Record) -> StudyRun:
    """Return the run with its results; a run file that was tampered with is an error in one line."""
    from stopwav.studies.study import StudyRun

    run = StudyRun(record)
    understood(record, lambda: run.results)
    return run


def understood(record: Record, read: Callable[[], T]) -> T:
    """Return what is read from a run; a run file that was tampered with is an error in one line."""
    from stopwav.studies.stored_fields import readable

    with readable(record, "results of this run"):
        return read()


def print_runs(runs: Sequence[StudyRun], *, as_json: bool, detail: Detail = USUAL) -> None:
    """Print runs: one JSON object, or tables one run after the other."""
    if as_json:
        rows = [run_to_json(run, texts=detail.print_texts) for run in runs]
        print_json(rows[0] if len(rows) == 1 else {"runs": rows})
        return
    from rich.text import Text

    from stopwav.report.terminal import print_document
    from stopwav.report.text import plain

    console = _console()
    for index, run in enumerate(runs):
        if index:
            console.print()
        document = understood(run.record, partial(run.document, detail))
        print_document(document, console, every_metric=detail.every_metric)
        console.print(Text(f"\nrun file: {plain(str(run.record.path), 4096)}", style="dim"), soft_wrap=True)


def check_one_output(asked: Mapping[str, bool]) -> None:
    """Raise where more than one of these options was given."""
    named = [name for name, wanted in asked.items() if wanted]
    if len(named) > 1:
        raise StopwavError(f"{' and '.join(named)}: each fills standard output; give one of them at a time")


def print_json(fields: Mapping[str, Any], indent: int | None = None) -> None:
    """Print one JSON object, with the version of stopwav first."""
    from stopwav import __version__

    print(json.dumps({"stopwav": __version__, **fields}, indent=indent))


def show_document(document: Document, *, every_metric: bool = True) -> None:
    """Print a document to the terminal."""
    from stopwav.report.terminal import print_document

    print_document(document, _console(), every_metric=every_metric)


def _console() -> Console:
    from stopwav.report.terminal import open_console

    return open_console()


def run_to_json(run: StudyRun, *, texts: bool = False) -> dict[str, Any]:
    """Return a run and its results as `--json` prints them; `texts` adds what each engine recognised."""
    from stopwav.report.provenance import machine_name

    results = [result.to_json() for result in run.results]
    if texts and (recognised := understood(run.record, lambda: run.texts)) is not None:
        for result, fields in zip(run.results, results, strict=True):
            if result.kind == "engine":
                fields["texts"] = [text.to_json() for text in recognised if text.name == result.name]
    return {
        "study": run.study.name,
        "run": str(run.record.path),
        **({"machine": machine_name(run.record.header)} if run.record.header.place else {}),
        "results": results,
        **{key: extra.to_json() for key, extra in understood(run.record, lambda: run.extras).items()},
    }


def print_text(text: str) -> None:
    """Print a whole document; what the terminal's encoding lacks is escaped, since half a document is worse."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def page_of(record: Record) -> Path:
    """Return where the page of a run lies: next to it."""
    return record.path.with_suffix(".html")


def write_page(runs: Sequence[StudyRun], path: Path) -> None:
    """Write one page with a section per run, and a comparison on top where there are several."""
    from stopwav.report.page import render_page
    from stopwav.studies.side_by_side import page_section, side_by_side

    sections = [understood(run.record, partial(page_section, run)) for run in runs]
    above = understood(runs[0].record, partial(side_by_side, runs)) if len(runs) > 1 else None
    html = understood(runs[0].record, partial(render_page, sections, above))
    write_file(path, html, [run.record.path for run in runs])
    print(f"page: {path}", file=sys.stderr)


def write_page_or_warn(runs: Sequence[StudyRun], path: Path) -> bool:
    """Return whether the page was written; whatever goes wrong is a warning, as the results are safe without it."""
    try:
        write_page(runs, path)
    except Exception as error:
        reason = str(error) if isinstance(error, StopwavError) else f"{type(error).__name__}: {error}"
        print(f"stopwav: no page ({' '.join(reason.split())[:300]}); the run is kept", file=sys.stderr)
        return False
    return True


def check_target(path: Path | None) -> None:
    """Raise where a file cannot be written to a path that was asked for: before the work, not after it."""
    from stopwav.studies.run_folder import closed_reason

    if path is None or (os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)):
        return  # a pipe or a device is written to as it is
    if os.path.isdir(path):
        raise StopwavError(f"{path}: is a folder; name a file in it")
    if reason := closed_reason(Path(os.path.realpath(path)).parent):
        raise StopwavError(f"{path}: cannot be written ({reason}); name another place")


def write_file(path: Path, content: str | bytes, runs: Sequence[Path] = ()) -> None:
    """Write a whole file or none, and never over one of the runs it is made from."""
    target = Path(os.path.realpath(path))  # a link stays one
    if any(str(target) == os.path.realpath(run) for run in runs):
        raise StopwavError(f"{path}: is the run itself and would be overwritten; name another file")
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            temporary = target  # a pipe or a device is written to, not replaced
        # A lone surrogate from an engine's output has no UTF-8.
        temporary.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))
        if temporary != target:
            temporary.replace(target)
    except OSError as error:
        if temporary != target:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        raise StopwavError(f"{path}: cannot be written ({error.strerror}); name another place") from error


def end_with(code: int) -> None:
    """End the command, where the code is not 0."""
    if code:
        raise typer.Exit(code)


def exit_code(runs: Sequence[StudyRun]) -> int:
    """Return 0 when all was measured, 1 when a part was not, 2 when nothing was.

    What was skipped on purpose is not counted as a failure. Which warnings say that something was lost is each study's
    to say; of every study, one about the corpus does.
    """
    asked = [
        (result.status, [warning.code for warning in result.warnings], run.study)
        for run in runs
        for result in run.results
        if not any(warning.code in run.study.skip_codes for warning in result.warnings)
    ]
    if all(status != "ok" for status, _, _ in asked):
        return EXIT_UNUSABLE
    partly = any(
        status != "ok" or any(code == "corpus" or code.startswith(study.failure_codes) for code in codes)
        for status, codes, study in asked
    )
    return EXIT_PARTLY if partly else 0


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Yield a function that moves a progress bar on standard error; Ctrl-C ends the command."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from stopwav.report.terminal import open_console

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
    console = open_console(stderr=True)
    hidden = not console.is_terminal  # where a bar cannot move, it would leave an empty line
    with Progress(*columns, console=console, refresh_per_second=2, transient=True, disable=hidden) as bar:
        tasks: dict[str, int] = {}

        def move(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done)  # type: ignore[arg-type]

        try:
            yield move
        except KeyboardInterrupt:
            bar.stop()
            print("stopwav: interrupted", file=sys.stderr)
            raise typer.Exit(EXIT_INTERRUPTED) from None
