"""`@stopwav.profile` and `with stopwav.profile("name")`: functions and blocks that are watched wherever they run."""

from __future__ import annotations

import atexit
import inspect
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar, overload

from stopwav.errors import StopwavError
from stopwav.measure.clock import Clock
from stopwav.profiling.fork_lock import ForkLock
from stopwav.profiling.passage import check_clock, clock_in_use, in_worker, watched
from stopwav.profiling.profile import Profile

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(eq=False, slots=True)
class _Inside:
    """A passage that code is inside of, while it is open: contexts are copied, and may outlive it."""

    profile: Profile
    open: bool = True


# What is being watched in this context, outermost first: a function inside itself is counted, not timed twice.
_inside: ContextVar[tuple[_Inside, ...]] = ContextVar("stopwav_profile", default=())


@dataclass(frozen=True)
class Watching:
    """How a function or a block is watched."""

    memory: bool
    report: bool
    clock: Clock | None


class _Registry:
    """All profiles of this process, in the order in which they were made."""

    def __init__(self) -> None:
        self.lock = ForkLock()
        self.profiles: dict[str, Profile] = {}
        self.numbers: Counter[str] = Counter()
        self.blocks: dict[tuple[str, Watching], Profile] = {}
        self.reported: list[Profile] = []

    def add(self, name: str, how: Watching) -> Profile:
        """A new profile of that name, with a number behind it where the name is taken."""
        free = name
        while free in self.profiles:
            self.numbers[name] += 1
            free = f"{name} ({self.numbers[name] + 1})"
        found = self.profiles[free] = Profile(free)
        if how.report:
            if not self.reported:
                atexit.register(_report, os.getpid())
            self.reported.append(found)
        return found

    def block(self, name: str, how: Watching) -> Profile:
        """The profile that all blocks of that name share."""
        with self.lock:
            if (name, how) not in self.blocks:
                self.blocks[name, how] = self.add(name, how)
            return self.blocks[name, how]


_registry = _Registry()


class Block:
    """A block of code that is watched, or a decorator that gives the function another name or other settings."""

    def __init__(self, name: str | None, how: Watching) -> None:
        self._name = name
        self._how = how
        self._stack: ExitStack | None = None

    def __call__(self, function: F) -> F:
        """The function, watched."""
        return _watch_function(function, self._name, self._how)

    def __enter__(self) -> Profile:
        if self._name is None:
            raise StopwavError('profile: a block needs a name: with stopwav.profile("name"): …')
        if self._stack is not None:
            raise StopwavError(f"profile: block {self._name!r} is entered already; make one for each `with`")
        found = _registry.block(self._name, self._how)
        self._stack = ExitStack()
        self._stack.enter_context(_passage(found, self._how))
        return found

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._stack is not None
        stack, self._stack = self._stack, None
        stack.__exit__(kind, error, trace)


@overload
def profile(thing: F, /, *, memory: bool = ..., report: bool = ..., clock: Clock | None = ...) -> F: ...


@overload
def profile(
    thing: str | None = None, /, *, memory: bool = ..., report: bool = ..., clock: Clock | None = ...
) -> Block: ...


def profile(thing: Any = None, /, *, memory: bool = True, report: bool = True, clock: Clock | None = None) -> Any:
    """A watched function from a function (`@stopwav.profile`), or a block from a name (`with stopwav.profile("x")`).

    Each call's wall time, the stages marked inside it, peak host memory and, where PyTorch is imported and has used
    CUDA, device time and allocator peak are added to a `Profile`: the function's attribute `profile`, or what
    `with … as` gives. At exit a table goes to standard error, unless `report` is off. `memory` off leaves the marks of
    memory alone; `clock=WallClock()` never synchronises a device. Functions, methods and `async def` functions can be
    watched; generator functions cannot.
    """
    check_clock(clock)
    how = Watching(memory, report, clock)
    if thing is None or isinstance(thing, str):
        return Block(thing, how)
    return _watch_function(thing, None, how)


def profiles() -> dict[str, Profile]:
    """What was seen so far of everything watched in this process, by name."""
    with _registry.lock:
        return dict(_registry.profiles)


def _watch_function(function: F, name: str | None, how: Watching) -> F:
    _refuse(function)
    with _registry.lock:
        found = _registry.add(name or _name_of(function), how)
    called: Any
    if any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None)))):  # noqa: B004

        @wraps(function)
        async def called(*args: Any, **kwargs: Any) -> Any:
            with _passage(found, how):
                return await function(*args, **kwargs)
    else:

        @wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            with _passage(found, how):
                return function(*args, **kwargs)

    called.profile = found
    return called  # type: ignore[no-any-return]


def _refuse(thing: object) -> None:
    """Nothing where the thing can be watched; else an error that says what can."""
    if isinstance(thing, classmethod | staticmethod):
        raise StopwavError(f"profile: put @stopwav.profile below @{type(thing).__name__}, next to the function")
    if inspect.isclass(thing) or not callable(thing):
        raise StopwavError(f"profile: {thing!r} is not a function; decorate a function or a method, or give a name")
    if inspect.isgeneratorfunction(thing) or inspect.isasyncgenfunction(thing):
        raise StopwavError(
            f"profile: {_name_of(thing)!r} is a generator, whose body runs in pieces between its caller's own work; "
            f'put `with stopwav.profile("name"):` around the work inside it, or watch the function that consumes it'
        )


def _name_of(function: Callable[..., object]) -> str:
    """The function's own name, with its module unless that is the script."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None)
    return name if module in (None, "__main__") else f"{module}.{name}"


@contextmanager
def _passage(found: Profile, how: Watching) -> Iterator[None]:
    inside = _open_here()
    if any(one.profile is found for one in inside):
        found.add_inner_call()
        yield
        return
    this = _Inside(found)
    _inside.set((*inside, this))
    try:
        with watched(found.add, how.clock or clock_in_use(), how.memory and found.reads_memory):
            yield
    finally:
        this.open = False
        _inside.set(_open_here())


def _open_here() -> tuple[_Inside, ...]:
    return tuple(one for one in _inside.get() if one.open)


def _report(process: int) -> None:
    """Nothing, but the table of all that ran goes to standard error.

    A forked child leaves that to its parent; in a worker, standard error is for what goes wrong.
    """
    ran = [found for found in _registry.reported if found.calls or found.errors]
    if ran and os.getpid() == process and not in_worker():
        from stopwav.profiling.call_sheet import call_sheet
        from stopwav.report.sheet import print_sheet

        print_sheet(call_sheet(ran))
        if getattr(sys, "last_type", None) is KeyboardInterrupt:
            # CPython ends a program by SIGINT, for its shell to see, unless other code was run since as these imports
            # do: that it ended by Ctrl-C has to be said again.
            with suppress(KeyboardInterrupt):
                exec("raise KeyboardInterrupt")
