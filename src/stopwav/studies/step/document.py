"""A step run as a document: the tree of its rows, phases, memory, processes and profile; and several runs compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from stopwav.errors import StopwavError
from stopwav.measure.training_step import PHASES
from stopwav.record import Result
from stopwav.report.document import (
    BRIEF,
    PAGE,
    TEXT,
    Block,
    Cell,
    Column,
    Detail,
    Document,
    Figures,
    Lines,
    Note,
    Row,
    Section,
    Table,
    in_detail,
)
from stopwav.report.text import DASH, ROUGH, counted, format_bytes, format_number, format_value, plain
from stopwav.stats import Estimate
from stopwav.studies.step.tree import MOST_ROWS, StepTree, TreeRow
from stopwav.studies.study import StudyRun

# A mark at the share, explained below the table.
DOUBT = "~"
_DOUBT_NOTE = f"{DOUBT} a share that cannot be trusted: hooks cost about as much, or it varies by more than itself"
# Rows that a terminal begins with, and the least share of them.
MOST_BRIEF, LEAST_BRIEF_SHARE = 8, 0.01
# Operators and modules of a profiled step that are listed.
MOST_PROFILED = 10
MOST_PROFILED_ON_PAGE = 20
# Longer names make a row that nobody can read.
LONGEST_NAME = 60


def step_document(run: StudyRun, detail: Detail) -> Document:
    """Return the tree, what is said of the whole step, its charts and processes; with labels, those rows alone."""
    tree = StepTree(run.results)
    model = str(tree.step.params["model"])
    # Its settings stand in the line below.
    title = f"Training step of {plain(model.partition(',')[0], LONGEST_NAME)}"
    if not tree.step.metrics:
        return Document(title, findings=(_failure(tree.step),), record=run.record, warned=(tree.step,))
    settings = [Note(f"Training step of {plain(model)} {_settings(tree.step)}", quiet=False)]
    if tree.step.params["size"]:
        settings.append(Note(f"Size: {tree.step.params['size']}", quiet=False))
    if detail.labels is not None:
        blocks = (*settings, *_labels_found(tree, detail.labels))
        return Document(title, blocks, record=run.record, warned=tuple(tree.warned))
    return Document(
        title=title,
        blocks=(
            *settings,
            *_brief(tree, detail),
            Section("The step, row by row", _rows_in_detail(tree, detail)),
            *in_detail(_labels(tree)),
            Section("At a glance", (Figures((("*",),)),), media=PAGE),
            *_processes(tree),
            *_profile(tree.step, detail),
        ),
        findings=tuple(_findings(tree)),
        record=run.record,
        warned=tuple(tree.warned),
        measured=tuple(tree.listed if detail.page else run.results),
    )


def _settings(step: Result) -> str:
    """The device, number format, rounds and clock of the steps."""
    params: Any = step.params
    rounds = counted(params["rounds"], "round")
    dtype = f"{params['dtype']} autocast" if params["autocast"] else str(params["dtype"])
    steps = counted(params["steps"], "step")
    return f"on {params['device']}, {dtype}, {rounds} of {steps}; {params['clock']} time"


def _failure(step: Result) -> str:
    messages = (warning.message for warning in step.warnings if warning.code.startswith("step-"))
    return f"Nothing was measured: {next(messages, 'no step was run')}"


def _tree_table(rows: Sequence[TreeRow]) -> Table:
    columns = (
        Column("row", "left", shorten=True),
        Column("share"),
        Column("forward ms"),
        Column("backward ms"),
        Column("saved activations"),
        Column("parameters", wide=True),
        Column("calls", wide=True),
        Column("layers", "left", wide=True),
    )
    return Table(columns, tuple(_tree_row(row) for row in rows))


def _brief(tree: StepTree, detail: Detail) -> list[Block]:
    """The outermost rows that take a share worth reading: what a terminal begins with."""
    if detail.unfold:
        return []
    rows = [
        row
        for row in tree.shown()
        if row.depth <= 1 and (row.result.metrics["share"].value or 0.0) >= LEAST_BRIEF_SHARE
    ]
    table = replace(_tree_table(rows[:MOST_BRIEF]), media=BRIEF)
    texts = (_phases(tree.step), _memory(tree.step))
    return [table, *(Note(text, quiet=False, media=BRIEF) for text in texts if text)]


def _rows_in_detail(tree: StepTree, detail: Detail) -> tuple[Block, ...]:
    blocks: list[Block] = [_tree_table(tree.shown(unfold=detail.unfold)), *_notes(tree, detail)]
    return tuple(blocks) if detail.unfold else in_detail(blocks)


def _tree_row(row: TreeRow) -> Row:
    metrics = row.result.metrics
    parameters = metrics.get("parameters")
    texts = (
        _row_milliseconds(metrics["forward_time"]),
        _row_milliseconds(metrics["backward_time"]),
        _size(metrics["held_bytes"]),
        "" if parameters is None else f"{parameters.value or 0.0:,.0f}",
        _calls(row.result),
        _layer_range(row.result),
    )
    share = Cell(_share(row.result), bar=metrics["share"].value or 0.0)
    return Row((Cell(plain(row.name, LONGEST_NAME)), share, *map(Cell, texts)), depth=row.depth)


def _labels(tree: StepTree) -> list[Block]:
    """The labels of the user's code, where there are any."""
    about = (
        "The same time as above, by the labels of record_function: all that runs inside them, and its backward pass."
    )
    return [Section("By label", (_label_table(tree.labels), Note(about)))] if tree.labels else []


