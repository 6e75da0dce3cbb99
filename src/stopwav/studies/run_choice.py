"""The run that a name stands for where it is no file: the newest one of a folder, or the latest of all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.record import Header, Record, read_header
from stopwav.studies.spec import DEFAULT_FOLDER

# Stands for the folder that runs are saved in by default.
LATEST = "latest"


@dataclass(frozen=True)
class RunChoice:
    """The run file that was chosen, and why it was: "" where the name was that of a file."""

    path: Path
    reason: str = ""


def choose_run(name: Path | str, study: str | None = None) -> RunChoice:
    """Return the run of a name: a file, or the newest complete run of a folder, of one study where that is given.

    `latest` is the newest of `stopwav-runs`, unless there is a file or folder of that name. Where no run of a folder is
    complete, the newest one is chosen.
    """
    is_word = str(name) == LATEST and not os.path.lexists(LATEST)
    path = DEFAULT_FOLDER if is_word else Path(name)
    if is_word and not path.is_dir():
        raise StopwavError(f"{LATEST}: there is no folder {path} here; name a run file, or a folder of them")
    if not path.is_dir():
        return RunChoice(path)
    newest = None
    what = f"{study} run" if study else "run"
    for candidate in _newest_first(path, study):
        newest = newest or candidate
        if _is_complete(candidate):
            return RunChoice(candidate, f"the newest complete {what} in {path}")
    if newest is None:
        raise StopwavError(f"{path}: holds no {what}; name a run file, or a folder of them")
    return RunChoice(newest, f"the newest {what} in {path}, none of which is complete")


def choose_pair(a: Path | str, b: Path | str) -> tuple[RunChoice, RunChoice]:
    """Return the runs of two names, as `choose_runs` does."""
    first, second = choose_runs([a, b])
    return first, second


def choose_runs(names: Sequence[Path | str]) -> list[RunChoice]:
    """Return the runs of names, of one study: that of the first that is a file, or of the newest run of the first."""
    leader = next((position for position, name in enumerate(names) if Path(name).is_file()), 0)
    leading = choose_run(names[leader])
    study = _study_of(leading.path)
    chosen = [leading if position == leader else choose_run(name, study) for position, name in enumerate(names)]
    for position, choice in enumerate(chosen):
        for other in range(position):
            both = choice.reason or chosen[other].reason
            if both and os.path.realpath(choice.path) == os.path.realpath(chosen[other].path):
                twice = f"{names[other]} and {names[position]} both stand for {choice.path}"
                raise StopwavError(f"{twice}; name an earlier run to compare it with")
    return chosen


def _study_of(path: Path) -> str | None:
    """The study of a run; None where it cannot be read, which whoever reads it whole says better."""
    try:
        return read_header(path).study
    except StopwavError:
        return None


def _newest_first(folder: Path, study: str | None) -> Iterator[Path]:
    """The runs in a folder by when they were started; other files are passed over."""
    headers: dict[Path, Header] = {}
    for path in folder.glob("*.jsonl"):
        try:
            headers[path] = read_header(path)
        except StopwavError:
            continue
    newest = sorted(headers, key=lambda path: (headers[path].started, path.name), reverse=True)
    yield from (path for path in newest if study in (None, headers[path].study))


def _is_complete(path: Path) -> bool:
    try:
        return Record.read(path).complete
    except StopwavError:
        return False
