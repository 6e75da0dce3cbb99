"""A fresh process that holds one object; every way it can end is an outcome, not an exception."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from threading import Thread
from types import TracebackType
from typing import IO, Any, cast

import cloudpickle

from stopwav.errors import Status, StopwavError
from stopwav.measure.interpreter import connected_pipe, die_with_parent, spawn, start_guard

# Enough of a dying process's output to show the reason; a native stack dump can be megabytes.
LAST_WORDS_BYTES = 2000
# Three weeks: a pipe accepts no longer timeout.
LONGEST_WAIT_S = 2e6
# A process that closed its connection is about to end; one that goes on all the same is killed.
FAREWELL_S = 2.0


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
        self._request = (factory, *arguments)
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._output: _Output | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._asked = 0
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
        from stopwav.measure.machine import oom_kill_count

        self._oom_kills = oom_kill_count()
        try:
            ours, theirs = connected_pipe()
            with theirs:
                self._process = spawn(theirs.fileno())
            self._guard = start_guard(self._process.pid)
            assert self._process.stdout is not None
            self._output = _Output(self._process.stdout)
        except (OSError, RuntimeError) as error:  # no memory, no descriptors, no processes or no threads left
            self._end()
            status: Status = "oom" if getattr(error, "errno", None) == errno.ENOMEM else "crashed"
            return Outcome(status, message=f"cannot start a process ({getattr(error, 'strerror', None) or error})")
        self._pipe = ours
        return self._ask(None, self._request, time_limit_s)

    def call(self, method: str, *arguments: object, time_limit_s: float) -> Outcome:
        """Call a method of the object."""
        return self._ask(method, arguments, time_limit_s)

    def close(self) -> None:
        """Kill the process, whatever it is doing."""
        self._end()

    def _ask(self, method: str | None, arguments: tuple[object, ...], time_limit_s: float) -> Outcome:
        if self._pipe is None:
            return Outcome("crashed", message="the process has already ended")
        self._asked += 1
        request = _NUMBER.pack(self._asked) + pickled((method, arguments))
        deadline_s = time.monotonic() + min(time_limit_s, LONGEST_WAIT_S)
        try:
            self._pipe.send_bytes(request)
            number = 0
            while number != self._asked:  # what else is in the pipe is the answer of a copy that the code forked
                if not self._pipe.poll(max(0.0, deadline_s - time.monotonic())):
                    self._end()
                    return self._failed("timeout", f"no answer within {time_limit_s:g} s; killed")
                number, status, answer = _unpacked(self._pipe.recv_bytes())
        except (EOFError, OSError, struct.error):
            return self._died()
        return self._outcome(status, answer)

    def _outcome(self, status: Status, answer: bytes) -> Outcome:
        try:
            value = cloudpickle.loads(answer)
        except Exception as error:  # an object may raise anything when it is made again
            return self._failed("error", f"the answer cannot be read outside its process: {describe_error(error)}")
        if status == "error" and "bad_alloc" in self._last_words():
            status = "oom"  # a native library printed what its error does not contain
        return Outcome("ok", value) if status == "ok" else self._failed(status, value)

    def _died(self) -> Outcome:
        from stopwav.measure.machine import oom_kill_count

        assert self._process is not None
        try:
            code = self._process.wait(FAREWELL_S)
        except subprocess.TimeoutExpired:
            self._end()
            return self._failed("crashed", "closed or broke its connection to stopwav; killed")
        self._end()
        if code == -signal.SIGKILL and oom_kill_count() > self._oom_kills:
            return self._failed("oom", "killed by the kernel: out of memory")
        if code == -signal.SIGABRT and mentions_out_of_memory(self._last_words()):
            # An uncaught std::bad_alloc aborts.
            return self._failed("oom", "aborted: an allocation failed")
        if code < 0:
            return self._failed("crashed", f"crashed ({signal_name(-code)})")
        return self._failed("crashed", f"exited with code {code}")

    def _failed(self, status: Status, message: str) -> Outcome:
        return Outcome(status, message=message, last_words=self._last_words())

    def _last_words(self) -> str:
        return "" if self._output is None else self._output.last_words()

    def _end(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            if self._guard is not None:
                self._guard.kill()  # before the process's number can be another's
                self._guard.communicate()
                self._guard = None
            self._process.wait()
            self._process = None


def pickled(request: tuple[object, ...]) -> bytes:
    """Return a request as it is sent to a process; raise where a part of it cannot be."""
    try:
        return bytes(cloudpickle.dumps(request))
    except Exception as error:  # an object may raise anything when it is taken apart
        raise StopwavError(
            f"cannot send the workload to a new process: {describe_error(error)}; create such objects there, or in a "
            "`setup`"
        ) from error


class _Output:
    """The end of what a process prints. It is read as it comes and never stored, so nothing can fill a disk with it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._tail = b""
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def last_words(self) -> str:
        # The process has answered or ended, so what it printed is in the pipe already and is read in an instant; a
        # grandchild in a session of its own may hold the pipe open for longer.
        self._reader.join(0.05)
        return self._tail.decode("utf-8", "replace").strip()

    def _read(self) -> None:
        while block := os.read(self._stream.fileno(), 65536):
            self._tail = (self._tail + block)[-LAST_WORDS_BYTES:]
        self._stream.close()


