"""The program of a fresh process: makes one object and runs its methods on request, one at a time.

Messages are cloudpickles over a separate pipe, so that an engine's output cannot break the protocol.
A request is `(method, arguments)`, a reply `(status, value or message)`.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle

from stopwav.errors import StopwavError

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
