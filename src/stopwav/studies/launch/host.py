"""What runs on a machine of a cluster: it starts processes there as a local run would, and answers for the machine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import cloudpickle

from stopwav.errors import StopwavError
from stopwav.measure.process import FreshProcess, Outcome, describe_error
from stopwav.studies.launch.environment import Environment, Welcome, adopt


@dataclass(frozen=True)
class Answer:
    """How a request to a process ended, and when it was worked on, by this machine's clock of the day."""

    outcome: Outcome
    begun_s: float
    ended_s: float


class Host:
    """The processes of one run on this machine, by number. It ends with whatever runs it, and they with it."""

    def __init__(self) -> None:
        self._processes: dict[int, FreshProcess] = {}

    def handle(self, request: bytes) -> bytes:
        """Answer a request: the name of a method of this class and its arguments, as `pack` makes it."""
        # Ray starts its workers with a lower priority. To the system each thread has its own, which processes that it
        # starts take over.
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, 0)
        try:
            method, arguments = cloudpickle.loads(request)
            return bytes(cloudpickle.dumps((True, getattr(self, method)(*arguments))))
        except StopwavError as error:
            return bytes(cloudpickle.dumps((False, str(error))))
        except Exception as error:  # it must not end the host: what it was asked may be anything
            return bytes(cloudpickle.dumps((False, describe_error(error))))

    def prepare(self, environment: Environment) -> Welcome:
        """Work in the folder and with the threads of whoever drives the run; return what this machine is and lacks."""
        from stopwav.measure.machine import describe

        problems = adopt(environment)
        return Welcome(describe().as_dict(), tuple(problems))

    def start(self, number: int, request: bytes, time_limit_s: float) -> Answer:
        """Start a process that makes an object by the factory and the arguments in the request."""
        factory, arguments = cloudpickle.loads(request)
        process = self._processes[number] = FreshProcess(factory, *arguments)
        return _timed(lambda: process.start(time_limit_s))

    def call(self, number: int, method: str, request: bytes, time_limit_s: float) -> Answer:
        """Call a method of a process's object with the arguments in the request."""
        process, arguments = self._processes[number], cloudpickle.loads(request)
        return _timed(lambda: process.call(method, *arguments, time_limit_s=time_limit_s))

    def close(self, number: int) -> None:
        """End a process, whatever it is doing."""
        if (process := self._processes.pop(number, None)) is not None:
            process.close()

    def close_all(self) -> None:
        """End every process."""
        for number in list(self._processes):
            self.close(number)

    def ask(self, function: Callable[..., object], arguments: tuple[object, ...]) -> object:
        """Return what a function says of this machine."""
        return function(*arguments)


def _timed(call: Callable[[], Outcome]) -> Answer:
    begun_s = time.time()
    return Answer(call(), begun_s, time.time())


def pack(method: str, *arguments: object) -> bytes:
    """Return a request to a host."""
    return bytes(cloudpickle.dumps((method, arguments)))


def unpack(answer: bytes) -> Any:
    """Return what a host answered, or raise the error that it had."""
    ok, value = cloudpickle.loads(answer)
    if not ok:
        raise StopwavError(str(value))
    return value
