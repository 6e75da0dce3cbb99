"""The results of a comparison by what they are of, engines by letter, and its decisions as lines of text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stopwav.record import NO_TRANSCRIPT, UNTRAINED, WITHOUT_TRANSCRIPT, Result
from stopwav.stats import Estimate
from stopwav.studies.budget import time_text
from stopwav.studies.compare.card import Card
from stopwav.studies.compare.energy import NO_METER, meter_text
from stopwav.studies.compare.expectation import JudgedExpectation
from stopwav.studies.compare.run_data import RunData
from stopwav.studies.compare.verdicts import ENERGY, LATENCIES, PairVerdict
from stopwav.studies.definition import PARTS_OF_WER
from stopwav.studies.growth import growth_text
from stopwav.studies.study import StudyRun

# The metrics of the summary, and whether each is of the longest input (True) or of the engine as a whole.
SUMMARY = {
    "parameters": False,
    "trainable_parameters": False,
    "parameter_bytes": False,
    "multiply_adds": True,
    "operations_per_s": True,
    "latency_mean": False,
    "latency_p50": False,
    "latency_p95": False,
    "rtf": False,
    "rtfx": False,
    "emitted_tokens": False,
    "energy_per_audio_s_gross": False,
    "energy_per_audio_s_net": False,
    "mean_power": True,
    "idle_power": True,
    "sampled_to_counter": True,
    "wer": False,
    "cer": False,
    **dict.fromkeys(PARTS_OF_WER, False),
}
# The headings of verdicts, and the axes of the Pareto front.
SHORT_NAMES = {
    "parameters": "parameters",
    "latency_mean": "latency",
    "rtf": "RTF",
    ENERGY: "energy",
    "wer": "WER",
    "cer": "CER",
}
MARKS = {"supported": "✓", "not supported": "✗", "undecided": "?"}
# What a table shows where a value is absent, by the code that says why.
ABSENT = {NO_METER: "no meter", UNTRAINED: UNTRAINED, NO_TRANSCRIPT: WITHOUT_TRANSCRIPT}
DASH = "–"
# From here on a count has a letter for its thousands: nobody reads the digits of 12,345,678,901 multiply-adds.
_LARGE = (("T", 1e12), ("G", 1e9), ("M", 1e6))
_FAILED = {"oom": "OOM"}


@dataclass(frozen=True)
class Comparison:
    """The results of a comparison by what they are of, with its card and what its run holds."""

    data: RunData
    card: Card
    engines: list[Result]
    lengths: dict[tuple[str, int], Result]
    fits: list[Result]

    @property
    def frames(self) -> list[int]:
        """The lengths of the inputs, in frames."""
        return self.data.spec.frames

    @property
    def longest(self) -> int:
        """The longest length at which any engine was measured; the longest of all where none was."""
        measured = [frames for (_, frames), result in self.lengths.items() if result.metrics]
        return max(measured, default=self.frames[-1])

    def letter(self, name: str) -> str:
        """Return the letter that stands for an engine where its name does not fit."""
        index = [engine.name for engine in self.engines].index(name)
        return chr(ord("A") + index) if index < 26 else f"#{index + 1}"

    def title(self, name: str, longest: int = 40) -> str:
        """Return an engine's name with its letter: two may begin alike, and be cut where they differ."""
        return f"{self.letter(name)} {shortened(name, longest)}"

    def lettered(self, result: Result) -> str:
        """Return the name of a result by its engine's letter: a long name would push the length out of sight."""
        if result.kind == "engine":
            return self.title(result.name)
        engine = str(result.params["of"])
        return self.letter(engine) + result.name.removeprefix(engine)

    def summary_result(self, engine: Result, metric: str) -> Result:
        """Return the result that has a metric of the summary: the engine, or its longest input."""
        return self.lengths[engine.name, self.longest] if SUMMARY[metric] else engine

    def estimate(self, engine: Result, metric: str) -> Estimate | None:
        """Return a number of the summary; None where the engine has no such metric."""
        return self.summary_result(engine, metric).metrics.get(metric)


def comparison_of(run: StudyRun) -> Comparison:
    """Return the results of a run by what they are of."""
    card, data = run.extras["card"], run.view["data"]
    assert isinstance(card, Card)
    lengths = {
        (str(result.params["of"]), int(str(result.params["frames"]))): result
        for result in run.results
        if result.kind == "length"
    }
    engines = [result for result in run.results if result.kind == "engine"]
    return Comparison(data, card, engines, lengths, [result for result in run.results if result.kind == "fit"])


def shortened(text: str, longest: int) -> str:
    """Return the text, cut where it is too long."""
    return text if len(text) <= longest else f"{text[:longest]}…"


def has_value(result: Result, metric: str) -> bool:
    """Return whether a result has a value of the metric."""
    return metric in result.metrics and result.metrics[metric].value is not None


def has_energy(comparison: Comparison) -> bool:
    """Return whether there is a value of energy at any length."""
    return any(has_value(result, "energy_per_utterance_gross") for result in comparison.lengths.values())


def pareto_places(comparison: Comparison) -> list[tuple[Result, Estimate, Estimate]]:
    """Return the engines that have a place on the first two axes of the Pareto front, with cost and RTFx."""
    axis = comparison.card.pareto.axes[0]
    return [
        (engine, engine.metrics[axis], engine.metrics["rtfx"])
        for engine in comparison.engines
        if has_value(engine, axis) and has_value(engine, "rtfx")
    ]