def _labels_found(tree: StepTree, pattern: str) -> list[Block]:
    """The rows whose label matches a regular expression, in the order of the tree; or which labels there are."""
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise StopwavError(f"--labels {pattern!r}: not a regular expression ({error})") from None
    rows = [row.result for row in [*tree.shown(), *tree.labels]]
    labelled = [TreeRow(0, str(row.params["label"]), row) for row in rows if row.params["label"]]
    matching = [row for row in labelled if wanted.search(row.name)]
    if matching:
        doubtful = any(row.result.params["doubtful"] for row in matching)
        return [_label_table(matching), *([Note(_DOUBT_NOTE)] if doubtful else [])]
    names = ", ".join(dict.fromkeys(plain(row.name, LONGEST_NAME) for row in labelled))
    known = f"its labels are {names}" if names else "it has none: name parts by record_function or stopwav.stage"
    return [Note(f"No label of this run matches {plain(pattern)!r}; {known}", quiet=False)]


def _label_table(rows: Sequence[TreeRow]) -> Table:
    """The columns of the tree without bars, parameters and layers: names of labels are long."""
    names = ("share", "forward ms", "backward ms", "saved activations", "calls")
    cells = [(row, _tree_row(row).cells) for row in rows]
    return Table(
        (Column("label", "left", fold=True), *map(Column, names)),
        tuple(Row((texts[0], Cell(texts[1].text), *texts[2:5], texts[6]), depth=row.depth) for row, texts in cells),
    )


def _notes(tree: StepTree, detail: Detail) -> list[Note]:
    """Notes on rows that are left out, on the step as a whole, and the meaning of the mark of a doubtful row."""
    left_out = tree.left_out(unfold=detail.unfold, page=detail.page)
    texts = (left_out, _phases(tree.step), _memory(tree.step), _overhead(tree.step))
    notes = [Note(text, quiet=False) for text in texts if text]
    doubtful = any(row.params["doubtful"] for row in tree.rows)
    return [*notes, Note(_DOUBT_NOTE)] if doubtful else notes


def _phases(step: Result) -> str:
    times = {name: step.metrics[f"{name}_time"].value or 0.0 for name in PHASES}
    whole = sum(times.values())
    if not whole:
        return ""
    return "By phase: " + " · ".join(f"{name} {100 * time_s / whole:.1f} %" for name, time_s in times.items())


def _memory(step: Result) -> str:
    """The peak of memory and where it is, and what memory is used for."""
    peak = step.metrics.get("peak_bytes")
    if peak is None or peak.value is None:
        return ""
    uses = (("held_bytes", "saved activations"), ("gradient_bytes", "gradients"), ("state_bytes", "optimiser state"))
    sizes = [f"{format_bytes(step.metrics[name].value or 0.0)} {use}" for name, use in uses if name in step.metrics]
    return f"Peak memory {format_bytes(peak.value)} {plain(peak.note)}; {', '.join(sizes)}"


def _overhead(step: Result) -> str:
    if (overhead := step.metrics.get("overhead")) is None or overhead.value is None:
        return ""
    ends = "" if overhead.low is None or overhead.high is None else f"[{overhead.low:+.1%} to {overhead.high:+.1%}]"
    text = f"Profiling overhead {overhead.value:+.1%} {ROUGH if overhead.rough else ''}{ends}".rstrip()
    return f"{text}; times are shares of clean steps".replace("%", " %")


def _processes(tree: StepTree) -> list[Block]:
    lines = []
    for rank in tree.ranks:
        waiting = 100 * (rank.metrics["communication_share"].value or 0.0)
        step_ms = format_value(rank.metrics["step_time"], 1e3)
        lines.append(f"{rank.name}: a step takes {step_ms} ms, {waiting:.1f} % of it waiting for the others")
    return [Lines("Processes", tuple(lines))] if lines else []


