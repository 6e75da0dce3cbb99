"""What would help an engine: its settings ranked by what they do to the wait, for terminal, Markdown and page."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from stopwav.record import UNTRAINED
from stopwav.report.diff_table import title_of, verdict_of
from stopwav.report.markdown import escape, table
from stopwav.report.numbers import DASH, format_interval, format_number
from stopwav.report.plain import plain
from stopwav.stats import Estimate
from stopwav.stats.change import Change
from stopwav.studies.latency.gain import Explanation, Gain

HEADINGS = (
    "setting",
    "wait, ms",
    "verdict",
    "of it algorithm, ms",
    "chunk lag P95, × base",
    "chunk lag P50, × base",
    "WER, points",
)
# A hundredth of a ratio: settings that gain less are not what anybody is looking for.
_RATIO_DECIMALS = 2
# Folded beyond this, so that the rest of a line fits 80 columns.
_LONGEST_SETTING = 17


def print_explanation(explanation: Explanation, console: Console) -> None:
    """Print the settings, the best first, why some were not tried, and a sentence."""
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title_justify="left", title_style="")
    drawn.title = Text(f"What would help {plain(explanation.base, 100)}")
    drawn.add_column("setting", overflow="fold", max_width=_LONGEST_SETTING)
    drawn.add_column("wait, ms", justify="right", overflow="fold", max_width=18)
    drawn.add_column("ALGO", justify="right", no_wrap=True)
    drawn.add_column("against the engine as it is", no_wrap=True)
    for gain in explanation.gains:
        cells = (plain(gain.setting, 100), f"{_wait(gain)}\n{verdict_of(gain.felt)}", _algorithmic(gain), _beside(gain))
        drawn.add_row(*map(Text, cells))
    console.print(drawn)
    console.print(Text(label(explanation), style="dim"))
    for note in notes(explanation):
        console.print(Text(f"{DASH}  {plain(note)}", style="dim"))
    console.print()
    console.print(Text(explanation_finding(explanation), style="bold"))


def explanation_markdown(explanation: Explanation) -> str:
    """The same as Markdown."""
    parts = [f"#### What would help {escape(explanation.base, 100)}", "", escape(explanation_finding(explanation)), ""]
    if explanation.gains:
        rows = (row(gain) for gain in explanation.gains)
        parts.append(table(HEADINGS, ([escape(setting), *numbers] for setting, *numbers in rows)))
    parts += ["", f"<sub>{label(explanation)}</sub>", ""]
    parts += [f"- {escape(note)}" for note in notes(explanation)]
    return "\n".join(parts).rstrip()


def row(gain: Gain) -> tuple[str, ...]:
    """The items of a line, in the order of the headings."""
    return (
        plain(gain.setting, 100),
        _wait(gain),
        verdict_of(gain.felt),
        _algorithmic(gain),
        _with_verdict(_ratio(gain.lag_p95), gain.lag_p95),
        _with_verdict(_ratio(gain.lag_p50), gain.lag_p50),
        _with_verdict(_points(gain.wer), gain.wer),
    )


def label(explanation: Explanation) -> str:
    """What the columns are, and how they were decided on."""
    algorithm = " (algorithm + chunk lag)" if explanation.felt.startswith("longest_wait") else ""
    return (
        f"wait: change of {title_of(explanation.felt)}{algorithm}; ALGO: what of the change is the algorithm's, by "
        "definition; paired by round, Student's t on log ratios (WER: by utterance, bootstrap); Holm over all "
        "verdicts: 95 % for all of them together"
    )


def explanation_finding(explanation: Explanation) -> str:
    """What to do, in a sentence; only what is shown beyond noise is said to help."""
    gains = explanation.gains
    if not gains:
        return f"{plain(explanation.base)}: no setting could be measured"
    helping = [gain for gain in gains if gain.felt.verdict == "faster" and gain.felt_s is not None]
    told = ", ".join(
        f"{plain(gain.setting, 60)} by {format_number(-1e3 * (gain.felt_s or 0), 0)} ms" for gain in helping
    )
    open_ones = [gain.felt.more_rounds for gain in gains if gain.felt.verdict == "undecided"]
    more = max((rounds for rounds in open_ones if rounds is not None), default=None)
    rest = f"; {len(open_ones)} undecided" if open_ones else ""
    rest += f" ({more} more rounds should decide)" if more is not None else ""
    if helping:
        said = f"of {len(gains)} settings tried, {len(helping)} shorten{'s' * (len(helping) == 1)} the wait: {told}"
    else:
        said = f"none of {len(gains)} settings tried is shown to shorten the wait"
    return f"{plain(explanation.base)}: {said}{rest}"


def notes(explanation: Explanation) -> Iterator[str]:
    """Why settings were not tried and why numbers are missing, each reason once."""
    for setting, reason in explanation.left_out:
        yield f"not measured: {setting}: {reason}"
    reasons: dict[str, dict[str, None]] = {}
    for gain in explanation.gains:
        for change in (gain.felt, gain.lag_p95, gain.lag_p50, gain.wer):
            if change.note not in ("", UNTRAINED):
                reasons.setdefault(change.note, {})[title_of(change.metric)] = None
    for reason, titles in reasons.items():
        yield f"{reason}: {'; '.join(titles)}"


def _wait(gain: Gain) -> str:
    """The change of the wait in ms, with the interval that its ratio has."""
    felt = gain.felt
    low, high = (None if end is None or felt.a is None else felt.a * (end - 1) for end in (felt.low, felt.high))
    return format_interval(Estimate(gain.felt_s, low, high), 1e3, 1)


def _algorithmic(gain: Gain) -> str:
    return format_number(1e3 * gain.algorithmic_s, 0)


def _beside(gain: Gain) -> str:
    lines = [
        f"P95 {_with_verdict(_ratio(gain.lag_p95), gain.lag_p95)}",
        f"P50 {_with_verdict(_ratio(gain.lag_p50), gain.lag_p50)}",
        f"WER {_with_verdict(_points(gain.wer), gain.wer)}",
    ]
    return "\n".join(lines)


def _ratio(change: Change) -> str:
    return format_interval(Estimate(change.value, change.low, change.high), most=_RATIO_DECIMALS)


def _points(change: Change) -> str:
    """The difference in percentage points."""
    return (
        UNTRAINED if change.note == UNTRAINED else format_interval(Estimate(change.value, change.low, change.high), 100)
    )


def _with_verdict(number: str, change: Change) -> str:
    """The number with its verdict, where there is one to speak of."""
    return number if change.value is None else f"{number} {change.verdict}"