def length_note(comparison: Comparison) -> str:
    """Return the meaning of the star in the summary, and what metered the energy."""
    energy = comparison.data.energy
    metered = {engine.name for engine in comparison.engines if has_value(engine, ENERGY)}
    meters = [
        meter_text(energy, engine)
        for engine in comparison.data.engines
        if energy is not None and engine.name in metered
    ]
    suffix = f"; energy: {shortened(', '.join(dict.fromkeys(meters)), 80)}" if meters else ""
    return f"* for an input of {comparison.longest} frames ({comparison.longest / 100:g} s){suffix}"


def verdict_text(verdict: PairVerdict) -> str:
    """Return the verdict with its ratio or difference; (+N) further rounds should decide."""
    change = verdict.change
    if change.value is None:
        return ABSENT.get(change.code, DASH)
    return f"{change.verdict} {amount_text(verdict)}"


def amount_text(verdict: PairVerdict) -> str:
    """Return the ratio or difference that a verdict rests on, and how many further rounds should decide."""
    change = verdict.change
    amount = f"{change.value:.3g}×" if change.by == "ratio" else f"{100 * (change.value or 0.0):+.1f}"
    return amount if change.more_rounds is None else f"{amount} (+{change.more_rounds})"


def open_texts(comparison: Comparison) -> Iterator[str]:
    """Yield what is undecided in latency, and how much more time should decide it; nothing without a budget."""
    data, card = comparison.data, comparison.card
    for place, verdicts in (("", card.verdicts), (" at {} of {} lengths", card.by_length)):
        measured = [v.change for v in verdicts if v.change.metric in LATENCIES and v.change.value is not None]
        undecided = [change for change in measured if change.verdict == "undecided"]
        rounds = max((change.more_rounds or 0 for change in undecided), default=0)
        if rounds and data.round_s is not None:
            more_s = rounds * data.round_s
            yield (
                f"Undecided: latency{place.format(len(undecided), len(measured))} "
                f"({rounds} more round{'' if rounds == 1 else 's'}); about {time_text(more_s)} more: "
                f"--resume --budget {math.ceil((data.spent_s + more_s) / 60)}min"
            )


def failure_text(comparison: Comparison, result: Result) -> str:
    """Return how a length without numbers ended."""
    engine = next(engine for engine in comparison.data.engines if engine.name == result.params["of"])
    measured = engine.lengths.get(int(str(result.params["frames"])))
    if result.status == "crashed" and measured is not None and measured.rounds[0].message:
        return shortened(measured.rounds[0].message, 40)
    return _FAILED.get(result.status, result.status)


def expectation_text(judged: JudgedExpectation) -> str:
    """Return a hypothesis with its judgement."""
    text, reason = shortened(judged.text, 120), shortened(judged.reason, 160)
    return f"{MARKS[judged.judgement]} {text}: {judged.judgement} ({reason})"


def pareto_text(comparison: Comparison) -> str:
    """Return the Pareto front in a sentence."""
    pareto = comparison.card.pareto
    parts = [f"Pareto front in {', '.join(SHORT_NAMES[axis] for axis in pareto.axes)}: "]
    parts[0] += _titles(comparison, pareto.members)
    if pareto.beaten:
        parts.append(f"beaten: {_titles(comparison, pareto.beaten)}")
    reasons: dict[str, list[str]] = {}
    for name, why in pareto.left_out:
        reasons.setdefault(why, []).append(comparison.letter(name))
    parts += [f"not placed: {', '.join(letters)} ({shortened(why, 80)})" for why, letters in reasons.items()]
    return "; ".join(parts)


def module_lines(comparison: Comparison) -> Iterator[str]:
    """Yield the parameters of each engine by module, with their share, and multiply-adds at the longest length."""
    for engine in comparison.engines:
        letter = comparison.letter(engine.name)
        modules: Any = engine.params["modules"]
        total = engine.metrics["parameters"].value if engine.metrics else None
        work: Any = comparison.lengths[engine.name, comparison.longest].params.get("modules", {})
        for module in modules:
            share = f" ({100 * module['parameters'] / total:.1f} %)" if total else ""
            multiply_adds = f", {large(work[module['name']])} multiply-adds*" if work.get(module["name"]) else ""
            yield f"{letter} {shortened(module['name'], 60)}: {module['parameters']:,}{share}{multiply_adds}"
        shared: Any = engine.params["shared"]
        for tensor in shared:
            yield f"{letter} shared, counted once: {shortened(' = '.join(tensor['names']), 200)}"


def fit_lines(comparison: Comparison) -> list[str]:
    """Return how the latency of each engine grows."""
    return [f"{comparison.letter(str(fit.params['of']))}: {growth_text(fit, 'd')}" for fit in comparison.fits]


def large(value: float) -> str:
    """Return a count to three digits, with a letter for its thousands where it is large."""
    for letter, size in _LARGE:
        if value >= 0.9995 * size:  # 999.6 M would be written as 1000 M
            return f"{value / size:#.3g}".removesuffix(".") + f" {letter}"
    return f"{value:,.0f}"


def _titles(comparison: Comparison, names: Sequence[str]) -> str:
    return ", ".join(comparison.title(name) for name in names) or "none"
