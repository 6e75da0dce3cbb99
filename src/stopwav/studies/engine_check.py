"""Whether the engines of a run are available: found by name here, and imported in a process of its own.

A file of others may print, exit, crash, hang or change the folder it runs in: none of that reaches this process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stopwav.engines import inspection
from stopwav.engines.inspection import EngineInspector, Inspection, OfferedSetting
from stopwav.engines.named_models import fetch_model
from stopwav.engines.registry import (
    BUILT_IN,
    EngineEntry,
    EngineSpec,
    find_entry,
    is_streaming,
    not_streaming,
    parse_spec,
)
from stopwav.errors import StopwavError
from stopwav.measure.process import Outcome
from stopwav.servers.registry import is_server, make_server
from stopwav.studies.worker import Worker

# A large toolkit takes a minute to import from a cold disk, and what hangs is not waited for much longer.
IMPORT_LIMIT_S = 120.0
# The end of what a file printed that shows why it ended; an error is one line.
LAST_WORDS_CHARACTERS = 300

# What was found out of each engine in this process, for as long as its files stay as they are.
_known: dict[tuple[object, ...], Outcome] = {}


def check_engine(text: str, time_limit_s: float = 0.0) -> Inspection:
    """Return what is known of an engine before it loads; one that is not available is an error.

    Its import may take as long as `time_limit_s`, or two minutes where that is less.
    """
    (inspected,) = check_engines([text], time_limit_s)
    return inspected


def check_engines(
    engines: Iterable[str], time_limit_s: float = 0.0, *, streaming: bool = False, servers: bool = False
) -> list[Inspection]:
    """Return what is known of each engine of a run; one error names all that are not available, each with its way out.

    With `streaming`, one that does not stream is not available; with `servers`, one behind a protocol is.
    """
    inspections: dict[str, Inspection] = {}
    problems: list[str] = []
    named = list(engines)
    with ExitStack() as stack:
        inspectors = _Inspectors(stack, time_limit_s)
        for engine in dict.fromkeys(named):
            try:
                if is_server(engine):
                    inspections[engine] = _check_server(engine, servers)
                    continue
                inspections[engine] = (
                    inspection.inspect_engine(engine) if _is_light(engine) else inspectors.ask("inspect", engine)
                )
                if streaming and inspections[engine].streaming is False:
                    problems.append(str(not_streaming(engine)))
            except StopwavError as error:
                problems.append(str(error))
    raise_problems(problems)
    for engine in inspections:
        if not is_server(engine):
            fetch_model(parse_spec(engine))
    return [inspections[engine] for engine in named]


def check_names(engines: Iterable[str]) -> None:
    """Raise one error for all engines whose name or file is not there; nothing is imported, on no machine."""
    problems: list[str] = []
    for engine in dict.fromkeys(engines):
        try:
            if not is_server(engine):
                find_entry(parse_spec(engine))
        except StopwavError as error:
            problems.append(str(error))
    raise_problems(problems)


def _check_server(text: str, wanted: bool) -> Inspection:
    """What is known of a server before it is reached."""
    if not wanted:
        raise StopwavError(f"{text} is a server, which `stopwav latency` measures; an engine is needed here")
    make_server(text)
    return Inspection(takes_any_option=True, streaming=True)


def raise_problems(problems: Sequence[str]) -> None:
    """Raise one error in one line for all that is wrong with the engines of a run; nothing where nothing is."""
    if len(problems) > 1:
        numbered = "; ".join(f"({number}) {problem}" for number, problem in enumerate(problems, start=1))
        raise StopwavError(f"{len(problems)} engines cannot be measured: {numbered}")
    if problems:
        raise StopwavError(problems[0])


def offered_settings(text: str, time_limit_s: float = 0.0) -> list[OfferedSetting]:
    """Return the settings that an engine's class offers to try."""
    if _is_light(text):
        return inspection.offered_settings(text)
    with ExitStack() as stack:
        settings: list[OfferedSetting] = _Inspectors(stack, time_limit_s).ask("offered_settings", text)
        return settings


def streaming_or_problem(entries: Sequence[EngineEntry]) -> list[tuple[bool | None, str]]:
    """Return whether each engine streams (None where its model decides), and why that cannot be known, or ""."""
    # One process for all, as most import PyTorch; each may end it.
    with Worker(EngineInspector, (), load_limit_s=IMPORT_LIMIT_S, max_deaths=len(entries) + 1) as worker:
        return [_streaming_or_problem(entry, worker) for entry in entries]


def _streaming_or_problem(entry: EngineEntry, worker: Worker) -> tuple[bool | None, str]:
    if entry.version is None or entry.is_light:
        return is_streaming(entry), ""
    outcome = worker.call("is_streaming", entry, time_limit_s=IMPORT_LIMIT_S)
    if outcome.ok:
        return outcome.value, ""
    reason = _reason(outcome)
    return None, reason if outcome.status == "error" else f"engine {entry.name!r} does not import: {reason}"


def _is_light(text: str) -> bool:
    """Whether the engine can be inspected here; a name that no engine has is an error."""
    entry = find_entry(parse_spec(text))
    return entry is not None and entry.is_light


class _Inspectors:
    """A process for each file or other package, which is imported once for all engines that name it."""

    def __init__(self, stack: ExitStack, time_limit_s: float) -> None:
        self._stack = stack
        self._limit_s = max(IMPORT_LIMIT_S, time_limit_s)
        self._workers: dict[str, Worker] = {}

    def ask(self, method: str, text: str) -> Any:
        """Return what the inspector says of an engine, or raise why it cannot."""
        spec = parse_spec(text)
        key = (method, text, self._limit_s, _state(spec))
        if key not in _known:
            # Those of stopwav share one process, as most import PyTorch.
            package = "" if find_entry(spec) in BUILT_IN else spec.name
            _known[key] = self._worker(package).call(method, text, time_limit_s=self._limit_s)
        outcome = _known[key]
        if outcome.ok:
            return outcome.value
        if outcome.status == "error":
            raise StopwavError(_reason(outcome))
        file = spec.name if spec.name.endswith(".py") else f"engine {spec.name}"
        more = "; --time-limit gives it longer" if outcome.status == "timeout" else ""
        raise StopwavError(f"engine {text!r}: importing {file} ended the process: {_reason(outcome)}{more}")

    def _worker(self, name: str) -> Worker:
        if name not in self._workers:
            self._workers[name] = self._stack.enter_context(Worker(EngineInspector, (), load_limit_s=self._limit_s))
        return self._workers[name]


def _reason(outcome: Outcome) -> str:
    """Why an engine did not import, in one line, with the end of what it printed."""
    words = " ".join(outcome.last_words.split())[-LAST_WORDS_CHARACTERS:]
    return " ".join(outcome.message.split()) + (f"; its last words: {words}" if words else "")


def _state(spec: EngineSpec) -> tuple[object, ...]:
    """What an earlier answer depends on: the folder that names are relative to, and the files or the package."""
    entry = find_entry(spec)
    if entry is not None:
        return (os.getcwd(), entry.target, entry.version)
    folder = Path(spec.name).resolve().parent
    sources = (path for path in folder.glob("*.py") if path.is_file())  # an editor's lock may be a link to nothing
    return (str(folder), *sorted((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in sources))
