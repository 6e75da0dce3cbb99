"""What stands below the card of a comparison, as tables and lists with their headings, for terminal and Markdown."""

from __future__ import annotations

from stopwav.report.compare_layout import (
    Layout,
    expectation_text,
    has_energy,
    law_lines,
    length_rows,
    module_lines,
)
from stopwav.studies.compare.card import Card

LABEL = (
    "paired by round, Student's t on log ratios (WER: by utterance, bootstrap), Holm over the table: 95 % for all of "
    "its verdicts together; (+N): so many more rounds should decide"
)


def length_tables(layout: Layout, card: Card) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, headings and rows of latency and, where it was metered, of energy over the length of the input."""
    letters = [layout.letter(engine.name) for engine in layout.engines]
    headings = ["frames", *letters, *(["B against A"] if len(letters) == 2 else [])]
    latency = length_rows(layout, card, "latency", 1e3, 2)
    found = [("Latency over the length of the input, ms", headings, latency)]
    if has_energy(layout):
        energy = length_rows(layout, card, "energy_per_utterance_gross", 1.0, 3)
        found.append(("Energy of an utterance, J, gross", headings, energy))
    return found


def lists(layout: Layout, card: Card) -> list[tuple[str, list[str]]]:
    """Heading and lines of each list that has any."""
    found = [
        ("How latency grows with d seconds of input", law_lines(layout)),
        ("Parameters by module", list(module_lines(layout))),
        ("Expected before the run", [expectation_text(one) for one in card.expectations]),
    ]
    return [(heading, lines) for heading, lines in found if lines]
