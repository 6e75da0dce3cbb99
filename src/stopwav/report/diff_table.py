"""What changed between two runs: a table per engine, for the terminal and as Markdown for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stopwav.report.markdown import escape, table
from stopwav.report.numbers import DASH, format_bytes, format_interval
from stopwav.report.plain import plain
from stopwav.stats import Estimate
from stopwav.stats.change import WORDS, Change
from stopwav.studies.latency.definitions import definition

Cells = Mapping[str, Sequence[Change]]
Line = tuple[str, str]  # words of ours, and text from outside that they are about, or ""

HEADINGS = ("metric", "a", "b", "b / a [interval]", "verdict")
LABEL = (
    "unpaired: two separate runs, Welch's t on log round values (WER: paired, by utterance); "
    "Holm over all lines: 95 % for all of them together"
)
# A thousandth of a ratio: a tenth of the default threshold.
_RATIO_DECIMALS = 3


def print_diff(cells: Cells, console: Console, remarks: Sequence[str] = (), lead: Sequence[Line] = ()) -> None:
    """Print the lead, a table per engine, why numbers are missing, what to know, and a sentence per engine."""
    print_lines(lead, console)
    for name, changes in cells.items():
        if changes:
            console.print(_table(name, changes))
    console.print(Text(LABEL, style="dim"))
    for note in notes(cells):
        console.print(Text(f"{DASH}  {plain(note)}", style="dim"))
    for remark in remarks:
        console.print(Text(f"! {plain(remark)}", style="yellow"))
    console.print()
    for name, changes in cells.items():
        console.print(Text(f"{plain(name)}: {finding(changes)}", style="bold"))


def print_lines(lines: Sequence[Line], console: Console) -> None:
    """Print words of ours with what they are about."""
    for words, outside in lines:
        console.print(Text(f"{words}{': ' if outside else ''}{plain(outside)}"), soft_wrap=True)


def diff_markdown(title: str, cells: Cells, remarks: Sequence[str] = (), lead: Sequence[Line] = ()) -> str:
    """The same as Markdown: the lead on top, then the tables; names and messages show as text, whatever they hold."""
    parts = [f"### {title}", ""]
    parts += [f"- {words}: {_code(outside)}" if outside else f"- {words}" for words, outside in lead]
    for name, changes in cells.items():
        parts += ["", f"**{_code(name)}**: {finding(changes)}", ""]
        if changes:
            parts.append(table(HEADINGS, (row(change) for change in changes)))
    parts += ["", f"<sub>{LABEL}</sub>", ""]
    parts += [f"- {escape(line)}" for line in (*remarks, *notes(cells))]
    return "\n".join(parts).rstrip() + "\n"


def row(change: Change) -> tuple[str, str, str, str, str]:
    """The five items of a line: metric, a, b, their ratio or difference with its interval, and the verdict."""
    return (
        title_of(change.metric),
        amount(change.metric, change.unit, change.a),
        amount(change.metric, change.unit, change.b),
        _effect(change),
        verdict_of(change),
    )


def finding(changes: Sequence[Change]) -> str:
    """What changed, in one sentence: the verdicts that claim a change, then how many are open."""
    if not changes:
        return "nothing to compare"
    claims = [word for words in WORDS.values() for word in reversed(words)]
    parts = []
    for claim in claims:
        named = [title_of(change.metric) for change in changes if change.verdict == claim]
        if named:
            parts.append(f"{claim} in {', '.join(named)}")
    open_ones = sum(change.verdict == "undecided" for change in changes)
    if open_ones:
        parts.append(f"{open_ones} of {len(changes)} undecided")
    return "; ".join(parts) or "no change beyond the thresholds"


def verdict_of(change: Change) -> str:
    """The verdict with what would decide it."""
    if change.more_rounds is None:
        return change.verdict
    return f"{change.verdict} ({change.more_rounds} more round{'' if change.more_rounds == 1 else 's'})"


def notes(cells: Cells) -> Iterator[str]:
    """Why numbers or verdicts are missing, each reason once with the metrics it touches."""
    reasons: dict[str, list[str]] = {}
    for changes in cells.values():
        for change in changes:
            title = title_of(change.metric)
            if change.note and title not in reasons.setdefault(change.note, []):
                reasons[change.note].append(title)
    for reason, titles in reasons.items():
        yield f"{reason}: {'; '.join(titles)}"


def title_of(metric: str) -> str:
    """The metric's name for people, without its abbreviation: it has to fit a line."""
    found = definition(metric)
    return metric if found is None else re.sub(r" \(\w+\)", "", found.title).replace(", P", " P")


def amount(metric: str, unit: str, value: float | None) -> str:
    """A value of one side, to three digits: the ratio beside it says how certain they are."""
    if value is None:
        return DASH
    if unit == "B":
        return format_bytes(value)
    scale, suffix = (1e2, " %") if metric == "wer" else (1.0, "")
    if unit == "s":
        scale, suffix = (1.0, " s") if abs(value) >= 1 else (1e3, " ms")
    return f"{value * scale:#.3g}".removesuffix(".") + suffix


def _code(text: str) -> str:
    """Text from outside, set apart from our words."""
    return f"<code>{escape(text)}</code>"


def _effect(change: Change) -> str:
    """The ratio, or the difference in percentage points, with its interval."""
    estimate = Estimate(change.value, change.low, change.high)
    if change.by == "ratio":
        return format_interval(estimate, most=_RATIO_DECIMALS)
    return f"{format_interval(estimate, scale=100)} points" if change.value is not None else DASH


def _table(name: str, changes: Sequence[Change]) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=Text(plain(name)), title_justify="left", title_style="")
    for heading in HEADINGS:
        aligned = "left" if heading in ("metric", "verdict") else "right"
        drawn.add_column(Text(heading), justify=aligned, no_wrap=heading != "verdict")  # type: ignore[arg-type]
    for change in changes:
        drawn.add_row(*(Text(item) for item in row(change)))
    return drawn
