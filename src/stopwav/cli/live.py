"""What is shown while a run measures: its table as it fills in, what is next and the time left; or lines of text."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from stopwav.cli.output import EXIT_INTERRUPTED, EXIT_TERMINATED

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.progress import Progress, TaskID

    from stopwav.record import Record

T = TypeVar("T")

# Twice a second: a bar redrawn more often would take time from what is being measured.
REDRAWS_PER_S = 2
# A table is computed between two measurements, and takes at most this share of the time; so does looking whether each
# of its results has a value.
TABLE_SHARE = 0.03
# Where nothing can be redrawn, a line says so often that the run is alive.
HEARTBEAT_S = 30.0
# Lines of the terminal that bars and the line above the table need.
BAR_LINES = 8


class RunDisplay:
    """Follows a run: bars of what is done and, between two measurements, the table so far.

    Where standard error is no terminal, lines take their place: one for each choice, one when the table is whole, and
    one every half minute.
    """

    def __init__(self, console: Console, progress: Progress, live: Live | None) -> None:
        self.record: Record | None = None
        self._console, self._progress, self._live = console, progress, live
        self._tasks: dict[str, TaskID] = {}
        self._begun_s = time.monotonic()
        self._status = ""
        self._table: RenderableType | None = None
        self._next_table_s = 0.0
        self._is_whole = False
        self._next_look_s = 0.0
        self._last_line_s = self._begun_s

    def __call__(self, task: str, done: int, total: int) -> None:
        """Move the bar of a task."""
        if task not in self._tasks:
            self._tasks[task] = self._progress.add_task(task, total=total)
        for name, known in self._tasks.items():  # those that are done give way to what is being done
            self._progress.update(known, visible=name == task)
        self._progress.update(self._tasks[task], completed=done, total=total)
        self._status = f"{task} {done}/{total}"

    def opened(self, record: Record) -> None:
        """Note which run is measured, so that its answer can be shown whatever ends it."""
        self.record = record

    def say(self, text: str) -> None:
        """Print a line about a choice."""
        from rich.text import Text

        from stopwav.report.text import plain

        self._console.print(Text(f"stopwav: {plain(text, 1000)}"), soft_wrap=True)

    def show(self, record: Record, upcoming: str = "", left_s: float | None = None) -> None:
        """Show the table so far, unless it was only just drawn, what is next, and the time left."""
        self.record = record
        now_s = time.monotonic()
        if not self._is_whole and now_s >= self._next_look_s:
            self._look_for_whole_table(record, now_s)
            ended_s = time.monotonic()
            self._next_look_s = ended_s + (ended_s - now_s) / TABLE_SHARE
        left = "" if left_s is None or left_s == float("inf") else f"{_clock(left_s)} left"
        following = f"next: {upcoming}" if upcoming else ""
        self._status = "; ".join(filter(None, (f"{_clock(now_s - self._begun_s)} elapsed", left, following)))
        if self._live is None or now_s < self._next_table_s:
            return
        # A table that cannot be drawn yet is no reason to stop measuring.
        with suppress(Exception):
            self._table = _first_table(record, self._console)
        ended_s = time.monotonic()
        self._next_table_s = ended_s + (ended_s - now_s) / TABLE_SHARE
        self._live.refresh()

    def beat(self) -> None:
        """Print a line where none was printed for a while."""
        if time.monotonic() - self._last_line_s >= HEARTBEAT_S:
            self._print_line(self._status or "preparing")

    def rendered(self) -> RenderableType:
        """Return the table so far, the bars, and what is next."""
        from rich.console import Group
        from rich.text import Text

        table = [] if self._table is None else [self._table]
        return Group(*table, self._progress, Text(self._status, style="dim"))

    def _look_for_whole_table(self, record: Record, now_s: float) -> None:
        from stopwav.studies.piece_kinds import first_missing
        from stopwav.studies.study import study_of

        if record.header.spec.get("rounds") is not None or first_missing(study_of(record).missing(record)) is not None:
            return
        self._is_whole = True
        self._next_table_s = 0.0
        if self._live is None:
            seconds = _clock(now_s - self._begun_s)
            self._print_line(f"every result has a first value after {seconds}; stopwav report {record.path} shows them")

    def _print_line(self, text: str) -> None:
        self._last_line_s = time.monotonic()
        elapsed = _clock(self._last_line_s - self._begun_s)
        prefix = "" if "elapsed" in text or "after" in text else f"{elapsed} elapsed; "
        print(f"stopwav: {prefix}{text}", file=sys.stderr, flush=True)


class Stopped(Exception):
    """A run that Ctrl-C or SIGTERM stopped: what it holds, and the exit code that says so."""

    def __init__(self, record: Record, code: int) -> None:
        super().__init__(f"{record.path} was stopped")
        self.record, self.code = record, code


def follow(measure: Callable[[RunDisplay], T]) -> T:
    """Return what is measured, shown on standard error meanwhile; raise `Stopped` where somebody stops it."""
    display = None
    try:
        with run_display() as display:
            return measure(display)
    except KeyboardInterrupt as interrupt:
        raise _stopped(display, interrupt) from None


@contextmanager
def run_display() -> Iterator[RunDisplay]:
    """Yield a display on standard error for as long as a run measures; SIGTERM then ends it as Ctrl-C does."""
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from stopwav.report.terminal import open_console

    console = open_console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=console, disable=not console.is_terminal)
    with _terminated_as_interrupted():
        if not console.is_terminal:
            with _heartbeat(RunDisplay(console, progress, None)) as display:
                yield display
            return
        live = Live(console=console, refresh_per_second=REDRAWS_PER_S, transient=True, vertical_overflow="crop")
        display = RunDisplay(console, progress, live)
        live.get_renderable = display.rendered  # type: ignore[method-assign]
        with live:
            yield display


def _stopped(display: RunDisplay | None, interrupt: KeyboardInterrupt) -> Stopped:
    """The run that was stopped, for the answer that it holds; where it holds none, the command ends."""
    from stopwav.record import Record
    from stopwav.studies.budget import SPENT

    code = EXIT_TERMINATED if interrupt.args == (signal.SIGTERM,) else EXIT_INTERRUPTED
    opened = None if display is None else display.record
    if opened is None or all(key[0] == SPENT for key in opened.keys):
        print("stopwav: interrupted before anything was measured", file=sys.stderr)
        raise typer.Exit(code)
    print("stopwav: interrupted; these are the results so far: continue with --resume", file=sys.stderr)
    return Stopped(Record.read(opened.path), code)


def _first_table(record: Record, console: Console) -> RenderableType:
    """The first table of the run's document, as far as the terminal has lines for it."""
    from rich.console import Console as RichConsole
    from rich.text import Text

    from stopwav.report.document import Detail, Document, Table, shown
    from stopwav.report.terminal import print_document
    from stopwav.studies.study import StudyRun

    document = StudyRun(record).document(Detail())
    table = next(block for block in shown(document.blocks, "brief") if isinstance(block, Table))
    drawn = StringIO()
    print_document(Document("", (table,)), RichConsole(file=drawn, width=console.width))
    lines = drawn.getvalue().rstrip("\n").split("\n")
    most = max(1, console.height - BAR_LINES)
    return Text("\n".join(lines if len(lines) <= most else [*lines[: most - 1], "…"]))


@contextmanager
def _heartbeat(display: RunDisplay) -> Iterator[RunDisplay]:
    """Have the display print a line now and then; the thread sleeps in between."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(HEARTBEAT_S / 3):
            display.beat()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield display
    finally:
        ended.set()
        thread.join()


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM, by which schedulers and CI end a job, raise KeyboardInterrupt."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt(signal.SIGTERM)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _clock(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
