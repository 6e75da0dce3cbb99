"""The rows of a step as a tree: which lines there are, how deep each stands, and what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stopwav.errors import StopwavError
from stopwav.record import Result
from stopwav.report.numbers import DASH, format_bytes, format_number, format_value
from stopwav.report.plain import plain
from stopwav.stats import Estimate

PHASES = ("data", "forward", "loss", "backward", "optimizer", "rest")
# Told by a mark at the share, and below the table what it means: there may be one for every row.
DOUBT = "~"
_DOUBT_NOTE = f"{DOUBT} a share that cannot be trusted: hooks cost about as much, or it varies by more than itself"
# What comes after the model, in the order of a step; the data come before it.
_FEET = {"(data)": -1, "(loss)": 1, "(optimizer)": 2, "(communication)": 3, "(rest)": 4}
# An eighth of a character is the finest bar that a terminal draws.
EIGHTHS = " ▏▎▍▌▋▊▉█"


@dataclass(frozen=True)
class Line:
    """A line of the tree: how deep it stands, what it is called there, and the row."""

    depth: int
    name: str
    row: Result


@dataclass(frozen=True)
class StepLayout:
    """A step run taken apart: the step, its rows and those of other processes."""

    step: Result
    rows: Sequence[Result]
    ranks: Sequence[Result]

    def lines(self, *, unfold: bool = False) -> list[Line]:
        """The lines of the tree, repeated layers in one line each unless they are unfolded."""
        shown = {one.name: one for one in self._shown(unfold)}
        order = {row.name: at for at, row in enumerate(self.rows)}
        first = {name: order[_members(row)[0]] if _members(row) else order[name] for name, row in shown.items()}
        children: dict[str | None, list[str]] = {}
        for name in sorted(shown, key=lambda name: (_FEET.get(name, 0), first[name])):
            children.setdefault(self._parent(name, shown), []).append(name)
        return list(_walk(None, 0, children, shown))

    def _shown(self, unfold: bool) -> Iterator[Result]:
        for row in self.rows:
            layers = row.params["kind"] == "layers"
            repeated = "*" in str(row.params["folded"]) and not layers
            # A list of modules is never called: what is in it stands in its place.
            hollow = (
                row.params["kind"] == "module"
                and not row.metrics["calls"].value
                and not row.metrics["self_share"].value
            )
            if not hollow and (not layers if unfold else not repeated):
                yield row

    def _parent(self, name: str, shown: Mapping[str, Result]) -> str | None:
        known = {row.name: row for row in self.rows}
        parent = known[name].params["parent"]
        while parent is not None:
            parent = str(parent) or "model"
            if parent in shown:
                return parent
            parent = known[parent].params["parent"] if parent in known else parent.rpartition(".")[0]
        return None


def arrange_step(results: Sequence[Result]) -> StepLayout:
    """The results of a step run taken apart."""
    kinds = [result.params.get("kind") for result in results]
    rows = [result for result, kind in zip(results, kinds, strict=True) if kind not in ("step", "rank")]
    ranks = [result for result, kind in zip(results, kinds, strict=True) if kind == "rank"]
    return StepLayout(results[0], rows, ranks)


def title_of(layout: StepLayout) -> str:
    """What was trained, on what and how."""
    params = layout.step.params
    rounds = "1 round" if params["rounds"] == 1 else f"{params['rounds']} rounds"
    dtype = f"{params['dtype']} autocast" if params["autocast"] else str(params["dtype"])
    clock = "device time" if params["clock"] == "device" else "wall time"
    steps = "1 step" if params["steps"] == 1 else f"{params['steps']} steps"
    model, device = plain(str(params["model"]), 80), plain(str(params["device"]))
    return f"Training step of {model} on {device}, {dtype}, {rounds} of {steps}; {clock}"


def summary_lines(layout: StepLayout) -> list[str]:
    """What is said of the step as a whole: its phases, its memory, and what watching it cost."""
    lines = [f"By phase: {_phases(layout)}", _memory(layout), _overhead(layout)]
    return [line for line in lines if line]


def doubt_note(layout: StepLayout) -> str:
    """What the mark of a doubtful row means; nothing where there is none."""
    return _DOUBT_NOTE if any(row.params["doubtful"] for row in layout.rows) else ""


def _phases(layout: StepLayout) -> str:
    """Where the clean step goes by phase."""
    metrics = layout.step.metrics
    whole = sum(metrics[f"{name}_time"].value or 0.0 for name in PHASES)
    if not whole:
        return ""
    parts = [f"{name} {100 * (metrics[f'{name}_time'].value or 0.0) / whole:.1f} %" for name in PHASES]
    return " · ".join(parts)


def _memory(layout: StepLayout) -> str:
    """The peak of memory and where it is, and what is held for what."""
    metrics = layout.step.metrics
    peak = metrics.get("peak_bytes")
    if peak is None or peak.value is None:
        return ""
    parts = (
        ("held_bytes", "held for the backward pass"),
        ("gradient_bytes", "gradients"),
        ("state_bytes", "optimiser"),
    )
    held = ", ".join(f"{format_bytes(metrics[name].value or 0.0)} {what}" for name, what in parts if name in metrics)
    return f"Peak memory {format_bytes(peak.value)} {plain(peak.note)}; {held}"


def _overhead(layout: StepLayout) -> str:
    """What watching cost."""
    overhead = layout.step.metrics.get("overhead")
    if overhead is None or overhead.value is None:
        return ""
    ends = "" if overhead.low is None or overhead.high is None else f" [{overhead.low:+.1%} to {overhead.high:+.1%}]"
    return f"Overhead of the watched steps {overhead.value:+.1%}{ends}; times are shares of clean steps".replace(
        "%", " %"
    )


def step_findings(results: Sequence[Result]) -> list[str]:
    """What a step run says in plain words."""
    layout = arrange_step(results)
    metrics = layout.step.metrics
    if not metrics:
        told = next((w.message for w in layout.step.warnings if w.code.startswith("step-")), "nothing was measured")
        return [f"Nothing was measured: {told}"]
    time = metrics["step_time"]
    told = f"A step takes {format_value(time, 1e3)} ms"
    if "frames_per_second" in metrics:
        told += f", {format_number(metrics['frames_per_second'].value or 0.0, 0)} frames a second"
    if "padding_efficiency" in metrics:
        told += f"; {100 * (metrics['padding_efficiency'].value or 0.0):.0f} % of what is computed is no padding"
    forward, backward = (metrics[f"{name}_time"].value or 0.0 for name in ("forward", "backward"))
    found = [told]
    if forward:
        found.append(f"Backward takes {backward / forward:.1f} times as long as forward")
    leaves = _leaves(layout)
    if leaves:
        most = ", ".join(f"{_title(line.row)} {_percent(line.row.metrics['share'])}" for line in leaves[:3])
        found.append(f"Most of it goes to {most}")
    return found


def label_lines(layout: StepLayout, pattern: str) -> list[Result]:
    """The rows whose label matches a regular expression, in the order of the tree."""
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise StopwavError(f"--labels {pattern!r}: not a regular expression ({error})") from None
    rows = [line.row for line in layout.lines()]
    return [row for row in rows if row.params["label"] and wanted.search(str(row.params["label"]))]


def cells_of(row: Result) -> list[str]:
    """Share, forward, backward, memory held, parameters and calls, as text."""
    parameters = row.metrics.get("parameters")
    calls = row.metrics["calls"].value or 0.0
    return [
        share_text(row),
        *(_milliseconds(row.metrics[name]) for name in ("forward_time", "backward_time")),
        _held(row),
        "" if parameters is None else f"{parameters.value or 0.0:,.0f}",
        f"{calls:g}" if calls else "",
    ]


def share_text(row: Result) -> str:
    """The share of a row in percent, with a mark where it is doubtful."""
    return f"{DOUBT if row.params['doubtful'] else ''}{_percent(row.metrics['share'])}"


def spread_text(row: Result) -> str:
    """How much repeated layers differ, or ""."""
    low, high = row.metrics.get("layer_time_min"), row.metrics.get("layer_time_max")
    if low is None or high is None:
        return ""
    return f"{format_value(low, 1e3)}–{format_value(high, 1e3)} ms each"


def bar(share: float, width: int) -> str:
    """A bar of so many characters for a share of 1."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(width)


