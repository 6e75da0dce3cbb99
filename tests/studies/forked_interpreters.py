"""Interpreters that are forked from one that has the usual imports done, in place of new ones.

What a worker imports takes an eighth of a second of processor time, with PyTorch more than a second, and the tests of
the studies start five hundred. The scripted engine, which is busy for its times, sleeps in the longer ones until
shortly before their end. That a fresh process is a new interpreter is tested in `tests/measure/test_process.py`; every
test that starts the command line or an example has new ones, in which that engine is busy.
"""

import os
import subprocess
from collections.abc import Callable
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.forkserver import ForkServer
from multiprocessing.process import BaseProcess
from time import perf_counter_ns, sleep

from stopwav.engines import fake
from stopwav.measure.process import main

# What the workers of every study import before their engine, and those of losses and of training steps besides.
PLAIN = (
    "stopwav.studies.latency.stream_runner", "stopwav.studies.grid.cell", "stopwav.studies.compare.engine_runner",
    "stopwav.engines.fake",
)  # fmt: skip
WITH_TORCH = (*PLAIN, "torch", "torch.profiler", "stopwav.studies.loss.rounds", "stopwav.studies.step.spending")
# A sleep of a scripted time ends that much before it, so that a late awakening does not make it longer; a time of less
# than twice that is spent awake.
AWAKE_S = 0.01


class ForkedInterpreter:
    """What `FreshProcess` asks of the interpreter that it started."""

    def __init__(self, process: BaseProcess, printed: Connection) -> None:
        self.pid = process.pid
        self.stdout = os.fdopen(os.dup(printed.fileno()), "rb", buffering=0)
        self._process = process

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return its code."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked interpreter", timeout or 0.0)
        return self._process.exitcode


def fork(descriptor: int) -> ForkedInterpreter:
    """Do what `interpreter.spawn` does, by a fork."""
    context = get_context("forkserver")
    (printed, theirs), (ready, own_session) = (context.Pipe(duplex=False) for _ in range(2))
    with Connection(os.dup(descriptor)) as requests, printed, theirs, ready, own_session:
        arguments = (requests, theirs, own_session, dict(os.environ))
        process = context.Process(target=_work, args=arguments, daemon=True)
        process.start()
        own_session.close()
        ready.poll(30)  # until then nobody could kill it with what it starts
        return ForkedInterpreter(process, printed)


def _work(requests: Connection, printed: Connection, own_session: Connection, environment: dict[str, str]) -> None:
    os.setsid()
    own_session.close()
    os.environ.clear()
    os.environ.update(environment)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    for number in (1, 2):
        os.dup2(printed.fileno(), number)
    printed.close()
    fake.spin_until = _sleep_and_spin
    main(requests.fileno(), os.getppid())


def _sleep_and_spin(seconds: float, start_ns: int, spin_until: Callable[[float, int], int] = fake.spin_until) -> int:
    """Do what the scripted engine does, and leave the core to other tests for most of the time."""
    rest_s = seconds - AWAKE_S - (perf_counter_ns() - start_ns) / 1e9
    if rest_s > AWAKE_S:
        sleep(rest_s)
    return spin_until(seconds, start_ns)


@cache
def fork_server(imports: tuple[str, ...]) -> ForkServer:
    """Return the process that has these imports and forks; it ends with this one."""
    server = ForkServer()
    server.set_forkserver_preload(list(imports))
    return server
