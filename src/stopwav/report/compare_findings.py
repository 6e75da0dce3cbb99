"""What a comparison says in plain words at the top of its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stopwav.report.compare_layout import Layout, findings, pareto_text
from stopwav.report.text import format_value, plain
from stopwav.studies.compare.card import Card, Judged

# Three engines make three pairs, four make six: beyond that nobody reads sentences, and the table of verdicts has all.
MOST_TOLD_IN_PAIRS = 3


def compare_findings(layout: Layout, card: Card) -> list[str]:
    """Who is not beaten, what became of the hypotheses, and a sentence per pair; of an engine alone, its pace."""
    count = len(layout.engines)
    first = [pareto_text(layout, card)] if count > 1 else _alone(layout)
    if count > MOST_TOLD_IN_PAIRS:
        first.append(f"Each of {count * (count - 1) // 2} pairs has a line in the table of verdicts")
        card = replace(card, verdicts=())
    return [*first, *_hypotheses(card.expectations), *findings(layout, card)]


def _alone(layout: Layout) -> list[str]:
    (engine,) = layout.engines
    if "rtfx" not in engine.metrics:
        return []
    pace, median = format_value(engine.metrics["rtfx"]), format_value(engine.metrics["latency_p50"], 1e3)
    return [f"{plain(engine.name, 60)}: {pace} times faster than real time, {median} ms for an input at the median"]


def _hypotheses(judged: Sequence[Judged]) -> list[str]:
    counts = {
        kind: sum(one.judgement == kind for one in judged) for kind in ("supported", "not supported", "undecided")
    }
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
    return [f"Of what was expected before the run: {told}"] if told else []
