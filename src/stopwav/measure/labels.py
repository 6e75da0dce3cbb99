"""The labels that code gives its parts by `torch.profiler.record_function`, as they begin and end in a profiled step.

A label may surround modules, so its time is that of rows inside it, seen once more: the active row carries the labels
that are open, outermost first.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# Between a row and its labels: a character that no name has.
_SEPARATOR = "\x1f"

Labels = tuple[str, ...]


def split_labels(row: str) -> tuple[str, Labels]:
    """Return a row by itself, and the labels that it carries."""
    name, *labels = row.split(_SEPARATOR)
    return name, tuple(labels)


def with_labels(row: str, labels: Sequence[str]) -> str:
    """Return a row that carries these labels."""
    return _SEPARATOR.join([row, *labels])


@contextmanager
def watch_labels(enter: Callable[[str], bool], leave: Callable[[], None]) -> Iterator[None]:
    """Call `enter` with every label that begins, and `leave` where one ends for which `enter` returned true.

    Labels of PyTorch itself, such as that of an optimiser's step, are not the user's and are left out.
    """
    from torch.autograd.profiler import record_function

    original_enter, original_exit = record_function.__enter__, record_function.__exit__
    watched: set[int] = set()

    def begin(label: Any) -> Any:
        result = original_enter(label)  # type: ignore[no-untyped-call]
        caller = str(sys._getframe(1).f_globals.get("__name__"))
        if not caller.startswith("torch.") and enter(label.name):
            watched.add(id(label))
        return result

    def end(label: Any, *error: Any) -> Any:
        if id(label) in watched:
            watched.discard(id(label))
            leave()
        return original_exit(label, *error)

    # On the class, however the code has imported it.
    record_function.__enter__, record_function.__exit__ = begin, end  # type: ignore[method-assign]
    try:
        yield
    finally:
        record_function.__enter__, record_function.__exit__ = original_enter, original_exit  # type: ignore[method-assign]
