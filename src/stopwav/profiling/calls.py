"""`@stopwav.profile` and `with stopwav.profile("name")`: functions and blocks that are profiled wherever they run."""

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
from stopwav.profiling.peaks import ForkLock
from stopwav.profiling.profile import Profile, check_clock, default_clock, in_worker, sample_call

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(eq=False, slots=True)
class _OpenCall:
    """A profiled call, and whether it is still open: contexts are copied, and may outlive it."""

    profile: Profile
    open: bool = True


# The calls that are open in this context, outermost first: a recursive call is counted, not timed twice.
_calls: ContextVar[tuple[_OpenCall, ...]] = ContextVar("stopwav_profile", default=())


@dataclass(frozen=True)
class ProfileOptions:
    """How a function or a block is profiled."""

    memory: bool
    report: bool
    clock: Clock | None


class _Registry:
    """All profiles of this process, in the order in which they were made."""

    def __init__(self) -> None:
        self.lock = ForkLock()
        self.profiles: dict[str, Profile] = {}
        self.numbers: Counter[str] = Counter()
        self.blocks: dict[tuple[str, ProfileOptions], Profile] = {}
        self.reported: list[Profile] = []

    def add(self, name: str, options: ProfileOptions) -> Profile:
        """Return a new profile of that name, with a number appended if the name is already used."""
        unique_name = name
        while unique_name in self.profiles:
            self.numbers[name] += 1
            unique_name = f"{name} ({self.numbers[name] + 1})"
        profile = self.profiles[unique_name] = Profile(unique_name)
        if options.report:
            if not self.reported:
                atexit.register(_report, os.getpid())
            self.reported.append(profile)
        return profile

    def block(self, name: str, options: ProfileOptions) -> Profile:
        """Return the profile that all blocks of that name share."""
        with self.lock:
            if (name, options) not in self.blocks:
                self.blocks[name, options] = self.add(name, options)
            return self.blocks[name, options]


_registry = _Registry()


class ProfiledBlock:
    """A profiled block of code, or a decorator that gives the function another name or other options."""

    def __init__(self, name: str | None, options: ProfileOptions) -> None:
        self._name = name
        self._options = options
        self._stack: ExitStack | None = None

    def __call__(self, function: F) -> F:
        """Return the function, profiled."""
        return _profile_function(function, self._name, self._options)

    def __enter__(self) -> Profile:
        if self._name is None:
            raise StopwavError('profile: a block needs a name: with stopwav.profile("name"): …')
        if self._stack is not None:
            raise StopwavError(f"profile: block {self._name!r} is already entered; make one for each `with`")
        profile = _registry.block(self._name, self._options)
        self._stack = ExitStack()
        self._stack.enter_context(_profiled(profile, self._options))
        return profile

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
) -> ProfiledBlock: ...


def profile(thing: Any = None, /, *, memory: bool = True, report: bool = True, clock: Clock | None = None) -> Any:
    """Profile a function (`@stopwav.profile`), or a block by its name (`with stopwav.profile("x")`).

    Each call's wall time, the stages marked inside it, peak host memory and, where PyTorch is imported and has used
    CUDA, device time and allocator peak are added to a `Profile`: the function's attribute `profile`, or the target of
    `with … as`. At exit a table goes to standard error, unless `report` is off. `memory=False` reads no memory;
    `clock=WallClock()` never synchronises a device. Functions, methods and `async def` functions are supported;
    generator functions are not.
    """
    check_clock(clock)
    options = ProfileOptions(memory, report, clock)
    if thing is None or isinstance(thing, str):
        return ProfiledBlock(thing, options)
    return _profile_function(thing, None, options)


def profiles() -> dict[str, Profile]:
    """Return every profile of this process so far, by name."""
    with _registry.lock:
        return dict(_registry.profiles)


def _profile_function(function: F, name: str | None, options: ProfileOptions) -> F:
    _check_supported(function)
    with _registry.lock:
        profile = _registry.add(name or _name_of(function), options)
    wrapper: Any
    if any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None)))):  # noqa: B004

        @wraps(function)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            with _profiled(profile, options):
                return await function(*args, **kwargs)
    else:

        @wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with _profiled(profile, options):
                return function(*args, **kwargs)

    wrapper.profile = profile
    return wrapper  # type: ignore[no-any-return]


def _check_supported(thing: object) -> None:
    """Raise if the thing cannot be profiled, with what can."""
    if isinstance(thing, classmethod | staticmethod):
        raise StopwavError(f"profile: put @stopwav.profile below @{type(thing).__name__}, next to the function")
    if inspect.isclass(thing) or not callable(thing):
        raise StopwavError(f"profile: {thing!r} is not a function; decorate a function or a method, or give a name")
    if inspect.isgeneratorfunction(thing) or inspect.isasyncgenfunction(thing):
        raise StopwavError(
            f"profile: {_name_of(thing)!r} is a generator, whose body runs in pieces between its caller's own work; "
            f'put `with stopwav.profile("name"):` around the work inside it, or profile the function that consumes it'
        )


def _name_of(function: Callable[..., object]) -> str:
    """Return the function's qualified name, with its module unless that is the script."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None)
    return name if module in (None, "__main__") else f"{module}.{name}"


@contextmanager
def _profiled(profile: Profile, options: ProfileOptions) -> Iterator[None]:
    outer = _open_calls()
    if any(call.profile is profile for call in outer):
        profile.add_inner_call()
        yield
        return
    call = _OpenCall(profile)
    _calls.set((*outer, call))
    try:
        with sample_call(profile.add, options.clock or default_clock(), options.memory and profile.reads_memory):
            yield
    finally:
        call.open = False
        _calls.set(_open_calls())


def _open_calls() -> tuple[_OpenCall, ...]:
    return tuple(call for call in _calls.get() if call.open)


def _report(process: int) -> None:
    """Print the table of everything that ran to standard error.

    A forked child leaves that to its parent; a worker's standard error is for failures only.
    """
    called = [profile for profile in _registry.reported if profile.calls or profile.errors]
    if called and os.getpid() == process and not in_worker():
        from stopwav.profiling.tables import call_sheet
        from stopwav.report.terminal import print_sheet

        print_sheet(call_sheet(called))
        if getattr(sys, "last_type", None) is KeyboardInterrupt:
            # After Ctrl-C CPython ends itself by SIGINT, so that the shell sees it, unless other code such as these
            # imports ran since: raise the interrupt again.
            with suppress(KeyboardInterrupt):
                exec("raise KeyboardInterrupt")
