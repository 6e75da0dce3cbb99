"""Where processes run: on this machine, or where a launcher takes them. Whoever starts one does not know which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from types import TracebackType

    from stopwav.measure.process import Outcome

T = TypeVar("T")


class Process(Protocol):
    """A process that makes one object and runs its methods on request, wherever it is."""

    def start(self, time_limit_s: float) -> Outcome: ...

    def call(self, method: str, *arguments: object, time_limit_s: float) -> Outcome: ...

    def close(self) -> None: ...

    def __enter__(self) -> Process: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Launcher(Protocol):
    """A machine on which processes are started."""

    def open(self, factory: Callable[..., object], *arguments: object) -> Process:
        """Return a process, not started yet, that will make an object by `factory(*arguments)`."""
        ...

    def ask(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what a function says of the machine; it is called there, outside of any such process."""
        ...


class LocalLauncher:
    """This machine."""

    def open(self, factory: Callable[..., object], *arguments: object) -> Process:
        """Return a process of this machine."""
        # Imported here because it needs pickling and pipes, which `import stopwav` should not wait for.
        from stopwav.measure.process import FreshProcess

        return FreshProcess(factory, *arguments)

    def ask(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return what the function returns here."""
        return function(*arguments)


_current: ContextVar[Launcher] = ContextVar("launcher")
_here = LocalLauncher()


def current_launcher() -> Launcher:
    """Return the launcher of this context: this machine, where none was set."""
    return _current.get(_here)


@contextmanager
def launching_on(launcher: Launcher) -> Iterator[None]:
    """Start the processes of this context by a launcher."""
    token = _current.set(launcher)
    try:
        yield
    finally:
        _current.reset(token)


def open_process(factory: Callable[..., object], *arguments: object) -> Process:
    """Return a process, not started yet, on the machine on which this context measures."""
    return current_launcher().open(factory, *arguments)


def ask_machine(function: Callable[..., T], *arguments: Any) -> T:
    """Return what a function says of the machine on which this context measures."""
    return current_launcher().ask(function, *arguments)
