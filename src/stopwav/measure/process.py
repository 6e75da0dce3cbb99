"""A fresh process that holds one object; every way it can end is an outcome, not an exception."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import TracebackType
from typing import Any

import cloudpickle

from stopwav.errors import Status, StopwavError

# Enough of a dying process's output to show the reason; a native stack dump can be megabytes.
LAST_WORDS_BYTES = 2000
# Three weeks: a pipe accepts no longer timeout.
LONGEST_WAIT_S = 2e6


@dataclass(frozen=True)
class Outcome:
    """The outcome of a request: its value where it succeeded, otherwise the reason and the process's last output."""

    status: Status
    value: Any = None
    message: str = ""
    last_words: str = ""

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.status == "ok"


class FreshProcess:
    """A new interpreter (never a fork) that makes one object by `factory(*arguments)` and runs its methods on request.

    The parent blocks on the pipe and never polls: nothing spins during the measurement.
    """

    def __init__(self, factory: Callable[..., object], *arguments: object) -> None:
        self._request = (None, (factory, *arguments))
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process, closed by close()
        self._oom_kills = 0

    def __enter__(self) -> FreshProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether the process can take requests."""
        return self._process is not None

    def start(self, time_limit_s: float) -> Outcome:
        """Start the process and make the object."""
        ours, theirs = Pipe()
        self._oom_kills = _oom_kill_count()
        # The worker gets the parent's path, so that it can import whatever the parent could.
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; from stopwav.measure.process import main; main({theirs.fileno()})"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(theirs.fileno(),),
            # A separate session: Ctrl-C reaches only the parent, and whatever an engine starts is killed with it.
            start_new_session=True,
        )
        theirs.close()
        self._pipe = ours
        return self._ask(self._request, time_limit_s)

    def call(self, method: str, *arguments: object, time_limit_s: float) -> Outcome:
        """Call a method of the object."""
        return self._ask((method, arguments), time_limit_s)

    def close(self) -> None:
        """Kill the process, whatever it is doing."""
        self._end()
        self._log.close()

    def _ask(self, request: tuple[object, ...], time_limit_s: float) -> Outcome:
        if self._pipe is None:
            return Outcome("crashed", message="the process has already ended")
        try:
            self._pipe.send_bytes(_pickled(request))
            if not self._pipe.poll(min(time_limit_s, LONGEST_WAIT_S)):
                self._end()
                return self._failed("timeout", f"no answer within {time_limit_s:g} s; killed")
            status, value = cloudpickle.loads(self._pipe.recv_bytes())
        except (EOFError, ConnectionError):
            return self._died()
        if status == "error" and "bad_alloc" in self._last_words():
            status = "oom"  # a native library printed what its error does not contain
        return Outcome("ok", value) if status == "ok" else self._failed(status, value)

    def _died(self) -> Outcome:
        assert self._process is not None
        code = self._process.wait()
        self._end()
        if code == -signal.SIGKILL and _oom_kill_count() > self._oom_kills:
            return self._failed("oom", "killed by the kernel: out of memory")
        if code == -signal.SIGABRT and mentions_out_of_memory(self._last_words()):
            # An uncaught std::bad_alloc aborts.
            return self._failed("oom", "aborted: an allocation failed")
        if code < 0:
            return self._failed("crashed", f"crashed ({signal.Signals(-code).name})")
        return self._failed("crashed", f"exited with code {code}")

    def _failed(self, status: Status, message: str) -> Outcome:
        return Outcome(status, message=message, last_words=self._last_words())

    def _last_words(self) -> str:
        end = self._log.seek(0, 2)
        self._log.seek(max(0, end - LAST_WORDS_BYTES))
        return self._log.read().decode("utf-8", "replace").strip()

    def _end(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def _pickled(request: tuple[object, ...]) -> bytes:
    try:
        return bytes(cloudpickle.dumps(request))
    except (pickle.PicklingError, TypeError) as error:
        raise StopwavError(
            f"cannot send the workload to a new process: {error}; create such objects there, or in a `setup`"
        ) from error


def _oom_kill_count() -> int:
    """Return how many processes of this control group the kernel has killed for memory; 0 where it is not counted."""
    try:
        lines = Path("/sys/fs/cgroup/memory.events").read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0


_PR_SET_PDEATHSIG = 1

# Whether this process is a worker: code that users profile in it must not reset the memory marks that the round reads.
serving = False

# The wording of other error types: torch on the CPU, onnxruntime, the C and C++ libraries, the loader.
_OUT_OF_MEMORY = re.compile(
    r"bad_alloc|out of memory|not enough memory|(can't|cannot|can not|failed to|unable to) allocate|"
    r"failed to map segment",
    re.IGNORECASE,
)


def main(descriptor: int) -> None:
    """Answer the parent's requests until it closes the pipe."""
    global serving
    serving = True
    _die_with_parent()
    # Native libraries print to descriptor 1: it goes where standard error goes, into the parent's "last words".
    os.dup2(2, 1)
    pipe = Connection(descriptor)
    target: Any = None
    while True:
        try:
            request = pipe.recv_bytes()
        except EOFError:
            return
        reply, target = _answer(request, target)
        pipe.send_bytes(reply)


def _answer(request: bytes, target: Any) -> tuple[bytes, Any]:
    try:
        method, arguments = cloudpickle.loads(request)
        if method is None:
            factory, *arguments = arguments
            target = factory(*arguments)
            return cloudpickle.dumps(("ok", None)), target
        return cloudpickle.dumps(("ok", getattr(target, method)(*arguments))), target
    except BaseException as error:  # any error of the code under test is a result
        return cloudpickle.dumps(("oom" if is_out_of_memory(error) else "error", describe_error(error))), target


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the error says that host or device memory ran out."""
    # torch's OutOfMemoryError is recognised by name: torch is not imported here.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    # Our own errors, and those that a model raises for a wrong input, are about other things.
    return isinstance(error, (RuntimeError, OSError, ImportError)) and mentions_out_of_memory(str(error))


def mentions_out_of_memory(text: str) -> bool:
    """Return whether an error message or a process's last words say that an allocation failed."""
    return _OUT_OF_MEMORY.search(text) is not None


def describe_error(error: BaseException) -> str:
    """Return one line: the message of our own errors; the type, message and place of any other."""
    if isinstance(error, StopwavError):
        return str(error)
    place = ""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is not None:
        place = f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})"
    message = f": {error}" if str(error) else ""
    return f"{type(error).__name__}{message}{place}".replace("\n", " ")


def _die_with_parent() -> None:
    # A parent killed by SIGKILL cannot clean up: without this an engine that hangs would outlive it forever.
    if sys.platform != "linux":
        return
    import ctypes

    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call above
        os._exit(1)
