"""Preflight: the engines of a run are loaded before its file exists, in the very processes of its first round.

So a missing package, a missing model and a wrong option stop a run before anything is measured, and nothing is loaded
for the check alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from stopwav.measure.process import Outcome
from stopwav.studies.engine_check import raise_problems
from stopwav.studies.worker import Worker


def load_engines(
    workers: Mapping[str, Worker],
    report: Callable[[str, int, int], None],
    optional: Collection[str] = (),
) -> dict[str, Outcome]:
    """Load each engine in its worker, and return how that ended; one error names all that did not load.

    Whatever ended a process, such as a crash, a lack of memory or a time limit, is a result of the run and no error of
    the command; so is any failure of an `optional` engine. The worker keeps it and does not try again.
    """
    outcomes: dict[str, Outcome] = {}
    for done, (name, worker) in enumerate(workers.items(), start=1):
        outcomes[name] = worker.load()
        report("loading engines", done, len(workers))
    raise_problems(
        [
            _problem(name, outcome)
            for name, outcome in outcomes.items()
            if outcome.status == "error" and name not in optional
        ]
    )
    return outcomes


def _problem(name: str, outcome: Outcome) -> str:
    """Why an engine did not load, with its name."""
    reason = " ".join(outcome.message.split())
    return reason if name in reason else f"engine {name!r}: {reason}"