def _profile(step: Result, detail: Detail) -> list[Block]:
    """The operators and modules of the profiled steps, where there are any; on the page, all of them on demand."""
    profile = cast("dict[str, Any] | None", step.params.get("profile"))
    if profile is None:
        return []
    idle, steps = profile["idle_share"], profile.get("steps", 1)
    files = counted(len(profile.get("files", [1])), "trace")
    files += " and torch.profiler's table of every operator" if "operator_tables" in profile else ""
    about = Note(
        f"{'One step' if steps == 1 else f'Means of {steps} steps'} under torch.profiler, which slows it: read what is "
        f"large, and not how long it takes. Next to the run file, in {profile['file'].partition('/')[0]}: {files}; "
        "open a trace at ui.perfetto.dev."
        + ("" if idle is None else f" The device was idle {100 * idle:.1f} % of the time.")
    )
    most = None if detail.every_metric else MOST_PROFILED
    text, page = _profile_tables(profile, most), _profile_tables(profile, MOST_PROFILED_ON_PAGE)
    more = [] if most is None else [Note(f"The first {most} of each; --all prints every one", media=TEXT)]
    tables = [*(replace(table, media=TEXT) for table in text), *(replace(table, media=PAGE) for table in page)]
    whole: tuple[Block, ...] = _profile_tables(profile, MOST_ROWS)
    if any(len(profile[name]) > MOST_ROWS for name in ("operators", "kernels", "modules")):
        whole += (Note(f"The first {MOST_ROWS} of each; the run file has every one"),)
    every = Section("Every operator, under the profiler", whole, folded=True, media=PAGE)
    return [Section("Under the profiler", (about, *tables, *more)), every]


def _profile_tables(profile: dict[str, Any], most: int | None) -> tuple[Table, ...]:
    """The operators, kernels and modules that took most, by what they took of a step."""
    steps = profile.get("steps", 1)
    modules = [
        (row or "model", direction, _profiled_ms(total_s / steps), f"{count / steps:g}", ", ".join(names[:2]))
        for row, direction, total_s, count, names in profile["modules"][:most]
    ]
    work = "Kernels" if profile["kernels"] else "Operators"
    operators, kernels = profile["operators"][:most], profile["kernels"][:most]
    tables = (
        _work_table("Operators", ("operator", "calls", "self ms", "total ms"), operators, steps),
        _work_table("Kernels", ("kernel", "calls", "ms"), kernels, steps),
        Table(
            (
                Column("module", "left", fold=True),
                Column("direction", "left"),
                Column("ms"),
                Column("count"),
                Column("most expensive", "left", fold=True),
            ),
            tuple(Row(tuple(Cell(plain(text, LONGEST_NAME)) for text in texts)) for texts in modules),
            title=f"{work} by module, under the profiler",
        ),
    )
    return tuple(table for table in tables if table.rows)


def _work_table(title: str, headings: Sequence[str], lines: Sequence[Sequence[Any]], steps: int) -> Table:
    rows = [
        (name, f"{calls / steps:g}", *(_profiled_ms(time_s / steps) for time_s in times))
        for name, calls, *times in lines
    ]
    columns = (Column(headings[0], "left", shorten=True), *map(Column, headings[1:]))
    return Table(columns, tuple(Row(tuple(map(Cell, texts))) for texts in rows), title=f"{title}, under the profiler")


def _findings(tree: StepTree) -> list[str]:
    """A sentence on the step, on forward against backward, and on the rows that take most."""
    metrics = tree.step.metrics
    whole = f"A step takes {format_value(metrics['step_time'], 1e3)} ms"
    if "frames_per_second" in metrics:
        whole += f", {format_number(metrics['frames_per_second'].value or 0.0, 0)} frames per second"
    if "padding_efficiency" in metrics:
        whole += f"; {100 * (1 - (metrics['padding_efficiency'].value or 0.0)):.0f} % padding"
    findings = [whole]
    forward, backward = (metrics[f"{name}_time"].value or 0.0 for name in ("forward", "backward"))
    if forward:
        findings.append(f"Backward takes {backward / forward:.1f} times as long as forward")
    largest = [_own_share(row) for row in tree.largest[:3] if row.metrics["self_share"].value]
    return [*findings, f"Largest parts of model and loss: {', '.join(largest)}"] if largest else findings


def _own_share(row: Result) -> str:
    own, share = row.metrics["self_share"], row.metrics["share"]
    itself = " itself" if _percent(own) != _percent(share) else ""
    return f"{plain(str(row.params['label'] or row.name), LONGEST_NAME)}{itself} ({_percent(own)})"


def _share(row: Result) -> str:
    return f"{DOUBT if row.params['doubtful'] else ''}{_percent(row.metrics['share'])}"


def _calls(row: Result) -> str:
    calls = row.metrics["calls"].value
    return f"{calls:g}" if calls else ""


def _layer_range(row: Result) -> str:
    """The times of the quickest and the slowest of repeated layers."""
    low, high = row.metrics.get("layer_time_min"), row.metrics.get("layer_time_max")
    return "" if low is None or high is None else f"{format_value(low, 1e3)}–{format_value(high, 1e3)} ms each"


def _size(estimate: Estimate) -> str:
    if estimate.value is None:
        return DASH
    return format_bytes(estimate.value) if estimate.value else ""


def _percent(estimate: Estimate) -> str:
    return DASH if estimate.value is None else f"{100 * estimate.value:.1f} %"


def _row_milliseconds(estimate: Estimate) -> str:
    return "" if estimate.value == 0 else milliseconds(estimate.value)


def milliseconds(seconds: float | None) -> str:
    """Return seconds as milliseconds."""
    return DASH if seconds is None else format_number(1e3 * seconds, 2 if seconds < 0.1 else 1)


def _profiled_ms(seconds: float) -> str:
    return format_number(1e3 * seconds, 2)
