"""The baseline store: runs to compare with, kept by machine, study and name in a folder to commit or to cache.

A baseline is the run file itself, at FOLDER/FINGERPRINT/STUDY/NAME.jsonl: every verb reads it, and one of another
machine is never taken by mistake, as it has another place.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import Header, Record, read_header
from stopwav.stats import DEFAULT_THRESHOLD
from stopwav.studies.diff.diff import Run, read_run
from stopwav.studies.diff.gate import CONDITIONS, Gate, check_complete, check_conditions, gate

DEFAULT_STORE = Path("stopwav-baselines")
# Where the baseline usually comes from.
DEFAULT_NAME = "main"
# A part of a path on every system: a branch `feature/x` is saved as `feature-x`.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Baseline:
    """A baseline: the machine and study that it is of, its name, and its run file."""

    machine: str
    study: str
    name: str
    path: Path
    started: str
    cpu: str
    stopwav: str

    def to_json(self) -> dict[str, Any]:
        """Return the baseline as `--json` prints it."""
        return {**vars(self), "path": str(self.path)}


@dataclass(frozen=True)
class BaselineComparison:
    """A run held against its baseline; `gate` is None where there is none of this machine, study and name."""

    run: Path
    study: str
    name: str
    machine: str
    cpu: str
    store: Path
    gate: Gate | None = None
    # Those of the same study and name of other machines.
    elsewhere: tuple[Baseline, ...] = ()

    @property
    def outcome(self) -> str:
        """`passed`, `failed`, or `no-baseline`."""
        return "no-baseline" if self.gate is None else "passed" if self.gate.passed else "failed"

    @property
    def passed(self) -> bool | None:
        """Whether no condition was violated; None where there is no baseline, so that nothing is known."""
        return None if self.gate is None else self.gate.passed

    @property
    def reason(self) -> str:
        """Why there is nothing to compare with; "" where there is."""
        if self.gate is not None:
            return ""
        others = ", ".join(dict.fromkeys(f"{other.machine} ({other.cpu})" for other in self.elsewhere))
        return (
            f"{self.store} has no {self.study} baseline {self.name!r} of this machine, {self.machine} ({self.cpu})"
            + (f"; it has one of {others}" if others else "")
            + f"; make one with stopwav baseline save {self.run}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as `--json` prints it, with the comparison where there is one."""
        return {
            "outcome": self.outcome,
            "passed": self.passed,
            "run": str(self.run),
            "study": self.study,
            "name": self.name,
            "machine": self.machine,
            "reason": self.reason,
            "elsewhere": [baseline.to_json() for baseline in self.elsewhere],
            "comparison": None if self.gate is None else self.gate.to_json(),
        }


def save_baseline(
    run: Run, *, name: str = DEFAULT_NAME, folder: Path | str = DEFAULT_STORE, allow_incomplete: bool = False
) -> Baseline:
    """Keep a run as the baseline of its machine and study, in place of an earlier one of that name, and return it."""
    return save_baselines([run], name=name, folder=folder, allow_incomplete=allow_incomplete)[0]


def save_baselines(
    runs: Sequence[Run], *, name: str = DEFAULT_NAME, folder: Path | str = DEFAULT_STORE, allow_incomplete: bool = False
) -> list[Baseline]:
    """Keep runs as baselines of one name, all or none: two of one machine and study would replace each other."""
    places: dict[Path, Record] = {}
    for record in map(read_run, runs):
        check_complete(record, allow_incomplete)
        path = place_of(Path(folder), record.header, name, record.path)
        if path in places:
            raise StopwavError(
                f"{places[path].path} and {record.path} are both {record.header.study} runs of one machine; save each "
                "under a --name of its own"
            )
        places[path] = record
    for path, record in places.items():
        _copy(record.path, path)
    return [_baseline(path, record.header) for path, record in places.items()]


def _copy(source: Path, target: Path) -> None:
    """Copy a file whole or not at all."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, temporary)
        temporary.replace(target)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise StopwavError(f"{target}: cannot be written ({error.strerror}); name another folder") from error


def list_baselines(folder: Path | str = DEFAULT_STORE) -> list[Baseline]:
    """Return the baselines in a folder by machine, study and name; files that are no runs are passed over."""
    store = Path(folder)
    if not store.is_dir():
        raise StopwavError(f"{store}: no such folder of baselines; `stopwav baseline save RUN` makes it")
    baselines = []
    for path in sorted(store.glob("*/*/*.jsonl")):
        with suppress(StopwavError):
            baselines.append(_baseline(path, read_header(path)))
    return baselines


def compare_baseline(
    run: Run,
    *,
    name: str = DEFAULT_NAME,
    folder: Path | str = DEFAULT_STORE,
    fail_on: Sequence[str] = tuple(CONDITIONS),
    threshold: float = DEFAULT_THRESHOLD,
    thresholds: Mapping[str, float] | None = None,
    force: bool = False,
    allow_incomplete: bool = False,
) -> BaselineComparison:
    """Return whether a run holds against the baseline of its machine and study, as `gate` decides.

    That there is no such baseline is an outcome of its own, and no error.
    """
    check_conditions(fail_on)
    record = read_run(run)
    store = Path(folder)
    path = place_of(store, record.header, name, record.path)
    found = BaselineComparison(
        record.path, record.header.study, name, *_machine(record.header), store, elsewhere=_elsewhere(store, path)
    )
    if not path.is_file():
        check_complete(record, allow_incomplete)
        return found
    judged = gate(
        path,
        record,
        fail_on=fail_on,
        threshold=threshold,
        thresholds=thresholds,
        force=force,
        allow_incomplete=allow_incomplete,
    )
    return BaselineComparison(**{**vars(found), "gate": judged})


def place_of(folder: Path, header: Header, name: str, run: Path) -> Path:
    """Return where the baseline of a name lies for runs of this machine and study."""
    machine, _ = _machine(header)
    for what, part in (("name", name), ("study", header.study), ("machine", machine)):
        if not _NAME.fullmatch(part):
            hint = "letters, digits, '.', '_' and '-', up to 100" if what == "name" else "was the run edited?"
            raise StopwavError(f"{run}: a baseline cannot be kept under the {what} {part[:100]!r}: {hint}")
    return folder / machine / header.study / f"{name}.jsonl"


def _machine(header: Header) -> tuple[str, str]:
    """The fingerprint and the processor of the machine that a run is of."""
    return str(header.machine.get("fingerprint", "unknown")), str(header.machine.get("cpu", "unknown processor"))


def _baseline(path: Path, header: Header) -> Baseline:
    _, cpu = _machine(header)
    machine, study = path.parent.parent.name, path.parent.name
    return Baseline(machine, study, path.stem, path, header.started, cpu, header.stopwav)


def _elsewhere(store: Path, path: Path) -> tuple[Baseline, ...]:
    """The baselines at the same place under other machines."""
    found = [] if not store.is_dir() else list_baselines(store)
    return tuple(other for other in found if other.path.parts[-2:] == path.parts[-2:] and other.path != path)
