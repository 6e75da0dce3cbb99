"""Interpreters that are forked from one that has the usual imports done, in place of new ones.

What a worker imports takes an eighth of a second of processor time, with PyTorch more than a second, and the tests of
the studies start five hundred. That a fresh process is a new interpreter is tested in `tests/measure/test_process.py`,
and every test that starts the command line or an example has new ones.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.forkserver import ForkServer
from multiprocessing.process import BaseProcess

import pytest

from stopwav.measure.process import main

# What the workers of every study import before their engine, and those of losses and of training steps besides.
PLAIN = ("stopwav.studies.latency.stream_runner", "stopwav.studies.grid.cell", "stopwav.studies.compare.engine_runner")
WITH_TORCH = (*PLAIN, "torch", "torch.profiler", "stopwav.studies.loss.rounds", "stopwav.studies.step.spending")


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
    main(requests.fileno(), os.getppid())


@cache
def _server(imports: tuple[str, ...]) -> ForkServer:
    server = ForkServer()
    server.set_forkserver_preload(list(imports))
    return server


@contextmanager
def forked_interpreters(imports: tuple[str, ...]) -> Iterator[None]:
    """Let workers be forks of an interpreter with these imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("multiprocessing.forkserver.connect_to_new_process", _server(imports).connect_to_new_process)
        patch.setattr(sys.modules["stopwav.measure.process"], "spawn", fork)
        yield
