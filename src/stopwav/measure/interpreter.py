"""A new Python interpreter with a pipe to it: when this process ends, however it ends, so does all that it started."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from multiprocessing.connection import Connection

# An answer that has begun is written in one go; a request is sent to a process that waits for it.
STALL_S = 30

_PR_SET_PDEATHSIG = 1


def connected_pipe() -> tuple[Connection, Connection]:
    """Return the two ends of a pipe; ours gives up on an answer or a request that stalls half-way."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            ours.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", STALL_S, 0))
        return Connection(ours.detach()), Connection(theirs.detach())


def spawn(descriptor: int) -> subprocess.Popen[bytes]:
    """Start an interpreter that answers requests at a descriptor; it prints into a pipe."""
    # It gets the parent's path, so that it can import whatever the parent could.
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; "
        f"from stopwav.measure.process import main; main({descriptor}, {os.getpid()})"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(descriptor,),
        # A separate session: Ctrl-C reaches only the parent, and whatever an engine starts is killed with it.
        start_new_session=True,
    )


def start_guard(group: int) -> subprocess.Popen[bytes] | None:
    """Start a shell that kills a group of processes once this process has ended, and sleeps until then.

    A worker is killed by the kernel when its parent is; what the engine in it has started would go on for ever.
    """
    try:
        return subprocess.Popen(
            ["/bin/sh", "-c", f"read nothing; kill -s KILL -- -{group}"],
            stdin=subprocess.PIPE,  # it ends with this process, however that ends
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except FileNotFoundError:  # a system without a shell
        return None


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends.

    A parent killed by SIGKILL cannot clean up: without this an engine that hangs would outlive it forever.
    """
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call above
        os._exit(1)
