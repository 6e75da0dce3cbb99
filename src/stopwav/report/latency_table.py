"""The latency table: what a listener feels first, a column per engine, readable at 80 columns without colour."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from stopwav.record import UNTRAINED, Result
from stopwav.report.findings import latency_finding
from stopwav.report.numbers import DASH, format_bytes, format_interval, format_value
from stopwav.report.plain import plain
from stopwav.stats import Estimate

# Intervals of three engines do not fit beside each other in 80 columns; `--all` shows them one below the other.
MOST_WITH_INTERVALS = 2
# A label and four values of 8 characters fill 80 columns.
MOST_COLUMNS = 4
# A heading folded to less would be read downwards.
NARROWEST = 6
# What the same reason may differ in, from line to line; what a percentile needs is a reason of its own.
_COUNT = re.compile(r"(?<!needs )(?<!\.)\b\d{1,9}\b(?!\.\d)")
# Six lines of a heading; engines are told apart by their settings, which stand at the end.
LONGEST_NAME = 100


@dataclass(frozen=True)
class Row:
    """One line of the table: what it says, which metric, and what the stored unit is multiplied by."""

    label: str
    metric: str
    scale: float = 1.0
    decimals: int = 2


# The lines of the classic analysis of a streaming transducer, with what they mean; for engines that mark its stages.
OLDER = "As older reports add it up, ms"

SECTIONS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    (
        "What a listener feels, in seconds",
        (
            Row("a word appears, P50", "word_latency_p50"),
            Row("a word appears, P95", "word_latency_p95"),
            Row("it stands for good, P50", "committed_latency_p50"),
            Row("it stands for good, P95", "committed_latency_p95"),
            Row("first text, from first word, P50", "first_word_latency_p50"),
            Row("final text, from last word, P50", "final_latency_p50"),
            Row("final text, from audio end, P50", "final_latency_from_end_p50"),
        ),
    ),
    (
        "Why it takes so long, mean ms",
        (
            Row("its chunk fills (buffering)", "waterfall_buffering", 1e3),
            Row("look-ahead", "waterfall_lookahead", 1e3),
            Row("the model holds back (emission)", "waterfall_emission", 1e3),
            Row("earlier chunks (queue)", "waterfall_queue", 1e3),
            Row("features", "waterfall_features", 1e3),
            Row("copy", "waterfall_copy", 1e3),
            Row("inference", "waterfall_inference", 1e3),
            Row("post-processing", "waterfall_post", 1e3),
            Row("other", "waterfall_other", 1e3),
            Row("= a word appears, mean", "word_latency_mean", 1e3),
        ),
    ),
    (
        "What the machine does",
        (
            Row("real-time factor", "rtf", decimals=4),
            Row("chunk lag, P50, ms", "chunk_lag_p50", 1e3),
            Row("chunk lag, P95, ms", "chunk_lag_p95", 1e3),
            Row("chunk lag, P99, ms", "chunk_lag_p99", 1e3),
            Row("peak memory", "peak_host_bytes"),
        ),
    ),
    (
        "What it writes",
        (
            Row("word error rate, percent", "wer", 100),
            Row("changes, per 100 final words", "upwr", 100),
        ),
    ),
    (
        OLDER,
        (
            Row("ALGO: chunk + look-ahead", "algorithmic_latency", 1e3),
            Row("P95 INF: inference", "inference_p95", 1e3),
            Row("P95 FEAT: features", "features_p95", 1e3),
            Row("P95 COPY: to the device (MEM)", "copy_p95", 1e3),
            Row("total: upper bound, no queue", "sum_of_p95s", 1e3),
            Row("real-time factor, audio once", "rtf", decimals=4),
            Row("ours: ALGO + chunk lag, P95", "longest_wait_p95", 1e3),
        ),
    ),
)


def lines_of(results: Sequence[Result]) -> Iterator[tuple[str, list[Row]]]:
    """The headings with the lines that say something about some engine; a heading without any is left out."""
    for heading, rows in SECTIONS:
        told = [row for row in rows if _is_told(row, heading, results)]
        if told:
            yield heading, told


def _is_told(row: Row, heading: str, results: Sequence[Result]) -> bool:
    """Whether a line is worth its place: a part that is zero for every engine (no look-ahead, no copy) is not."""
    if heading == OLDER:
        return any({"features_p95", "inference_p95"} <= result.metrics.keys() for result in results)
    estimates = [result.metrics[row.metric] for result in results if row.metric in result.metrics]
    # Once is enough to say that texts mean nothing: where the errors would stand.
    if row.metric != "wer" and all(one.note == UNTRAINED for one in estimates):
        return False
    return any(one.value != 0 or one.high for one in estimates)


def print_latency(
    results: Sequence[Result], console: Console, *, every_metric: bool = False, shown: int | None = None
) -> None:
    """Print the tables, the cautions and a sentence per engine; of `shown` engines only, unless every metric is."""
    measured = [result for result in results[: None if every_metric else shown] if result.metrics]
    if every_metric:
        for result in measured:
            console.print(every_metric_table(result))
    else:
        for group in _side_by_side(measured, console.width):
            console.print(_table(group, console.width))
    _print_dashes(measured, console)
    print_cautions(results, console)
    for result in results[:shown]:
        console.print(Text(latency_finding(result), style="bold"))


def _side_by_side(results: Sequence[Result], width: int) -> Iterator[Sequence[Result]]:
    """The results, as many to a table as fit beside each other without a digit lost."""
    rest = list(results)
    while rest:
        count = min(MOST_COLUMNS, len(rest))
        while count > 1 and _spare(rest[:count], width) < 0:
            count -= 1
        yield rest[:count]
        rest = rest[count:]


def _spare(results: Sequence[Result], width: int) -> int:
    """The characters left in a line of the table; below zero where the engines do not fit beside each other."""
    labels = max(len(row.label) for _, rows in SECTIONS for row in rows) + 2
    # A blank at either edge, and three between columns.
    return width - 2 - labels - sum(3 + _widest(result, len(results)) for result in results)


def _widest(result: Result, columns: int) -> int:
    """How wide the widest cell of an engine's column is."""
    rows = [row for _, rows in SECTIONS for row in rows]
    return max(NARROWEST, *(cell_len(_cell(result, row, columns)) for row in rows))