def told_cautions(layout: StepLayout) -> list[Result]:
    """The results whose cautions are told one by one: those that a mark in the table does not tell already."""
    from dataclasses import replace

    rows = [*([layout.step]), *layout.rows]
    return [
        replace(row, warnings=tuple(one for one in row.warnings if one.code != "below-noise"))
        for row in rows
        if any(one.code != "below-noise" for one in row.warnings)
    ]


def _leaves(layout: StepLayout) -> list[Line]:
    lines = layout.lines()
    inner = {layout._parent(line.row.name, {one.row.name: one.row for one in lines}) for line in lines}
    leaves = [line for line in lines if line.row.name not in inner and line.row.params["kind"] != "phase"]
    return sorted(leaves, key=lambda line: -(line.row.metrics["share"].value or 0.0))


def _walk(
    parent: str | None, depth: int, children: Mapping[str | None, list[str]], shown: Mapping[str, Result]
) -> Iterator[Line]:
    for name in children.get(parent, ()):
        yield Line(depth, _relative(name, parent, shown[name]), shown[name])
        yield from _walk(name, depth + 1, children, shown)


def _relative(name: str, parent: str | None, row: Result) -> str:
    base = "" if parent in (None, "model") else str(parent)
    short = name.removeprefix(base).lstrip(".:/") if base else name.lstrip(":")
    count = len(_members(row))
    kind = f" {row.params['type']}" if name == "model" and row.params["type"] else ""
    return plain(f"{short}{kind}" + (f" ×{count}" if count else ""), 60)


def _members(row: Result) -> list[str]:
    members: Any = row.params["members"]
    return list(members)


def _title(row: Result) -> str:
    return plain(str(row.params["label"] or row.name), 60)


def _held(row: Result) -> str:
    held = row.metrics["held_bytes"]
    if held.value is None:
        return DASH
    return format_bytes(held.value) if held.value else ""


def _percent(estimate: Estimate) -> str:
    return DASH if estimate.value is None else f"{100 * estimate.value:.1f} %"


def _milliseconds(estimate: Estimate) -> str:
    if estimate.value is None:
        return DASH
    return format_number(1e3 * estimate.value, 2 if estimate.value < 0.1 else 1) if estimate.value else ""
