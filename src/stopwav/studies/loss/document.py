"""A loss run as a document: the table that the field knows, a row per loss, for each setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from stopwav.record import Record, Result
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
    Note,
    Row,
    Section,
    Table,
    in_detail,
)
from stopwav.report.text import DASH, counted, format_bytes, format_interval, format_value, listed, plain
from stopwav.studies.loss.open_pairs import open_text, verdict_text
from stopwav.studies.loss.profile_document import profile_sections
from stopwav.studies.loss.ranks import NO_INTERVAL
from stopwav.studies.loss.size import size_text
from stopwav.studies.study import StudyRun

# More names make no title, and a finding compares no more losses with the fastest: the next ones.
MOST_NAMES_IN_TITLE, MOST_COMPARED = 3, 3
# At the name of a loss that is wrong, that leaves paths out, and that failed in a part of its rounds.
WRONG, APPROXIMATE, PARTLY = "✗", "~", "†"

_ORDERS = {
    "file": "in the order of the file",
    "sorted": "sorted",
    "longest-first": "longest first",
    "columns-independently": "T and U sorted separately",
}
_FAILED = {"oom": "OOM", "timeout": "timeout", "error": "error", "skipped": "not run"}
# The peak that runs out first: the device's where there is one.
_PEAKS = ("peak_allocated_over_inputs_bytes", "peak_host_over_inputs_bytes")
_LEGEND = {
    WRONG: f"{WRONG} does not match the oracle, or was not checked: timed all the same, and not ranked",
    APPROXIMATE: f"{APPROXIMATE} approximates the loss by leaving paths out, and is not ranked",
    PARTLY: f"{PARTLY} failed on some batches or rounds, and ranks below every loss that completed all",
    DASH: f"{DASH} no rank yet: it takes rounds in several processes, and an interval",
}


# Losses that a terminal begins with.
BRIEF_ROWS = 6


def loss_document(run: StudyRun, detail: Detail) -> Document:
    """Return the tables, a legend of their marks, charts, and a sentence on each finding."""
    results, spec = run.results, run.record.header.spec
    groups = by_setting(results)
    marks = {rank_text(result) for result in results} | {PARTLY for result in results if is_partial(result)}
    legend = tuple(Note(text) for mark, text in _LEGEND.items() if mark in marks)
    tables = tuple(block for group in groups for block in _table(group))
    note = Note(
        "Peak memory, excluding inputs; in square brackets: 95 % confidence interval over batches, or over rounds "
        "where there are fewer than three.",
        media=PAGE,
    )
    return Document(
        title=f"{_subject(results)} on {spec['device']}, {spec['dtype']}",
        blocks=(
            Note(_settings_line(results), quiet=False, media=TEXT),
            *_size_note(run.record),
            *(block for group in groups for block in _brief_table(group)),
            Section("The losses", (*in_detail(tables), *legend, note)),
            Section("At a glance", (Figures((("time*",), ("memory*",), ("over-*",))),), media=PAGE),
            *profile_sections(run.record),
        ),
        findings=tuple(_findings(run)),
        record=run.record,
        warned=tuple(results),
        measured=tuple(result for result in results if result.metrics),
    )


def _subject(results: Sequence[Result]) -> str:
    """The losses that have a time by name, or how many they are."""
    names = list(dict.fromkeys(loss_name(result) for result in results if result.metrics))
    if not names:
        return "Transducer losses"
    if len(names) > MOST_NAMES_IN_TITLE:
        return f"{len(names)} transducer losses"
    return f"{'Transducer loss' if len(names) == 1 else 'Transducer losses'} {listed(names)}"


def by_setting(results: Sequence[Result]) -> list[list[Result]]:
    """Return the results of each setting by their time, then those that failed in part, then those without a time."""
    groups: dict[tuple[object, object], list[Result]] = {}
    for result in results:
        groups.setdefault((result.params["batch_size"], result.params["vocab"]), []).append(result)
    return [sorted(group, key=_order) for group in groups.values()]


def setting_text(result: Result) -> str:
    """Return the setting of a result in words."""
    params: Any = result.params
    count = "1 batch" if params["batches"] == 1 else f"{params['batches']} batches"
    size = f"at most {params['max_frames']:,} frames" if params["batch_size"] is None else str(params["batch_size"])
    first = "" if params["first"] is None else f", from batch {params['skip'] + 1} on"
    order = "" if params["order"] == "shuffled" else f", {_ORDERS[params['order']]}"
    bucketed = f", {params['buckets']} buckets" if params["buckets"] else ""
    return f"{count} of {size}{order}{first}{bucketed}; {params['vocab']} symbols"


def peak_metric(results: Sequence[Result]) -> str:
    """Return the peak that a table shows: the allocator's where there is a device, else the host's."""
    measured = [result for result in results if result.metrics]
    known = (name for name in _PEAKS if any(result.metrics[name].value is not None for result in measured))
    return next(known, _PEAKS[1])


def rank_text(result: Result) -> str:
    """Return the rank, or the mark that says why there is none."""
    if not result.metrics:
        return ""
    if not result.params["right"]:
        return WRONG
    if result.params["approximate"]:
        return APPROXIMATE
    rank = result.metrics["rank"]
    return DASH if rank.value is None else f"{rank.value:.0f}"


def is_partial(result: Result) -> bool:
    """Return whether a loss has numbers although some of its rounds failed."""
    codes = {warning.code for warning in result.warnings}
    return bool(result.metrics) and bool(result.params["failed_batches"] or "rounds-failed" in codes)


def _size_note(record: Record) -> list[Note]:
    """The size of batches where it was chosen, and why it is so."""
    text = size_text(record.header.corpus)
    return [Note(f"Size: {text}", quiet=False)] if text else []


def _settings_line(results: Sequence[Result]) -> str:
    params: Any = results[0].params
    counts = sorted({int(str(result.params["rounds"])) for result in results if result.metrics} or {0})
    rounds = counted(counts[-1], "round") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} rounds"
    where = f"{params['device']}, {params['dtype']}, outputs of {params['dim']}"
    return f"Transducer losses on {where}, {rounds}; peak memory, excluding inputs; [95 % CI]"


def _table(group: Sequence[Result]) -> tuple[Table, Note]:
    largest = any("largest_batch" in result.metrics for result in group)
    # Eight columns fit 80 characters where names are broken early.
    names = Column("loss", "left", fold=True, least=8 if largest else 12)
    times = map(Column, ("step, ms", "forward", "backward", "peak memory"))
    columns = [Column("rank", "left"), names, *times, Column("max relative error", fold=True, least=8)]
    if largest:
        columns.append(Column("largest batch"))
    rows = tuple(Row(tuple(_cells(result, group, largest))) for result in group)
    padding = _padding_text(next((result for result in group if result.metrics), group[0]))
    return Table(tuple(columns), rows, title=setting_text(group[0]), label=1), Note(padding)


def _brief_table(group: Sequence[Result]) -> Iterator[Block]:
    """Yield the first rows, without forward and backward, and the batches they are of: what a terminal begins with."""
    shown = [result for result in group if result.metrics][:BRIEF_ROWS]
    largest = any("largest_batch" in result.metrics for result in group)
    columns = [
        Column("rank", "left"),
        Column("loss", "left", fold=True),
        *map(Column, ("step, ms", "peak memory", "max relative error")),
        *([Column("largest batch")] if largest else []),
    ]
    rows = []
    for result in shown:
        cells = _cells(result, group, largest)
        rows.append(Row((*cells[:3], *cells[5:])))
    left = len(group) - len(shown)
    notes = (f"{counted(left, 'more loss', 'more losses')}: --all",) if left else ()
    yield Table(tuple(columns), tuple(rows), title=setting_text(group[0]), label=1, notes=notes, media=BRIEF)
    params: Any = next((result for result in group if result.metrics), group[0]).params
    if compared := compared_text(params).removesuffix("; "):
        yield Note(compared, quiet=False, media=BRIEF)


def _cells(result: Result, group: Sequence[Result], largest: bool) -> list[Cell]:
    mark = f" {PARTLY}" if is_partial(result) else ""
    name = [Cell(rank_text(result)), Cell(loss_name(result) + mark)]
    if not result.metrics:
        return [*name, Cell(_failure_text(result), result.status), *[Cell("")] * (5 if largest else 4)]
    step, peak = result.metrics["step_time"], result.metrics[peak_metric(group)].value
    cells = [
        *name,
        Cell(format_interval(step, 1e3), format_value(step, 1e3)),
        Cell(format_value(result.metrics["forward_time"], 1e3)),
        Cell(format_value(result.metrics["backward_time"], 1e3)),
        Cell(DASH if peak is None else format_bytes(peak)),
        Cell(_error_text(result)),
    ]
    return [*cells, Cell(_largest_text(result))] if largest else cells


def _padding_text(result: Result) -> str:
    """How much of the corpus the batches cover, and how much of them is padding."""
    params: Any = result.params
    low, high = params["covered"]
    first, last = params["frames"]
    efficiency = result.metrics["padding_efficiency"].value if result.metrics else None
    padding = "" if efficiency is None else f"; {1 / efficiency:.2f}× padding (efficiency {efficiency:.2f})"
    return compared_text(params) + (
        f"{params['utterances']:,} of {params['corpus_utterances']:,} utterances of "
        f"{plain(str(params['shapes']), 60)}, T {first} to {last}: from {low:.1%} to {high:.1%} of its lengths"
        f"{padding}; whole corpus {params['corpus_padding_efficiency']:.2f}"
    )


def compared_text(params: Any) -> str:
    """Return the batches that the numbers are of, where these are not all; else nothing."""
    count = len(params["compared_batches"])
    if count in (0, params["batches"]):
        return ""
    return f"Times and memory over {count} of {params['batches']} batches, those that every compared loss completed; "


def _failure_text(result: Result) -> str:
    """How a loss that has no number ended."""
    codes = {warning.code for warning in result.warnings}
    if "loss-not-compared" in codes:
        failed, batches = len(cast("list[int]", result.params["failed_batches"])), result.params["batches"]
        return f"{_FAILED.get(result.status, result.status)} on {failed} of {batches}"
    if "loss-missing" in codes:
        return "missing"
    if "loss-device" in codes:
        return "other device"
    return _FAILED.get(result.status, result.status)


def _error_text(result: Result) -> str:
    values = [result.metrics[name].value for name in ("value_deviation", "gradient_deviation")]
    known = [value for value in values if value is not None]
    gap = result.metrics.get("pruning_gap")
    error = f"{max(known):.0e}" if known else DASH
    return error if gap is None or gap.value is None else f"{error}, pruned {gap.value:+.1%}"


def _largest_text(result: Result) -> str:
    largest = result.metrics.get("largest_batch")
    if largest is None or largest.value is None:
        return DASH
    return f"≥ {largest.value:.0f}" if largest.code == "lower-bound" else f"{largest.value:.0f}"


def _order(result: Result) -> tuple[bool, bool, float]:
    step = result.metrics["step_time"].value if result.metrics else None
    return step is None, is_partial(result), step or 0.0


def _findings(run: StudyRun) -> list[str]:
    """A sentence on the fastest and on the smallest loss of each setting, on what is open, wrong, or failed."""
    results = run.results
    groups = by_setting(results)
    findings = [text for group in groups for text in _setting_findings(group, run.record, several=len(groups) > 1)]
    findings += _without_winner(groups)
    wrong = sorted({loss_name(result) for result in results if result.metrics and not result.params["right"]})
    failed = dict.fromkeys(f"{loss_name(result)} {_failure_text(result)}" for result in results if not result.metrics)
    partly = sorted({loss_name(result) for result in results if is_partial(result)})
    return [
        *(findings or ["Nothing was measured"]),
        *open_text(run.record),
        *([f"Does not match the oracle, or was not checked: {', '.join(wrong)}"] if wrong else []),
        *([f"Failed on some batches or rounds, see the warnings: {', '.join(partly)}"] if partly else []),
        *([f"Not measured: {', '.join(failed)}"] if failed else []),
    ]


def _setting_findings(group: Sequence[Result], record: Record, several: bool) -> list[str]:
    exact = [result for result in group if result.metrics and "rank" in result.metrics and _is_exact(result)]
    if not exact:
        return []
    where = f" ({setting_text(exact[0])})" if several else ""
    if len(exact) == 1:
        took = f"{format_value(exact[0].metrics['step_time'], 1e3)} ms per step"
        return [f"{loss_name(exact[0])} is the only exact loss that was measured{where}: {took}"]
    ranked = [result for result in exact if result.metrics["rank"].value is not None]
    if _is_open(exact):
        return []
    best = min(float(result.metrics["rank"].value or 0) for result in ranked)
    first = [result for result in ranked if result.metrics["rank"].value == best]
    if is_partial(first[0]):
        where += " on the batches that all of them completed"
    names = listed([loss_name(result) for result in first])
    took = f"{format_value(first[0].metrics['step_time'], 1e3)} ms per step{_others(exact, first)}"
    verb = "is the fastest exact loss" if len(first) == 1 else "are the fastest exact losses, with no clear winner"
    return [f"{names} {verb}{where}: {took} ({verdict_text(record)})", *_smallest(group, ranked, where)]


def _is_open(exact: Sequence[Result]) -> bool:
    """Whether several exact losses have no order yet."""
    ranks = [result.metrics["rank"] for result in exact]
    return any(rank.code == NO_INTERVAL for rank in ranks) or all(rank.value is None for rank in ranks)


def _others(exact: Sequence[Result], first: Sequence[Result]) -> str:
    """The times of those that the fastest were compared with, the quickest first."""
    others = [result for result in exact if result not in first]
    told = [f"{format_value(one.metrics['step_time'], 1e3)} ({loss_name(one)})" for one in others[:MOST_COMPARED]]
    more = [f"{len(others) - MOST_COMPARED} more"] if len(others) > MOST_COMPARED else []
    return f", against {listed([*told, *more])}" if told else ""


def _without_winner(groups: Sequence[Sequence[Result]]) -> list[str]:
    """A sentence on the exact losses that have no order yet, once for all settings in which they are the same."""
    settings: dict[tuple[str, str], int] = {}
    for group in groups:
        exact = [result for result in group if result.metrics and "rank" in result.metrics and _is_exact(result)]
        if len(exact) > 1 and _is_open(exact):
            names = listed(sorted(loss_name(result) for result in exact))
            reason = next(_notes(exact), "nothing is decided").removeprefix("not ranked yet: ")
            settings[names, reason] = settings.get((names, reason), 0) + 1
    where = f" in {{}} of {len(groups)} settings" if len(groups) > 1 else ""
    return [f"No winner yet of {names}{where.format(n)}: {reason}" for (names, reason), n in settings.items()]


def _is_exact(result: Result) -> bool:
    return bool(result.params["right"]) and not result.params["approximate"]


def _notes(results: Sequence[Result]) -> Iterator[str]:
    return (note for result in results if (note := result.metrics["rank"].note))


def _smallest(group: Sequence[Result], ranked: Sequence[Result], where: str) -> list[str]:
    """The loss whose highest peak of all rounds is below the lowest of every other, where there is one."""
    metric = peak_metric(group)
    whole = [result for result in ranked if not is_partial(result)] or ranked
    spans = [(cast("dict[str, list[float]]", result.params["peak_spans"]).get(metric), result) for result in whole]
    known = sorted(((span[0], span[1], loss_name(result)) for span, result in spans if span), key=lambda peak: peak[1])
    if len(known) < max(2, len(whole)) or known[0][1] >= min(lowest for lowest, _, _ in known[1:]):
        return []
    name, highest = known[0][2], known[0][1]
    return [f"{name} takes the least memory of the exact losses{where}: {format_bytes(highest)}, excluding inputs"]


def loss_name(result: Result) -> str:
    """Return the name of a loss, short and safe to show."""
    return plain(str(result.params["loss"]), 40)