def _table(results: Sequence[Result], width: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=_title(results[0]), title_justify="left", title_style="")
    table.add_column("", no_wrap=True)
    spare = max(0, _spare(results, width)) // len(results)
    for result in results:
        room = _widest(result, len(results)) + spare
        table.add_column(_heading(result.name, room), justify="right", no_wrap=True)
    for index, (heading, rows) in enumerate(lines_of(results)):
        if index:
            table.add_row()
        table.add_row(Text(heading, style="bold"))
        for row in rows:
            table.add_row(f"  {row.label}", *(Text(_cell(result, row, len(results))) for result in results))
    return table


def _heading(name: str, width: int) -> Text:
    """The engine's name, broken to the width of its column: names that differ late must be told apart."""
    lines = [""]
    for char in plain(name, LONGEST_NAME):
        if cell_len(lines[-1] + char) > width:
            lines.append("")
        lines[-1] += char
    return Text("\n".join(lines))


def _title(result: Result) -> Text:
    params = result.params
    rounds = "1 round" if params["rounds"] == 1 else f"{params['rounds']} rounds"
    return Text(
        f"{params['utterances']} utterances of corpus {plain(str(params['corpus']), 40)}, "
        f"{params['audio_s']:.0f} s of audio, {params['words']} words, {plain(str(params['pace']))} pace, {rounds}; "
        "[95 % interval]"
    )


def _cell(result: Result, row: Row, columns: int) -> str:
    estimate = result.metrics.get(row.metric)
    if estimate is None:
        return DASH
    if estimate.unit == "B":
        return format_bytes(estimate.value) if estimate.value is not None else format_value(estimate)
    return (format_interval if columns <= MOST_WITH_INTERVALS else format_value)(estimate, row.scale, row.decimals)


def every_metric_table(result: Result) -> Table:
    """Every metric of a result with its interval."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=Text(plain(result.name)), title_justify="left")
    for heading in ("metric", "value", "95 % interval", "n", "unit"):
        # Stages have names of any length: those are folded, the numbers never.
        is_name = heading == "metric"
        justify: JustifyMethod = "left" if is_name or heading == "unit" else "right"
        table.add_column(heading, justify=justify, no_wrap=not is_name, overflow="fold" if is_name else "ellipsis")
    for name, estimate in result.metrics.items():
        # Seconds as they are stored: nine decimals are nanoseconds, which a cell of a loss takes.
        interval = format_interval(estimate, most=9).partition(" ")[2]
        cells = (plain(name), format_value(estimate, most=9), interval, str(estimate.n or ""), estimate.unit)
        table.add_row(*map(Text, cells))
    return table


def _print_dashes(results: Sequence[Result], console: Console) -> None:
    """Why numbers or intervals of the table are missing, each reason once."""
    reasons = reasons_of(results)
    for note, labels in reasons.items():
        console.print(Text(f"–  {plain(note)}: {'; '.join(labels)}", style="dim"))
    if reasons:
        console.print()


def reasons_of(results: Sequence[Result]) -> dict[str, list[str]]:
    """Why numbers and intervals are missing from the table, each reason once with the lines it is about."""
    reasons: dict[tuple[str, ...], tuple[list[str], dict[str, None]]] = {}
    for _, rows in lines_of(results):
        for row in rows:
            for estimate in (result.metrics.get(row.metric) for result in results):
                if estimate is not None and _is_missed(estimate, row):
                    notes, labels = reasons.setdefault(tuple(_COUNT.split(estimate.note)), ([], {}))
                    notes.append(estimate.note)
                    labels[row.label] = None
    return {_merged(notes): list(labels) for notes, labels in reasons.values()}


def _merged(notes: Sequence[str]) -> str:
    """Notes that differ in counts alone as one, with the range of each count."""
    counts = zip(*([int(count) for count in _COUNT.findall(note)] for note in notes), strict=True)
    ranges = iter([str(low) if low == high else f"{low}–{high}" for low, high in ((min(c), max(c)) for c in counts)])
    return _COUNT.sub(lambda _: next(ranges), notes[0])


def _is_missed(estimate: Estimate, row: Row) -> bool:
    # What is so by definition has no interval, and `untrained` stands in the table itself.
    by_definition = estimate.value is not None and row.metric in ("sum_of_p95s", "algorithmic_latency")
    return estimate.low is None and estimate.note not in ("", UNTRAINED) and not by_definition


def print_cautions(results: Sequence[Result], console: Console) -> None:
    """Print each caution once, with the engines it touches where it does not touch all."""
    touched: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for caution in result.warnings:
            touched.setdefault((caution.code, caution.message), []).append(plain(result.name, LONGEST_NAME))
    for (code, message), names in touched.items():
        whom = "" if len(names) == len(results) else f"{', '.join(names)}: "
        console.print(Text(f"! {plain(code)}: {whom}{plain(message)}", style="yellow"))
    if touched:
        console.print()
