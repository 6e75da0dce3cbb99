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

if TYPE_CHECKING:
    from rich.console import Console

    from stopwav.record import Record, Result
    from stopwav.stats.card import Card
    from stopwav.stats.gain import Explanation
    from stopwav.studies.spec import Progress


T = TypeVar("T")

# How a command ended, for the shell: all was measured (0), a part was not, nothing was, or Ctrl-C.
EXIT_PARTLY = 1
EXIT_UNUSABLE = 2
EXIT_INTERRUPTED = 130

# A run with what was found in it.
Found = tuple["Record", "list[Result]"]


def print_results(
    record: Record,
    *,
    as_json: bool,
    every_metric: bool = False,
    page: bool = True,
    scientific: bool = False,
    unfold: bool = False,
    labels: str | None = None,
) -> None:
    """Print what a study found, write its page beside the run, and end with the exit code that tells how it went."""
    found = results_of(record)
    shown = {"every_metric": every_metric, "scientific": scientific, "unfold": unfold, "labels": labels}
    print_runs([(record, found)], as_json=as_json, **shown)  # type: ignore[arg-type]
    if page:
        write_page_or_warn([(record, found)], page_of(record))
    end_with(exit_code(found))


def results_of(record: Record) -> list[Result]:
    """What a run found; a run file that was tampered with is an error in one line."""
    from stopwav.studies import results

    return _understood(results, record)


def explanation_of(record: Record) -> Explanation | None:
    """What the settings gain that a run tried; None where it tried none."""
    from stopwav.studies.explain import explanation

    return _understood(explanation, record) if record.header.study == "latency" else None


def card_of(record: Record) -> Card | None:
    """What a comparison decides; None for a run of another study."""
    from stopwav.studies.compare_card import card

    return _understood(card, record) if record.header.study == "compare" else None


def _understood(read: Callable[[Record], T], record: Record) -> T:
    try:
        return read(record)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, StopIteration) as error:
        reason = f"{type(error).__name__}: {error}".replace("\n", " ")[:120]
        raise StopwavError(
            f"{record.path}: a run that stopwav cannot make sense of ({reason}); measure again"
        ) from error


def print_runs(
    runs: Sequence[Found],
    *,
    as_json: bool,
    every_metric: bool = False,
    scientific: bool = False,
    unfold: bool = False,
    labels: str | None = None,
) -> None:
    """Print what runs found: one JSON object, or tables one run after the other."""
    from stopwav import __version__

    if as_json:
        rows = [run_to_json(record, found) for record, found in runs]
        print(json.dumps({"stopwav": __version__, **(rows[0] if len(rows) == 1 else {"runs": rows})}))
        return
    from rich.console import Console
    from rich.text import Text

    from stopwav.report.compare_table import print_compare
    from stopwav.report.grid_table import print_grid
    from stopwav.report.loss_table import print_loss
    from stopwav.report.plain import plain
    from stopwav.report.step_table import print_step

    console = Console(markup=False, highlight=False)
    for index, (record, found) in enumerate(runs):
        if index:
            console.print()
        if record.header.study == "grid":
            print_grid(found, console, every_metric=every_metric, scientific=scientific)
        elif record.header.study == "loss":
            print_loss(found, console, every_metric=every_metric)
        elif (card := card_of(record)) is not None:
            print_compare(found, card, console, every_metric=every_metric)
        elif record.header.study == "step":
            print_step(found, console, every_metric=every_metric, unfold=unfold, labels=labels)
        else:
            _print_latency(record, found, console, every_metric)
        console.print(Text(f"\nrun file: {plain(str(record.path), 4096)}", style="dim"), soft_wrap=True)


def _print_latency(record: Record, found: Sequence[Result], console: Console, every_metric: bool) -> None:
    from stopwav.report.explanation import print_explanation
    from stopwav.report.latency_table import print_latency

    explained = explanation_of(record)
    # Of the settings that were tried, the explanation is what a reader wants; `--all` has every number of each.
    print_latency(found, console, every_metric=every_metric, shown=None if explained is None else 1)
    if explained is not None:
        console.print()
        print_explanation(explained, console)


def run_to_json(record: Record, found: Sequence[Result]) -> dict[str, Any]:
    """A run and its results as `--json` prints them."""
    explained, card = explanation_of(record), card_of(record)
    return {
        "study": record.header.study,
        "run": str(record.path),
        "results": [one.to_json() for one in found],
        **({} if explained is None else {"explanation": explained.to_json()}),
        **({} if card is None else {"card": card.to_json()}),
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
    from stopwav.report.step_comparison import step_comparison_html

    sections = [Section(record, found, view_of(record), explanation_of(record)) for record, found in runs]
    steps = all(record.header.study == "step" for record, _ in runs)
    compared = (step_comparison_html if steps else comparison_html)(runs) if len(runs) > 1 else ""
    html = render_page(sections, comparison_html=compared)
    write_file(path, html, [record.path for record, _ in runs])
    print(f"page: {path}", file=sys.stderr)


def view_of(record: Record) -> dict[str, Any]:
    """What the charts of a run show beside its results: nothing for a study that is drawn from these alone."""
    if record.header.study == "step":
        from stopwav.studies.step_results import step_view

        return step_view(record)
    if record.header.study == "compare":
        return {"card": card_of(record)}
    if record.header.study != "latency":
        return {}
    from stopwav.studies.latency_view import latency_view

    return latency_view(record)


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
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A lone surrogate from an engine's output has no UTF-8.
        beside.write_text(text, encoding="utf-8", errors="replace")
        beside.replace(path)
    except OSError as error:
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