def signal_name(number: int) -> str:
    """Return the name of a signal."""
    try:
        return signal.Signals(number).name
    except ValueError:  # the real-time signals have no names
        return f"signal {number}"


# Whether this process is a worker: code that users profile in it must not reset the memory marks that the round reads.
serving = False

# The wording of other error types: torch on the CPU, onnxruntime, the C and C++ libraries, the loader.
_OUT_OF_MEMORY = re.compile(
    r"bad_alloc|out of memory|not enough memory|(can't|cannot|can not|failed to|unable to) allocate|"
    r"failed to map segment",
    re.IGNORECASE,
)


# A request is its number and the pickled method and arguments: one that cannot be read is still answered by number.
_NUMBER = struct.Struct("<Q")
# An answer is the number of its request, the length of its status, the status, and the pickled value.
_ANSWER = struct.Struct("<QB")


def main(descriptor: int, parent: int) -> None:
    """Answer the parent's requests until it closes the pipe."""
    global serving
    serving = True
    die_with_parent(parent)
    # Native libraries print to descriptor 1: it goes where standard error goes, into the parent's "last words".
    os.dup2(2, 1)
    pipe = Connection(descriptor)
    own = os.getpid()
    target: Any = None
    while True:
        try:
            request = pipe.recv_bytes()
        except EOFError:
            return
        answer, target = _answer(request, target)
        if os.getpid() != own:  # the code forked and let the copy come back here; only the original may answer
            os._exit(0)
        pipe.send_bytes(answer)


def _answer(request: bytes, target: Any) -> tuple[bytes, Any]:
    (number,) = _NUMBER.unpack_from(request)
    try:
        method, arguments = cloudpickle.loads(request[_NUMBER.size :])
        if method is None:
            factory, *arguments = arguments
            target = factory(*arguments)
            return _packed(number, "ok", None), target
        return _packed(number, "ok", getattr(target, method)(*arguments)), target
    except BaseException as error:  # any error of the code under test is a result
        return _packed(number, "oom" if is_out_of_memory(error) else "error", describe_error(error)), target


def _packed(number: int, status: Status, value: object) -> bytes:
    name = status.encode()
    return _ANSWER.pack(number, len(name)) + name + bytes(cloudpickle.dumps(value))


def _unpacked(answer: bytes) -> tuple[int, Status, bytes]:
    number, length = _ANSWER.unpack_from(answer)
    end = _ANSWER.size + length
    return number, cast(Status, answer[_ANSWER.size : end].decode("ascii", "replace")), answer[end:]


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
