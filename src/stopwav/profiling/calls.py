"""`@stopwav.profile` and `with stopwav.profile("name")`: functions, classes and blocks, profiled wherever they run."""

from __future__ import annotations

import atexit
import inspect
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, TypedDict, TypeVar, Unpack, overload

from stopwav.errors import StopwavError
from stopwav.measure.clock import Clock
from stopwav.profiling.call_tracer import ONE_CALL, CallTracer, CallTraceRequest
from stopwav.profiling.peaks import ForkLock
from stopwav.profiling.profile import Profile, check_clock, default_clock, in_worker, sample_call
from stopwav.profiling.profiled_class import profile_class
from stopwav.profiling.schedule import Schedule, TraceOptions, Tracer

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
    # Of a class: the methods to profile, where they are named.
    methods: tuple[str, ...] | None = None
    trace: CallTraceRequest | None = None


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
        tracer = None if options.trace is None or in_worker() else CallTracer(options.trace)
        profile = self.profiles[unique_name] = Profile(unique_name, tracer)
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
        """Return the function or class, profiled."""
        return _profile(function, self._name, self._options)

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


class ProfileArguments(TypedDict, total=False):
    """The arguments of `profile`, for type checkers."""

    memory: bool
    report: bool
    clock: Clock | None
    methods: Collection[str] | None
    trace: str | Path | None
    schedule: Schedule | None
    record_shapes: bool
    profile_memory: bool
    with_stack: bool
    with_flops: bool
    with_modules: bool
    worker_name: str | None
    use_gzip: bool


@overload
def profile(thing: F, /, **arguments: Unpack[ProfileArguments]) -> F: ...


@overload
def profile(thing: str | None = None, /, **arguments: Unpack[ProfileArguments]) -> ProfiledBlock: ...


def profile(
    thing: Any = None,
    /,
    *,
    memory: bool = True,
    report: bool = True,
    clock: Clock | None = None,
    methods: Collection[str] | None = None,
    trace: str | Path | None = None,
    schedule: Schedule | None = None,
    record_shapes: bool = False,
    profile_memory: bool = True,
    with_stack: bool = False,
    with_flops: bool = False,
    with_modules: bool = False,
    worker_name: str | None = None,
    use_gzip: bool = False,
) -> Any:
    """Profile a function or the methods of a class (`@stopwav.profile`), or a block (`with stopwav.profile("x")`).

    Each call's wall time, the stages marked inside it, peak host memory and, where PyTorch is imported and has used
    CUDA, device time and allocator peak are added to a `Profile`: the function's attribute `profile`, or the target of
    `with … as`. At exit a table goes to standard error, unless `report` is off. `memory=False` reads no memory;
    `clock=WallClock()` never synchronises a device. Functions, methods and `async def` functions are supported;
    generator functions are not. Of a class, its own public methods and `__call__` are profiled, or those that `methods`
    names, inherited ones too.

    With `trace` and PyTorch, the first call warms torch.profiler up and the second is exported to that folder, or those
    that `schedule` says; they feed no number. `record_shapes` to `use_gzip` are as in `profile_steps`.
    """
    check_clock(clock)
    if isinstance(methods, str):
        raise StopwavError(f"profile: methods={methods!r} is one text; give a list, such as methods=[{methods!r}]")
    trace_options = TraceOptions(
        record_shapes=record_shapes,
        profile_memory=profile_memory,
        with_stack=with_stack,
        with_flops=with_flops,
        with_modules=with_modules,
        worker_name=worker_name,
        use_gzip=use_gzip,
    )
    request = _trace_request(trace, schedule, trace_options)
    options = ProfileOptions(memory, report, clock, methods if methods is None else tuple(methods), request)
    if thing is None or isinstance(thing, str):
        return ProfiledBlock(thing, options)
    return _profile(thing, None, options)


def _trace_request(
    folder: str | Path | None, schedule: Schedule | None, options: TraceOptions
) -> CallTraceRequest | None:
    options.check_folder(folder)
    if folder is None:
        if schedule is not None:
            raise StopwavError("profile: schedule= says which calls to trace; give trace= too, or use profile_steps")
        return None
    return CallTraceRequest(Path(folder), schedule or ONE_CALL, options)


def profiles() -> dict[str, Profile]:
    """Return every profile of this process so far, by name."""
    with _registry.lock:
        return dict(_registry.profiles)


def _profile(thing: F, name: str | None, options: ProfileOptions) -> F:
    if not inspect.isclass(thing):
        if options.methods is not None:
            raise StopwavError(f"profile: methods= is for classes, and {_name_of(thing)} is none")
        return _profile_function(thing, name, options)
    prefix = name or _name_of(thing)
    return profile_class(
        thing, options.methods, lambda method, own_name: _profile_function(method, f"{prefix}.{own_name}", options)
    )


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
    if not callable(thing):
        raise StopwavError(f"profile: {thing!r} is no function or class; decorate one of them, or give a name")
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
        turn = profile.call_tracer.turn() if profile.call_tracer else nullcontext(False)
        with turn as traced, _observed(profile, options, traced):
            yield
    finally:
        call.open = False
        _calls.set(_open_calls())


def _observed(profile: Profile, options: ProfileOptions, traced: bool) -> AbstractContextManager[None]:
    """Return the context in which a call is measured, or under torch.profiler, by whomever, only counted."""
    if traced or Tracer.current is not None:
        return _counted(profile)
    return sample_call(profile.add, options.clock or default_clock(), options.memory and profile.reads_memory)


@contextmanager
def _counted(profile: Profile) -> Iterator[None]:
    profile.add_traced_call()
    yield


def _open_calls() -> tuple[_OpenCall, ...]:
    return tuple(call for call in _calls.get() if call.open)


def _report(process: int) -> None:
    """Print the table of everything that ran to standard error.

    A forked child leaves that to its parent; a worker's standard error is for failures only.
    """
    called = [profile for profile in _registry.reported if profile.calls or profile.errors or profile.traced_calls]
    if called and os.getpid() == process and not in_worker():
        from stopwav.profiling.tables import call_sheet
        from stopwav.report.terminal import print_sheet

        print_sheet(call_sheet(called))
        if getattr(sys, "last_type", None) is KeyboardInterrupt:
            # After Ctrl-C CPython ends itself by SIGINT, so that the shell sees it, unless other code such as these
            # imports ran since: raise the interrupt again.
            with suppress(KeyboardInterrupt):
                exec("raise KeyboardInterrupt")
