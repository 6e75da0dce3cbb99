"""`@stopwav.profile` on a class: which of its methods are profiled, and how each is replaced."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from types import FunctionType
from typing import Any, TypeVar

from stopwav.errors import StopwavError, suggestion
from stopwav.profiling.profile import Profile

C = TypeVar("C", bound=type)
Function = Callable[..., Any]


def profile_class(cls: C, methods: Collection[str] | None, decorate: Callable[[Function, str], Function]) -> C:
    """Replace methods of a class by decorated ones, made from the function and its name, and return the class.

    Without `methods` these are the functions of its own body that are public, and `__call__`: no inherited ones, no
    properties, no generators. `methods` names others instead; an inherited one is replaced in this class alone.
    """
    names = list(_own_methods(cls)) if methods is None else [_checked(cls, name) for name in methods]
    if not names:
        raise StopwavError(
            f"profile: class {cls.__qualname__} has no public method of its own; name them: methods=['fit', …]"
        )
    decorated: dict[Function, Function] = {}  # a function that has two names is one
    for name in names:
        member = inspect.getattr_static(cls, name)
        function = _function_of(member)
        if not isinstance(getattr(function, "profile", None), Profile):  # else it is profiled by itself
            if function not in decorated:
                decorated[function] = decorate(function, name)
            replacement = decorated[function]
            setattr(cls, name, replacement if function is member else type(member)(replacement))
    return cls


def _function_of(member: Any) -> Any:
    return member.__func__ if isinstance(member, staticmethod | classmethod) else member


def _own_methods(cls: type) -> Iterator[str]:
    for name, member in vars(cls).items():
        function = _function_of(member)
        public = name == "__call__" or not name.startswith("_")
        generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        if public and isinstance(function, FunctionType) and not generator:
            yield name


def _checked(cls: type, name: str) -> str:
    if not isinstance(_function_of(inspect.getattr_static(cls, name, None)), FunctionType):
        methods = [known for known, value in inspect.getmembers_static(cls) if inspect.isroutine(value)]
        public = [known for known in methods if not known.startswith("_")]
        raise StopwavError(f"profile: class {cls.__qualname__} has no method {name!r}; {suggestion(name, public)}")
    return name
