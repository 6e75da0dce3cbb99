"""Stacks of a trace for FlameGraph and speedscope: `frame;frame;operator microseconds`, one line per stack.

PyTorch's own `export_stacks` writes an empty file unless a private setting is on, and leaves out the operator.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stopwav.profiling.trace_additions import OPERATOR, SUFFIX, Trace
from stopwav.profiling.trace_spans import DEVICE_WORK

# The parts of a host stack, and those of them that launch work on a device.
_LAUNCHES = frozenset({"cuda_runtime", "cuda_driver"})
_FRAMES = frozenset({"python_function", OPERATOR, "user_annotation"}) | _LAUNCHES
# As PyTorch's export_stacks replaces them: a semicolon would divide a frame.
_REPLACED = str.maketrans(" ;\t\n", "____")

Stack = tuple[str, ...]


@dataclass
class FlameStacks:
    """Microseconds by stack: a frame's own time on the host, and the time of the kernels that it launched."""

    cpu_us: dict[Stack, float] = field(default_factory=lambda: defaultdict(float))
    cuda_us: dict[Stack, float] = field(default_factory=lambda: defaultdict(float))


def flame_stacks(trace: Trace) -> FlameStacks:
    """Return the stacks of a trace; with `with_stack` they begin with Python's functions."""
    stacks = FlameStacks()
    launches: dict[Any, Stack] = {}
    threads: dict[tuple[Any, Any], list[dict[str, Any]]] = defaultdict(list)
    kernels: list[dict[str, Any]] = []
    for event in trace["traceEvents"]:
        if event.get("ph") == "X" and event.get("cat") in _FRAMES:
            threads[event.get("pid"), event.get("tid")].append(event)
        elif event.get("cat") in DEVICE_WORK:
            kernels.append(event)
    for spans in threads.values():
        for stack, event, own_us in _own_times(spans):
            stacks.cpu_us[stack] += own_us
            if event["cat"] in _LAUNCHES:
                launches[_correlation(event)] = stack
    for kernel in kernels:
        # One whose launch is not in the trace stands alone.
        stack = (*launches.get(_correlation(kernel), ()), kernel["name"])
        stacks.cuda_us[stack] += float(kernel.get("dur", 0))
    return stacks


def write_stacks(path: Path, trace: Trace) -> list[Path]:
    """Write the stacks of a trace beside its file, those of CUDA where it has kernels; return the files."""
    stacks = flame_stacks(trace)
    files = []
    for metric, times in (("self_cpu_time_total", stacks.cpu_us), ("self_cuda_time_total", stacks.cuda_us)):
        if times:
            files.append(path.with_name(f"{path.name.split(SUFFIX)[0]}.{metric}.stacks.txt"))
            lines = (
                f"{';'.join(frame.translate(_REPLACED) for frame in stack)} {int(us)}"
                for stack, us in times.items()
                if us >= 1
            )
            files[-1].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return files


def _correlation(event: dict[str, Any]) -> Any:
    return event.get("args", {}).get("correlation")


def _own_times(spans: Sequence[dict[str, Any]]) -> Iterator[tuple[Stack, dict[str, Any], float]]:
    """Yield each span of a thread with its stack and its own time: its length minus that of the spans nested in it."""
    open_spans: list[tuple[float, Stack, dict[str, Any], list[float]]] = []  # end, stack, event, own time

    def close_before(start_us: float) -> Iterator[tuple[Stack, dict[str, Any], float]]:
        while open_spans and open_spans[-1][0] <= start_us:
            _, stack, event, own_us = open_spans.pop()
            yield stack, event, max(0.0, own_us[0])

    for event in sorted(spans, key=lambda span: (span["ts"], -span.get("dur", 0))):
        start_us, length_us = float(event["ts"]), float(event.get("dur", 0))
        yield from close_before(start_us)
        end_us = start_us + length_us
        if open_spans:
            open_spans[-1][3][0] -= min(end_us, open_spans[-1][0]) - start_us
        outer = open_spans[-1][1] if open_spans else ()
        open_spans.append((end_us, (*outer, str(event["name"])), event, [length_us]))
    yield from close_before(float("inf"))
