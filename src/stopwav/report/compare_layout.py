"""A comparison as rows of text, for the terminal, Markdown and the page: engines by letter, numbers with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stopwav.record import UNTRAINED, Result
from stopwav.report.grid_layout import failure_text, growth_text
from stopwav.report.text import DASH, format_bytes, format_interval, format_value, plain
from stopwav.stats import Estimate
from stopwav.stats.change import Change
from stopwav.studies.compare.card import Card, Judged, PairVerdict

NO_METER = "no meter"
# From here on a count has a letter for its thousands: nobody reads the digits of 12,345,678,901 multiply-adds.
_LARGE = (("T", 1e12), ("G", 1e9), ("M", 1e6))

MARKS = {"supported": "✓", "not supported": "✗", "undecided": "?"}


@dataclass(frozen=True)
class Line:
    """One line of the card: what it says, which metric, what its stored unit is multiplied by, and the most decimals.

    `at_length` lines are about the longest input, the others about all samples.
    """

    label: str
    metric: str
    scale: float = 1.0
    decimals: int = 2
    at_length: bool = False


LINES = (
    Line("parameters", "parameters"),
    Line("trainable", "trainable_parameters"),
    Line("size", "parameter_bytes"),
    Line("multiply-adds*", "multiply_adds", at_length=True),
    Line("operations/s*", "operations_per_s", at_length=True),
    Line("latency, mean, ms", "latency_mean", 1e3),
    Line("latency, P50, ms", "latency_p50", 1e3),
    Line("latency, P95, ms", "latency_p95", 1e3),
    Line("RTFx", "rtfx"),
    Line("tokens written", "emitted_tokens", decimals=1),
    Line("J / s of audio, gross", "energy_per_audio_s_gross", decimals=3),
    Line("J / s of audio, net", "energy_per_audio_s_net", decimals=3),
    Line("power, W*", "mean_power", at_length=True),
    Line("idle power, W*", "idle_power", at_length=True),
    Line("sampled / counted*", "sampled_to_counter", at_length=True),
    Line("WER, percent", "wer", 100),
)
_COUNTS = ("parameters", "trainable_parameters", "multiply_adds", "operations_per_s")
# The heading of each verdict, by the metric that it is on.
VERDICTS = {
    "parameters": "parameters",
    "latency_mean": "latency",
    "energy_per_audio_s_gross": "energy",
    "wer": "WER",
}


@dataclass(frozen=True)
class Layout:
    """A comparison's results by what they are about."""

    engines: list[Result]
    frames: list[int]
    lengths: dict[tuple[str, int], Result]
    laws: list[Result]

    @property
    def longest(self) -> int:
        """The longest length that any engine was measured at, in frames; the longest of all where none was."""
        return max((frames for (_, frames), one in self.lengths.items() if one.metrics), default=self.frames[-1])

    def letter(self, name: str) -> str:
        """The letter that stands for an engine where its name does not fit."""
        index = [one.name for one in self.engines].index(name)
        return chr(ord("A") + index) if index < 26 else f"#{index + 1}"

    def title(self, name: str) -> str:
        """An engine's name with its letter: two may begin alike, and be cut where they differ."""
        return f"{self.letter(name)} {plain(name, 40)}"

    def titles(self) -> list[str]:
        """The titles of all engines."""
        return [self.title(one.name) for one in self.engines]

    def estimate(self, engine: Result, line: Line) -> Estimate | None:
        """The number of a line for an engine; None where it has none by its nature."""
        if not line.at_length:
            return engine.metrics.get(line.metric)
        found = self.lengths.get((engine.name, self.longest))
        return None if found is None else found.metrics.get(line.metric)


def arrange(results: Sequence[Result]) -> Layout:
    """The results by what they are about."""
    lengths = [one for one in results if one.params["kind"] == "length"]
    return Layout(
        engines=[one for one in results if one.params["kind"] == "engine"],
        frames=sorted({_frames(one) for one in lengths}),
        lengths={(str(one.params["of"]), _frames(one)): one for one in lengths},
        laws=[one for one in results if one.params["kind"] == "law"],
    )


def by_letter(results: Sequence[Result]) -> list[Result]:
    """The results, each named by its engine's letter: a long name would push its length out of sight."""
    layout = arrange(results)
    return [replace(one, name=_short_name(layout, one)) for one in results]


