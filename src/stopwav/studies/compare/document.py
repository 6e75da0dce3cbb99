"""A comparison as a document: a summary with a column per engine, verdicts, curves over length, and parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from stopwav.record import NO_TRANSCRIPT, Result
from stopwav.report.document import (
    BRIEF,
    EVERYWHERE,
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
    Source,
    Table,
    in_detail,
)
from stopwav.report.text import counted, format_interval, format_value, listed
from stopwav.stats import Rule
from stopwav.studies.compare.comparison import (
    ABSENT,
    DASH,
    SHORT_NAMES,
    Comparison,
    amount_text,
    comparison_of,
    expectation_text,
    failure_text,
    fit_lines,
    has_energy,
    has_value,
    module_lines,
    open_texts,
    pareto_places,
    pareto_text,
    shortened,
    verdict_text,
)
from stopwav.studies.compare.expectation import JudgedExpectation
from stopwav.studies.compare.summary_document import definition_of, summary_blocks
from stopwav.studies.compare.verdicts import ENERGY, PairVerdict
from stopwav.studies.definition import ERROR_RATES, OTHER_LANGUAGE
from stopwav.studies.study import StudyRun

_INTERVALS: dict[Rule, str] = {
    "fixed": "Student's t on log ratios",
    "anytime": "confidence sequence on log ratios, valid at any stop",
}
# Three engines make three pairs, four make six: more are left to the table of verdicts.
MOST_PAIRS_IN_WORDS = 3
# Engines differ in their options and have long names: more of them make no title.
MOST_NAMES_IN_TITLE = 3


def compare_document(run: StudyRun, detail: Detail) -> Document:
    """Return the summary, verdicts, hypotheses, Pareto front, latency and energy over length, and parameters."""
    comparison = comparison_of(run)
    named = [replace(result, name=comparison.lettered(result)) for result in run.results]
    return Document(
        title=f"Comparison of {subject_of(comparison)}",
        blocks=(
            *_engine_list(comparison),
            Section("Summary", tuple(summary_blocks(comparison))),
            *verdict_blocks(comparison),
            *expectation_blocks(comparison.card.expectations),
            *pareto_blocks(comparison),
            Section("Over the length of the input", in_detail(_over_length(comparison))),
            *_parameters(comparison),
        ),
        findings=tuple(findings_of(comparison)),
        record=run.record,
        # Every engine, so that a warning about all of them is shown as such; of the lengths those with warnings.
        warned=tuple(result for result in named if result.warnings or result.kind == "engine"),
        measured=tuple(result for result in named if result.metrics),
        doubts=_doubts,
    )


def subject_of(comparison: Comparison) -> str:
    """Return the engines by name, or how many they are."""
    if len(comparison.engines) > MOST_NAMES_IN_TITLE:
        return f"{len(comparison.engines)} engines"
    return listed([shortened(engine.name, 60) for engine in comparison.engines])


def _engine_list(comparison: Comparison) -> Iterator[Block]:
    spec = comparison.data.spec
    samples: Any = comparison.engines[0].params["samples"]
    settings = (
        f"{counted(samples, 'sample')} of corpus {shortened(spec.corpus, 40)}, "
        f"{counted(comparison.data.rounds, 'round')}; [95 % CI]"
    )
    yield Note(settings, quiet=False, media=TEXT)
    names = (engine.name for engine in comparison.engines)
    yield Lines("Engines", tuple(f"{comparison.letter(name)}  {shortened(name, 100)}" for name in names), media=TEXT)


def _titled(title: str, table: Table) -> tuple[Table, Table]:
    """The table with a title where there are no sections, and without one on the page."""
    return replace(table, title=title, media=TEXT), replace(table, media=PAGE)


def verdict_blocks(comparison: Comparison) -> Iterator[Block]:
    """Yield the table of verdicts: a row per pair, a column per metric."""
    by_pair: dict[tuple[str, str], list[PairVerdict]] = {}
    for verdict in comparison.card.verdicts:
        by_pair.setdefault((verdict.a, verdict.b), []).append(verdict)
    if not by_pair:
        return
    metrics = dict.fromkeys(verdict.change.metric for verdict in comparison.card.verdicts)
    columns = (Column("", "left"), *(Column(SHORT_NAMES[metric]) for metric in metrics))
    rows = [
        (f"{comparison.letter(b)} against {comparison.letter(a)}", *map(verdict_text, verdicts))
        for (a, b), verdicts in by_pair.items()
    ]
    method = (
        f"paired by round, {_INTERVALS[comparison.data.rule]} (WER: by utterance, bootstrap), Holm over the table: "
        "95 % for all of its verdicts together; (+N): estimated number of further rounds needed to decide"
    )
    brief = Table(columns, tuple(Row(tuple(map(Cell, texts))) for texts in rows), title="Verdicts", media=BRIEF)
    table = replace(brief, title="", notes=(method,), media=EVERYWHERE)
    yield Section("Verdicts", (brief, *in_detail(_titled("Verdicts", table))))


def expectation_blocks(expectations: Sequence[JudgedExpectation]) -> Iterator[Block]:
    """Yield the hypotheses that the run was made for, each with its judgement."""
    lines = tuple(expectation_text(judged) for judged in expectations)
    if lines:
        title = "Expected before the run"
        yield Section(title, (Lines(title, lines, media=TEXT), Lines("", lines, media=PAGE)))


def pareto_blocks(comparison: Comparison) -> Iterator[Block]:
    """Yield the Pareto front on the page: a chart, or a sentence where fewer than two engines have a place in it."""
    if len(comparison.engines) > 1:
        figure = Figures((("pareto",),))
        sentence = Note(f"{pareto_text(comparison)}.", quiet=False)
        yield Section("Pareto front", (figure if len(pareto_places(comparison)) > 1 else sentence,), media=PAGE)


def _over_length(comparison: Comparison) -> Iterator[Block]:
    yield Figures((("latency",), ("energy",)))
    yield _length_table(comparison, "Latency over the length of the input, ms", "latency")
    if has_energy(comparison):
        title = "Energy per utterance over the length of the input, gross, J"
        yield _length_table(comparison, title, "energy_per_utterance_gross")
    else:
        yield Note(_energy_note(comparison), media=PAGE)
    if comparison.fits:
        yield Lines("Scaling fit: latency for d seconds of input", tuple(fit_lines(comparison)))


def _length_table(comparison: Comparison, title: str, metric: str) -> Table:
    """A row per length, a column per engine and, for two engines, the verdict on the second."""
    letters = [comparison.letter(engine.name) for engine in comparison.engines]
    headings = [*letters, *(["B against A"] if len(letters) == 2 else [])]
    rows = []
    for frames in comparison.frames:
        cells = [Cell(f"{frames} ({frames / 100:g})")]
        for engine in comparison.engines:
            cells.append(_length_cell(comparison, comparison.lengths[engine.name, frames], metric))
        if len(letters) == 2:
            verdicts = [verdict for verdict in comparison.card.by_length if verdict.frames == frames]
            cells += [Cell(verdict_text(verdict)) for verdict in verdicts if verdict.change.metric == metric]
        rows.append(Row(tuple(cells)))
    return Table((Column("frames (s)", "left"), *map(Column, headings)), tuple(rows), title=title)


def _length_cell(comparison: Comparison, result: Result, metric: str) -> Cell:
    estimate = result.metrics.get(metric)
    if estimate is None:
        return Cell(failure_text(comparison, result))
    definition = definition_of(metric)
    source = Source(comparison.lettered(result), metric, estimate, definition.scale)
    if estimate.value is None:
        return Cell(ABSENT.get(estimate.code, DASH), source=source)
    return Cell(format_interval(estimate, definition.scale, definition.decimals), source=source)


def _energy_note(comparison: Comparison) -> str:
    """Why there is no curve of energy."""
    if comparison.data.energy is None:
        return "Energy was not measured: --energy asks for it."
    reasons = dict.fromkeys(engine.metrics[ENERGY].note for engine in comparison.engines if ENERGY in engine.metrics)
    return f"Energy could not be measured: {'; '.join(shortened(reason, 200) for reason in reasons)}."


def _parameters(comparison: Comparison) -> Iterator[Block]:
    lines = tuple(module_lines(comparison))
    if lines:
        yield from in_detail([Lines("Parameters by module", lines, media=TEXT)])
    if any(has_value(engine, "parameters") for engine in comparison.engines):
        modules = Section("All modules, with their share and their multiply-adds", (Lines("", lines),), folded=True)
        yield Section("Parameters", (Figures((("parameters",),)), *([modules] if lines else [])), media=PAGE)


def _doubts(code: str, metric: str) -> bool:
    """Whether a warning is about one metric in particular; those about the whole run are on top of the page."""
    if code in ("meters-disagree", "meter-log"):
        return metric.startswith(("energy_", "mean_power", "idle_power", "sampled_"))
    if code == "net-too-small":
        return metric == "energy_per_audio_s_net"
    return code in ("languages", OTHER_LANGUAGE, NO_TRANSCRIPT) and metric in ERROR_RATES


def findings_of(comparison: Comparison) -> Iterator[str]:
    """Yield the Pareto front, the judged hypotheses and a sentence per pair; of a single engine, its speed."""
    count = len(comparison.engines)
    if count > 1:
        yield pareto_text(comparison)
    else:
        yield from _single_engine(comparison.engines[0])
    judged = [expectation.judgement for expectation in comparison.card.expectations]
    counts = {kind: judged.count(kind) for kind in ("supported", "not supported", "undecided") if kind in judged}
    if counts:
        yield f"Hypotheses: {', '.join(f'{number} {kind}' for kind, number in counts.items())}"
    if count > MOST_PAIRS_IN_WORDS:
        yield f"Each of {count * (count - 1) // 2} pairs has a row in the table of verdicts"
    else:
        yield from _pair_findings(comparison.card.verdicts)
    yield from open_texts(comparison)
    for engine in comparison.engines:
        if engine.status != "ok":
            reasons = (w.message for w in engine.warnings if w.code.startswith(("sample-", "model-")))
            yield f"{shortened(engine.name, 60)}: {engine.status}; {next(reasons, 'nothing was measured')}"


def _single_engine(engine: Result) -> Iterator[str]:
    if has_value(engine, "rtfx"):
        rtf, rtfx = format_value(engine.metrics["rtf"], most=4), format_value(engine.metrics["rtfx"])
        median_ms = format_value(engine.metrics["latency_p50"], 1e3)
        yield f"{shortened(engine.name, 60)}: RTF {rtf}, RTFx {rtfx}; median latency {median_ms} ms"


def _pair_findings(verdicts: Sequence[PairVerdict]) -> Iterator[str]:
    """A sentence per pair with a decided difference."""
    for a, b in dict.fromkeys((verdict.a, verdict.b) for verdict in verdicts):
        claims = [
            f"{verdict.change.verdict} in {SHORT_NAMES[verdict.change.metric]} ({amount_text(verdict)})"
            for verdict in verdicts
            if (verdict.a, verdict.b) == (a, b)
            and verdict.change.verdict not in ("undecided", "same", "small difference")
        ]
        if claims:
            yield f"{shortened(b, 60)} against {shortened(a, 60)}: {', '.join(claims)}"
