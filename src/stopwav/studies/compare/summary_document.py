"""The summary of a comparison as blocks: a row per metric, with a column per engine."""

from __future__ import annotations

from collections.abc import Iterator

from stopwav.record import NO_TRANSCRIPT, UNTRAINED, Result
from stopwav.report.document import (
    BRIEF,
    PAGE,
    TEXT,
    Block,
    Cell,
    Column,
    Missing,
    Note,
    Row,
    Section,
    Source,
    Table,
    in_detail,
)
from stopwav.report.text import counted, format_bytes, format_interval, format_value
from stopwav.stats import Estimate
from stopwav.studies.compare.comparison import (
    ABSENT,
    DASH,
    SUMMARY,
    Comparison,
    large,
    length_note,
)
from stopwav.studies.compare.definitions import DEFINITIONS
from stopwav.studies.compare.energy import NO_METER
from stopwav.studies.definition import PARTS_OF_WER, Definition

# The rows that a terminal begins with.
BRIEF_SUMMARY = ("parameters", "latency_mean", "rtf", "rtfx", "energy_per_audio_s_gross", "wer", "cer")
# What a cell says, and a reason need not.
_SAID = (UNTRAINED, NO_TRANSCRIPT)
_UNITS = {("s", 1e3): ", ms", ("J", 1.0): ", J", ("W", 1.0): ", W"}


def summary_blocks(comparison: Comparison) -> Iterator[Block]:
    """Yield the table of a terminal's beginning, those with every row, and why numbers are missing."""
    engines = comparison.engines
    letters = [Column(comparison.letter(engine.name)) for engine in engines]
    titles = [
        Column(comparison.title(engine.name, 60), colour=index, status="" if engine.status == "ok" else engine.status)
        for index, engine in enumerate(engines)
    ]
    # A page has room for names; elsewhere the list of engines has them.
    every_row = tuple(_summary_rows(comparison, page=False))
    yield Table((Column("", "left"), *letters), tuple(_summary_rows(comparison, page=False, brief=True)), media=BRIEF)
    yield from in_detail([Table((Column("", "left"), *letters), every_row, media=TEXT)])
    yield Table((Column("", "left"), *titles), tuple(_summary_rows(comparison, page=True)), media=PAGE)
    yield Note("In square brackets: 95 % confidence interval.", media=PAGE)
    yield Missing(tuple(_brief_reasons(comparison)), media=BRIEF)
    yield from in_detail([Note(length_note(comparison))])
    if reasons := tuple(_missing_reasons(comparison)):
        yield from in_detail([Missing(reasons)])
        why = f"Why numbers or intervals are missing: {counted(len(reasons), 'reason')}"
        yield Section(why, (Missing(reasons, media=PAGE),), folded=True, media=PAGE)


def _summary_rows(comparison: Comparison, *, page: bool, brief: bool = False) -> Iterator[Row]:
    """The rows of the metrics that some engine has, or has not for a reason that a word says."""
    unmetered = [metric for metric in SUMMARY if _is_unmetered(comparison, metric)]
    for metric in SUMMARY:
        # What no engine has a meter for is one row.
        if (metric in PARTS_OF_WER and not page) or (brief and metric not in BRIEF_SUMMARY) or metric in unmetered[1:]:
            continue
        estimates = [comparison.estimate(engine, metric) for engine in comparison.engines]
        if any(estimate and (estimate.value is not None or estimate.code in ABSENT) for estimate in estimates):
            pairs = zip(comparison.engines, estimates, strict=True)
            cells = [_summary_cell(comparison, engine, metric, estimate) for engine, estimate in pairs]
            label = "energy and power" if metric in unmetered and len(unmetered) > 1 else _label(metric)
            yield Row((Cell(label), *cells))


def _is_unmetered(comparison: Comparison, metric: str) -> bool:
    estimates = [comparison.estimate(engine, metric) for engine in comparison.engines]
    known = [estimate for estimate in estimates if estimate is not None]
    return bool(known) and all(estimate.code == NO_METER for estimate in known)


def definition_of(metric: str) -> Definition:
    """Return the definition of a metric."""
    definition = DEFINITIONS.find(metric)
    assert definition is not None
    return definition


def _label(metric: str) -> str:
    """The name of a row of the summary with its unit; a star marks a metric of the longest input."""
    definition = definition_of(metric)
    name = definition.headline or f"{definition.title}{_UNITS.get((definition.unit, definition.scale), '')}"
    return f"{name}{'*' if SUMMARY[metric] else ''}"


def _summary_cell(comparison: Comparison, engine: Result, metric: str, estimate: Estimate | None) -> Cell:
    if estimate is None:
        return Cell(DASH)
    scale, decimals = definition_of(metric).scale, definition_of(metric).decimals
    source = Source(comparison.lettered(comparison.summary_result(engine, metric)), metric, estimate, scale)
    if estimate.value is None:
        return Cell(ABSENT.get(estimate.code, DASH), source=source)
    if metric in ("parameters", "trainable_parameters"):
        return Cell(f"{estimate.value:,.0f}", source=source)
    if metric in ("multiply_adds", "operations_per_s"):
        return Cell(large(estimate.value), source=source)
    if estimate.unit == "B":
        return Cell(format_bytes(estimate.value), source=source)
    value = format_value(estimate, scale, decimals)
    return Cell(format_interval(estimate, scale, decimals), value, source)


def _brief_reasons(comparison: Comparison) -> list[str]:
    """Why numbers of the first rows are missing: each reason once."""
    estimates = (comparison.estimate(engine, metric) for metric in BRIEF_SUMMARY for engine in comparison.engines)
    absent = [found for found in estimates if found is not None and found.value is None and found.code in ABSENT]
    return list(dict.fromkeys(found.note for found in absent if found.note and found.code not in _SAID))


def _missing_reasons(comparison: Comparison) -> list[str]:
    """Why numbers or intervals of the summary are missing: each reason once, with its engines and rows."""
    reasons: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for metric in SUMMARY:
        for engine in comparison.engines:
            estimate = comparison.estimate(engine, metric)
            if estimate is not None and estimate.low is None and estimate.note and estimate.code not in _SAID:
                letters, labels = reasons.setdefault(estimate.note, ({}, {}))
                letters[comparison.letter(engine.name)] = labels[_label(metric)] = None
    return [f"{', '.join(letters)}: {'; '.join(labels)}: {reason}" for reason, (letters, labels) in reasons.items()]