def card_rows(layout: Layout, *, intervals: bool = True) -> Iterator[tuple[str, list[str]]]:
    """The lines of the card that say something about some engine, a cell per engine."""
    for line in LINES:
        found = [layout.estimate(engine, line) for engine in layout.engines]
        told = [one for one in found if one is not None]
        if any(one.value is not None or one.note == UNTRAINED or _is_unmetered(one) for one in told):
            yield line.label, [cell(one, line, intervals=intervals) for one in found]


def length_note(layout: Layout) -> str:
    """What the star in the card means, and whose energy it is."""
    energies = [one.metrics.get("energy_per_audio_s_gross") for one in layout.engines]
    sources = dict.fromkeys(one.note.partition(";")[0] for one in energies if one is not None and one.value is not None)
    metered = f"; energy: {plain(', '.join(sources), 80)}" if sources else ""
    return f"* for an input of {layout.longest} frames ({layout.longest / 100:g} s){metered}"


def missing_notes(layout: Layout) -> list[str]:
    """Why numbers or intervals of the card are missing, each reason once with the lines it is about."""
    reasons: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for line in LINES:
        for engine in layout.engines:
            one = layout.estimate(engine, line)
            if one is not None and one.low is None and one.note not in ("", UNTRAINED):
                letters, labels = reasons.setdefault(one.note, ({}, {}))
                letters[layout.letter(engine.name)] = labels[line.label] = None
    return [f"{', '.join(letters)}: {'; '.join(labels)}: {reason}" for reason, (letters, labels) in reasons.items()]


def has_energy(layout: Layout) -> bool:
    """Whether there is a number of energy at any length."""
    found = (one.metrics.get("energy_per_utterance_gross") for one in layout.lengths.values())
    return any(one is not None and one.value is not None for one in found)


def length_rows(layout: Layout, card: Card, metric: str, scale: float, most: int) -> list[list[str]]:
    """A row per length: its name, a cell per engine and, for two engines, the verdict on the second."""
    rows = []
    for frames in layout.frames:
        row = [f"{frames} ({frames / 100:g} s)"]
        for engine in layout.engines:
            row.append(_length_cell(layout.lengths[engine.name, frames], metric, scale, most))
        if len(layout.engines) == 2:
            verdicts = [v for v in card.by_length if v.frames == frames and v.change.metric == metric]
            row += [verdict_text(verdict.change) for verdict in verdicts]
        rows.append(row)
    return rows


def verdict_rows(layout: Layout, card: Card) -> tuple[list[str], list[list[str]]]:
    """The headings and rows of the verdicts: a row per pair, a column per metric."""
    metrics = list(dict.fromkeys(verdict.change.metric for verdict in card.verdicts))
    pairs: dict[tuple[str, str], list[PairVerdict]] = {}
    for verdict in card.verdicts:
        pairs.setdefault((verdict.a, verdict.b), []).append(verdict)
    rows = [
        [f"{layout.letter(b)} against {layout.letter(a)}", *(verdict_text(one.change) for one in verdicts)]
        for (a, b), verdicts in pairs.items()
    ]
    return ["", *(VERDICTS.get(metric, metric) for metric in metrics)], rows


def verdict_text(change: Change) -> str:
    """The verdict with the ratio or the difference that it rests on; (+N) rounds more would decide."""
    if change.value is None:
        return UNTRAINED if change.note == UNTRAINED else NO_METER if _no_meter(change.note) else DASH
    by = f"{change.value:.3g}×" if change.by == "ratio" else f"{100 * change.value:+.1f}"
    more = f" (+{change.more_rounds})" if change.more_rounds is not None else ""
    return f"{change.verdict} {by}{more}"


def module_lines(layout: Layout) -> Iterator[str]:
    """The parameters of each engine by module, with their share, and multiply-adds at the longest length."""
    for engine in layout.engines:
        modules: Any = engine.params["modules"]
        total = engine.metrics["parameters"].value if engine.metrics else None
        counts: Any = layout.lengths[engine.name, layout.longest].params.get("modules", {})
        for module in modules:
            share = f" ({100 * module['parameters'] / total:.1f} %)" if total else ""
            work = counts.get(module["name"])
            more = f", {_large(work)} multiply-adds*" if work else ""
            yield f"{layout.letter(engine.name)} {plain(module['name'], 60)}: {module['parameters']:,}{share}{more}"
        shared: Any = engine.params["shared"]
        for one in shared:
            yield f"{layout.letter(engine.name)} shared, counted once: {plain(' = '.join(one['names']), 200)}"


