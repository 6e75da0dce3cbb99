"""Servers that others wrote: each installed by pip into an environment of its own, started, and ended."""

import contextlib
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

INSTALL_LIMIT_S = 1_200.0
# Whisper is loaded and warmed up before it listens, which a busy machine takes its time for.
START_LIMIT_S = 180.0


@dataclass(frozen=True)
class Install:
    """An environment in the cache, by the arguments of each `pip install` into it; some packages come without others.

    Where one is there already it is used as it is.
    """

    name: str
    steps: tuple[tuple[str, ...], ...]

    def folder(self, cache: Path) -> Path:
        """Return the folder of the environment, which is made where it is not there; skip where that fails."""
        folder = cache / self.name
        installed = folder / "installed"
        if not installed.is_file():
            run_or_skip([sys.executable, "-m", "venv", str(folder)])
            for step in self.steps:
                run_or_skip([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *step])
            installed.touch()
        return folder


def run_or_skip(command: Sequence[str]) -> None:
    """Run a command that installs something; skip the test with the last line it wrote where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"not installed: {error}")
    if done.returncode != 0:
        pytest.skip(f"not installed: {' '.join(command[1:])}: {last_line(done.stderr)}")


def packaged_file(environment: Path, path: str) -> Path:
    """Return a file of a package in an environment; skip where it is not there."""
    file = next(environment.glob(f"lib/python3*/site-packages/{path}"), None)
    if file is None:
        pytest.skip(f"{environment.name} has no {path}")
    return file


def join_parts(parts: Sequence[Path], whole: Path, digest: str) -> None:
    """Write the parts one after the other, unless that was done before; the SHA-256 of it all begins with `digest`."""
    if whole.is_file():
        return
    sha256 = hashlib.sha256()
    draft = whole.with_suffix(".draft")
    with draft.open("wb") as file:
        for part in parts:
            content = part.read_bytes()
            sha256.update(content)
            file.write(content)
    if not sha256.hexdigest().startswith(digest):
        draft.unlink()
        pytest.skip(f"{whole.name} has the SHA-256 {sha256.hexdigest()[:8]}…, not {digest}…: it is another model")
    draft.replace(whole)


@dataclass(frozen=True)
class ForeignServer:
    """A server in a process of its own, and the name under which stopwav reaches it."""

    process: subprocess.Popen[bytes]
    spec: str

    def kill(self) -> None:
        """End the server and what it started, at once and without a word to its clients."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=30)


@contextlib.contextmanager
def running(command: Sequence[str], spec: str, folder: Path) -> Iterator[ForeignServer]:
    """Run a server on a free port, which is put for PORT in its command and in its spec; skip where it does not listen.

    `folder` is the one it runs in, and gets its log.
    """
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]}")
    port = free_port()
    # Neither the models nor the samples of a toolkit are downloaded: all it needs is there.
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    log = folder / "server.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [part.replace("PORT", str(port)) for part in command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    server = ForeignServer(process, spec.replace("PORT", str(port)))
    try:
        wait_until_it_listens(process, port, log)
        yield server
    finally:
        server.kill()


def wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Return once the port is open; skip where the server ends before, or takes too long."""
    deadline_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline_s:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return
        if process.poll() is not None:
            break
        time.sleep(0.2)
    state = "still starts" if process.returncode is None else f"ended with {process.returncode}"
    pytest.skip(f"the server does not listen, it {state}: {last_line(log.read_text(errors='replace'))}")


def free_port() -> int:
    """Return a port of loopback that nothing uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def last_line(text: str) -> str:
    """Return the last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "without a message")
