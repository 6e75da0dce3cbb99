"""A link over TCP: a host on a machine of the cluster calls back to whoever sent it there, and answers requests."""

from __future__ import annotations

import os
import secrets
import socket
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from threading import Lock, Thread

from stopwav.studies.launch.cluster import LinkLostError
from stopwav.studies.launch.host import Host

# A request and its answer begin with the number of the request.
_NUMBER = struct.Struct("<Q")
# A machine that is switched off says nothing: after 10 s of silence it is asked every 5 s, four times.
_KEEPALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4))
# Calls to processes of one machine that may run at a time.
CALLS = 64
TOKEN_BYTES = 16


class SocketLink:
    """A machine whose host has called back."""

    def __init__(self, connection: Connection, node: str, cancel: Callable[[], None]) -> None:
        self.node = self.machine_id = node
        self._connection, self._cancel = connection, cancel
        self._lock = Lock()
        self._asked = 0
        self._awaited: dict[int, Future[bytes]] = {}
        self._lost = ""
        _keep_alive(connection)
        Thread(target=self._read, daemon=True, name="stopwav-link").start()

    def send(self, request: bytes, time_limit_s: float) -> bytes:
        """Return the host's answer, or raise that the link was lost."""
        answer: Future[bytes] = Future()
        with self._lock:
            if self._lost:
                raise LinkLostError(self._lost)
            self._asked += 1
            self._awaited[self._asked] = answer
            try:
                self._connection.send_bytes(_NUMBER.pack(self._asked) + request)
            except OSError as error:
                raise LinkLostError(f"the connection broke ({error})") from None
        try:
            return answer.result(time_limit_s)
        except FutureTimeoutError:
            raise LinkLostError(f"no answer within {time_limit_s:g} s") from None

    def close(self) -> None:
        """End the host, and its job."""
        # Closing alone would not wake the thread that reads.
        with suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as shared:
            shared.shutdown(socket.SHUT_RDWR)
        self._cancel()

    def _read(self) -> None:
        try:
            while True:
                message = self._connection.recv_bytes()
                (number,) = _NUMBER.unpack_from(message)
                with self._lock:
                    answer = self._awaited.pop(number, None)
                if answer is not None:
                    answer.set_result(message[_NUMBER.size :])
        except (OSError, EOFError):
            with self._lock:
                self._lost = "its job ended, or was preempted"
                waiting, self._awaited = list(self._awaited.values()), {}
            for answer in waiting:
                answer.set_exception(LinkLostError(self._lost))
            self._connection.close()


class Callbacks:
    """Where hosts call back; each says by its token which of them it is."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._listener = Listener(("0.0.0.0", 0), authkey=self._key, backlog=64)
        self._arrived: dict[bytes, tuple[Connection, str]] = {}
        Thread(target=self._accept, daemon=True, name="stopwav-callbacks").start()

    def invitation(self) -> tuple[bytes, tuple[Sequence[str], int, bytes, bytes]]:
        """Return the token of a new host, and the arguments of `call_back` for it."""
        token = secrets.token_bytes(TOKEN_BYTES)
        return token, (own_addresses(), self._listener.address[1], self._key, token)

    def arrived(self, token: bytes) -> tuple[Connection, str] | None:
        """Return the connection to a host and the name of its machine, once it has called."""
        return self._arrived.pop(token, None)

    def close(self) -> None:
        """Take no more calls."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
                token, node = connection.recv_bytes(), connection.recv_bytes().decode()
            except (AuthenticationError, EOFError):  # of somebody else
                continue
            except OSError:
                return  # closed
            self._arrived[token] = (connection, node)


def call_back(addresses: Sequence[str], port: int, key: bytes, token: bytes) -> None:
    """Serve whoever listens there, on this machine, until they close the connection."""
    connection = _connect(addresses, port, key)
    connection.send_bytes(token)
    connection.send_bytes((os.environ.get("SLURMD_NODENAME") or socket.gethostname()).encode())
    host, lock = Host(), Lock()

    def answer(message: bytes) -> None:
        reply = message[: _NUMBER.size] + host.handle(message[_NUMBER.size :])
        with lock, suppress(OSError):
            connection.send_bytes(reply)

    # The kernel ends a process with the thread that started it: these live as long as the host.
    with ThreadPoolExecutor(CALLS) as pool:
        try:
            while True:
                pool.submit(answer, connection.recv_bytes())
        except (OSError, EOFError):
            host.close_all()


def _connect(addresses: Sequence[str], port: int, key: bytes) -> Connection:
    failures = []
    for address in addresses:
        try:
            return Client((address, port), authkey=key)
        except OSError as error:
            failures.append(f"{address}: {error}")
    raise ConnectionError(f"cannot call back to port {port} of {'; '.join(failures)}")


def own_addresses() -> list[str]:
    """Return the names and addresses under which other machines may reach this one, the likeliest first."""
    import psutil

    # Of the interfaces that are up, whatever a name server knows of this machine.
    statuses = psutil.net_if_stats()
    numbers = [
        address.address
        for interface, addresses in psutil.net_if_addrs().items()
        for address in addresses
        if address.family == socket.AF_INET and statuses[interface].isup and not address.address.startswith("127.")
    ]
    return [*numbers, socket.getfqdn(), "127.0.0.1"]


def _keep_alive(connection: Connection) -> None:
    with socket.socket(fileno=os.dup(connection.fileno())) as shared:
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                shared.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