def law_lines(layout: Layout) -> list[str]:
    """How the latency of each engine grows."""
    return [f"{layout.letter(str(law.params['of']))}: {growth_text(law, 'd')}" for law in layout.laws]


def pareto_text(layout: Layout, card: Card) -> str:
    """Who is not shown to be beaten, in a sentence."""
    axes = {"wer": "word errors", "parameters": "parameters", "rtf": "pace", "energy_per_audio_s_gross": "energy"}
    told = ", ".join(axes[axis] for axis in card.pareto.axes)
    parts = [f"Pareto set in {told}: {_listed(layout, card.pareto.members)}"]
    if card.pareto.beaten:
        parts.append(f"beaten: {_listed(layout, card.pareto.beaten)}")
    parts += [f"not placed: {layout.letter(name)} ({plain(reason, 80)})" for name, reason in card.pareto.left_out]
    return "; ".join(parts)


def expectation_text(judged: Judged) -> str:
    """What became of a hypothesis."""
    return f"{MARKS[judged.judgement]} {plain(judged.text, 120)}: {judged.judgement} ({plain(judged.reason, 160)})"


def findings(layout: Layout, card: Card) -> list[str]:
    """What the comparison says in plain words: a sentence a pair, those whose verdicts claim nothing left out."""
    found = []
    pairs = dict.fromkeys((verdict.a, verdict.b) for verdict in card.verdicts)
    for a, b in pairs:
        own = [verdict.change for verdict in card.verdicts if (verdict.a, verdict.b) == (a, b)]
        claims = [
            f"{change.verdict} in {VERDICTS[change.metric]} ({verdict_text(change).partition(' ')[2]})"
            for change in own
            if change.verdict not in ("undecided", "same", "small difference")
        ]
        if claims:
            found.append(f"{plain(b, 60)} against {plain(a, 60)}: {', '.join(claims)}")
    lost = [one for one in layout.engines if one.status != "ok"]
    return [*found, *(f"{plain(one.name, 60)}: {one.status}; {_why(one)}" for one in lost)]


def cell(estimate: Estimate | None, line: Line, *, intervals: bool = True) -> str:
    """What stands in a cell of the card."""
    if estimate is None:
        return DASH
    if estimate.value is None:
        return NO_METER if _is_unmetered(estimate) else format_value(estimate)
    if line.metric in _COUNTS:
        exact = line.metric in ("parameters", "trainable_parameters")
        return f"{estimate.value:,.0f}" if exact else _large(estimate.value)
    if estimate.unit == "B":
        return format_bytes(estimate.value)
    return (format_interval if intervals else format_value)(estimate, line.scale, line.decimals)


def _length_cell(result: Result, metric: str, scale: float, most: int) -> str:
    estimate = result.metrics.get(metric)
    if estimate is None:
        return failure_text(result)
    if estimate.value is None:
        return NO_METER if _is_unmetered(estimate) else DASH
    return format_interval(estimate, scale, most)


def _is_unmetered(estimate: Estimate) -> bool:
    return estimate.value is None and _no_meter(estimate.note)


def _no_meter(note: str) -> bool:
    return note.startswith(NO_METER)


def _large(value: float) -> str:
    for letter, size in _LARGE:
        if value >= size:
            return f"{value / size:#.3g}".removesuffix(".") + f" {letter}"
    return f"{value:,.0f}"


def _short_name(layout: Layout, result: Result) -> str:
    if result.params["kind"] == "engine":
        return layout.title(result.name)
    engine = str(result.params["of"])
    return layout.letter(engine) + result.name.removeprefix(engine)


def _listed(layout: Layout, names: Sequence[str]) -> str:
    return ", ".join(f"{layout.letter(name)} {plain(name, 40)}" for name in names) or "none"


def _why(result: Result) -> str:
    told = (w.message for w in result.warnings if w.code.startswith(("sample-", "model-")))
    return plain(next(told, "nothing was measured"))


def _frames(result: Result) -> int:
    frames: Any = result.params["frames"]
    return int(frames)
