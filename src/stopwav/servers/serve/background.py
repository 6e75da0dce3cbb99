"""`stopwav serve` in a process of its own, for tests and for load runs that bring their server along."""

from __future__ import annotations

import http.client
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from types import TracebackType
from typing import Any

from stopwav.errors import StopwavError

# Loading a model from a slow disk takes minutes.
READY_LIMIT_S = 600.0
# After the time that open streams are given: closing sockets and ending workers.
END_SLACK_S = 15.0
# How long a request for its state may take.
ANSWER_LIMIT_S = 5.0


class BackgroundServer:
    """A server that ends with the `with` block, or with this process, however that ends."""

    def __init__(
        self, engine: str, *arguments: str, token: str | None = None, drain_limit_s: float = 1.0, niceness: int = 0
    ) -> None:
        """`niceness` lowers its priority, so that a client on the same machine is not kept from its schedule."""
        self._drain_limit_s = drain_limit_s
        self._engine = engine
        command = [sys.executable, "-m", "stopwav", "serve", engine, "--port", "0", "--json", "--until-eof"]
        command += ["--drain-limit", str(drain_limit_s), *arguments]
        environment = {name: value for name, value in os.environ.items() if name != "STOPWAV_TOKEN"}
        if token is not None:  # never in the arguments, which every user of the machine can list
            environment["STOPWAV_TOKEN"] = token
        # A file, as long as the server lives: a pipe that nobody reads would block it once it is full.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        nice = shutil.which("nice") if niceness else None
        self._process = subprocess.Popen(
            command if nice is None else [nice, "-n", str(niceness), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
        )
        self.host, self.port = "", 0
        # The description of the engine, once it is loaded.
        self.info: dict[str, Any] = {}
        self._end: tuple[int, str] | None = None

    def __enter__(self) -> BackgroundServer:
        try:
            ready = json.loads(self._first_line())
        except BaseException:
            self._process.kill()
            self.stop()
            raise
        self.host, self.port = str(ready["host"]), int(ready["port"])
        self.info = ready["info"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The number of the server's process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the server's process is there."""
        return self._end is None and self._process.poll() is None

    def workers_up(self) -> int:
        """Return how many workers take streams now; 0 of a server that does not answer."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=ANSWER_LIMIT_S)
        try:
            connection.request("GET", "/healthz")
            return int(json.loads(connection.getresponse().read())["workers"])
        except (OSError, http.client.HTTPException, ValueError):
            return 0
        finally:
            connection.close()

    def url(self, scheme: str = "ws", path: str = "") -> str:
        """Return an address of the server."""
        return f"{scheme}://{self.host}:{self.port}{path}"

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """End the server by a signal; return its exit code and what it wrote to standard error."""
        if self._end is None:
            if self._process.poll() is None:
                self._process.send_signal(number)
            try:
                self._process.communicate(timeout=self._drain_limit_s + END_SLACK_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.communicate()
            self._end = self._process.returncode, self._read_errors()
            self._errors.close()
        return self._end

    def _first_line(self) -> bytes:
        """The line that says that the server is ready; raise StopwavError with its own words where it ended."""
        assert self._process.stdout is not None
        deadline_s = time.monotonic() + READY_LIMIT_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline_s - time.monotonic())):
                raise StopwavError(f"serve {self._engine!r}: not ready within {READY_LIMIT_S:g} s")
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait(END_SLACK_S)
            said = self._read_errors().strip().removeprefix("stopwav: ")
            raise StopwavError(said or f"serve {self._engine!r} ended with code {code} before it was ready")
        return line

    def _read_errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode("utf-8", "replace")
