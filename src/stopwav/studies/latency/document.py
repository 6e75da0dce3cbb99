"""A latency run as a document: what a listener feels, why, what would help, and on the page every stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from stopwav.record import NO_TRANSCRIPT, UNTRAINED, Record, Result
from stopwav.report.document import (
    Block,
    Cell,
    Column,
    Detail,
    Document,
    Facts,
    Figures,
    Lines,
    Missing,
    Note,
    Row,
    Section,
    Table,
    Timelines,
    in_detail,
)
from stopwav.report.text import (
    counted,
    effect_text,
    format_interval,
    format_number,
    format_value,
    listed,
    verdict_text,
)
from stopwav.stats import UNDECIDED, Estimate
from stopwav.stats.rule import rule_text
from stopwav.studies.latency.brief_document import (
    brief_gains,
    brief_notes,
    brief_numbers,
    change_texts,
    metric_cell,
    setting_changes,
)
from stopwav.studies.latency.chunk_definitions import REMOTE_CODE
from stopwav.studies.latency.definitions import (
    DEFINITIONS,
    definition_of,
    glance,
    label_of,
    shown_sections,
)
from stopwav.studies.latency.explain import Explanation, explanation_reasons
from stopwav.studies.latency.missing_reasons import missing_reasons
from stopwav.studies.latency.pairs import EngineVerdict, EngineVerdicts, more_time
from stopwav.studies.study import StudyRun

CAUSES = {
    "waiting": "waiting for audio",
    "queue": "queueing",
    "computing": "computing",
    "server": "the server and the network",
    "stabilisation": "stabilisation",
}


def latency_document(run: StudyRun, detail: Detail) -> Document:
    """Return the tables with why numbers are missing, what would help, and a sentence per engine."""
    results = run.results
    explanation: Any = run.extras.get("explanation")
    verdicts: Any = run.extras.get("verdicts")
    # Of an explained run, the settings that were tried have a table of their own.
    shown = results if explanation is None else results[:1]
    findings = [latency_finding(result) for result in shown]
    if explanation is not None:
        findings.append(explanation_finding(explanation, partial(more_time, run.record)))
    if verdicts is not None:
        findings += [verdict_finding(verdicts.base, verdict, run.record) for verdict in verdicts.verdicts]
    return Document(
        title=f"Latency of {listed([result.name for result in shown])}",
        blocks=tuple((_page_blocks if detail.page else _text_blocks)(run, explanation, verdicts)),
        findings=tuple(findings),
        record=run.record,
        warned=tuple(results),
        measured=tuple(result for result in results if result.metrics),
        doubts=DEFINITIONS.doubts,
    )


def latency_finding(result: Result) -> str:
    """Return what a result says to someone who has not read the manual."""
    if not result.metrics:
        failures = (warning.message for warning in result.warnings if warning.code.startswith("stream-"))
        return f"{result.name}: {result.status}; {next(failures, 'nothing was measured')}"
    pace = "" if result.metrics["rtf"].code == REMOTE_CODE else f"{_pace(result)}; "
    return f"{result.name}: {pace}{_wait(result)}{_causes(result)}"


def verdict_finding(base: str, verdict: EngineVerdict, record: Record) -> str:
    """Return which of two engines is faster, or what would decide it."""
    felt, title = verdict.felt, definition_of(verdict.felt.metric).title
    if felt.verdict in ("faster", "slower"):
        return f"{verdict.engine} is {felt.verdict} than {base}: {title} {effect_text(felt)} ×"
    same = f"{verdict.engine} and {base}: {title} {felt.verdict}"
    if felt.verdict != "undecided" or felt.more_rounds is None:
        return same
    return f"{same} ({counted(felt.more_rounds, 'more round')}{more_time(record, felt.more_rounds)})"


def explanation_finding(explanation: Explanation, more_time: Callable[[int], str] = lambda rounds: "") -> str:
    """Return what to do, in a sentence; a setting is said to help only where that is shown beyond noise."""
    gains = explanation.gains
    if not gains:
        return f"{explanation.base}: no setting could be {'ranked' if explanation.unranked else 'measured'}"
    tried = len(gains) + len(explanation.unranked)
    helping = [gain for gain in gains if gain.felt.verdict == "faster" and gain.felt_s is not None]
    listed = ", ".join(f"{gain.setting} by {format_number(-1e3 * (gain.felt_s or 0), 0)} ms" for gain in helping)
    undecided = [gain.felt.more_rounds for gain in gains if gain.felt.verdict == "undecided"]
    more = max((rounds for rounds in undecided if rounds is not None), default=None)
    rest = f"; {len(undecided)} undecided" if undecided else ""
    rest += f" ({more} more rounds should decide{more_time(more)})" if more is not None else ""
    rest += f"; {len(explanation.unranked)} not ranked" if explanation.unranked else ""
    if helping:
        verb = "shortens" if len(helping) == 1 else "shorten"
        return f"{explanation.base}: of {tried} settings tried, {len(helping)} {verb} the wait: {listed}{rest}"
    return f"{explanation.base}: none of {tried} settings tried is shown to shorten the wait{rest}"


def _pace(result: Result) -> str:
    verdict, rtf, slope = (result.metrics[name] for name in ("keeps_up", "rtf", "backlog_slope"))
    factors = f"RTF {format_interval(rtf)}, RTFx {format_interval(result.metrics['rtfx'])}"
    if verdict.code == UNDECIDED:
        return f"whether it keeps up is {verdict.note} ({factors})"
    if rtf.value is not None and rtf.value < 1:
        factors += f", but its backlog grows by {format_value(slope, 1e3)} ms per second of audio"
    return "keeps up" if verdict.value else f"does not keep up ({factors})"


def _wait(result: Result) -> str:
    p50, p95 = (result.metrics[f"word_latency_{p}"] for p in ("p50", "p95"))
    if p50.code == UNTRAINED:
        return f"{UNTRAINED}: no words to time"
    if p50.value is None:
        lag = result.metrics["chunk_lag_p95"] if p50.code == NO_TRANSCRIPT else p50
        chunks = f"; chunk latency {format_value(lag, 1e3)} ms (P95)" if lag.value is not None else ""
        return f"word latency is unknown ({p50.note}){chunks}"
    tail = f" / {format_value(p95)} s (P95)" if p95.value is not None else ""
    return f"word latency {format_value(p50)} s (P50){tail}"


def _causes(result: Result) -> str:
    """Word finalization latency with the share of each cause, in the order in which they occur."""
    shares = {cause: result.metrics.get(f"share_{cause}", Estimate(None)).value for cause in CAUSES}
    if not (known := {cause: share for cause, share in shares.items() if share is not None}):
        return ""
    committed = result.metrics["committed_latency_p50"]
    final = f"; a word is final after {format_value(committed)} s (P50)" if committed.value is not None else ""
    parts = [(f"{100 * share:.0f} %", CAUSES[cause]) for cause, share in known.items() if round(100 * share) != 0]
    if not parts:
        return final
    first, *others = parts
    return f"{final}; of that wait {', '.join([f'{first[0]} is {first[1]}', *map(' '.join, others)])}"


def _text_blocks(run: StudyRun, explanation: Explanation | None, verdicts: EngineVerdicts | None) -> Iterator[Block]:
    shown = run.results if explanation is None else run.results[:1]
    measured = [result for result in shown if result.metrics]
    if measured:
        yield Note(_settings_line(measured[0]), quiet=False)
        yield from brief_numbers(measured)
        yield from in_detail((_numbers(measured, page=False), Missing(tuple(missing_reasons(measured)))))
    if explanation is not None:
        yield from _explanation_blocks(explanation, f"What would help {explanation.base}")
    if verdicts is not None:
        yield from in_detail(_verdict_blocks(verdicts, f"Against {verdicts.base}"))


def _verdict_blocks(verdicts: EngineVerdicts, title: str) -> Iterator[Block]:
    felt = verdicts.verdicts[0].felt
    shown = 1 if all(verdict.rtf.code == REMOTE_CODE for verdict in verdicts.verdicts) else 2  # servers show no RTF
    columns = [Column("engine", "left", fold=True)]
    for metric in (felt.metric, "rtf")[:shown]:
        columns += [Column(f"{definition_of(metric).title}, ×"), Column("verdict", "left", fold=True)]
    rows = []
    for verdict in verdicts.verdicts:
        texts = [verdict.engine]
        for change in (verdict.felt, verdict.rtf)[:shown]:
            texts += [ratio := change_texts(change)[0], ratio if change.code == REMOTE_CODE else verdict_text(change)]
        rows.append(Row(tuple(map(Cell, texts))))
    yield Table(tuple(columns), tuple(rows), title=title)
    yield Note(f"×: relative to {verdicts.base}, paired by round; Holm over all verdicts; {felt.rule_text}")


def _settings_line(result: Result) -> str:
    params: Any = result.params
    return (
        f"{counted(params['utterances'], 'utterance')} of corpus {params['corpus']}, {params['audio_s']:.0f} s of "
        f"audio, {counted(params['words'], 'word') if params['transcripts'] else 'no transcripts'}, "
        f"{params['pace']} pace, {counted(params['rounds'], 'round')}; [95 % CI]"
    )


def _numbers(results: Sequence[Result], *, page: bool) -> Table:
    """The table with a column per engine, and the rows that say something about one of them."""
    rows: list[Row] = []
    for heading, metrics in shown_sections(results, page=page):
        rows.append(Row((Cell(heading),), heading=True))
        for metric, unit in metrics.items():
            # The rows above it add up to it.
            label = f"{'= ' if metric == 'word_latency_mean' else ''}{label_of(metric, unit)}"
            rows.append(Row((Cell(label), *(metric_cell(result, metric) for result in results))))
    columns = (
        Column("", "left", fold=True, least=34),
        *(Column(result.name, colour=index) for index, result in enumerate(results)),
    )
    return Table(columns, tuple(rows), sortable=True)


def _explanation_blocks(explanation: Explanation, title: str) -> Iterator[Block]:
    if explanation.gains:
        yield brief_gains(explanation, title)
        yield _long_table(explanation, title)
        yield _wide_table(explanation, title)
    yield from brief_notes(explanation)
    yield Note(
        media=("terminal", "markdown", "page"),
        text=f"wait: change of {definition_of(explanation.felt).title}; ALGO: the algorithm's part of that change, by "
        "definition; ×: chunk latency relative to the engine as it is; paired by round, log ratios "
        f"({_rule(explanation)}; WER: by utterance, bootstrap); Holm over all verdicts: 95 % for all of them together",
    )
    reasons = tuple(explanation_reasons(explanation))
    if reasons:
        yield Missing(reasons, media=("terminal", "page"))
        yield Lines("Not measured, not ranked, or without a verdict", reasons, media=("markdown",))


def _rule(explanation: Explanation) -> str:
    return rule_text(next((gain.felt.rule for gain in explanation.gains if gain.felt.rule), "fixed"))


def _long_table(explanation: Explanation, title: str) -> Table:
    """A row per setting and quantity: what a terminal has room for."""
    columns = (
        Column("setting", "left", fold=True),
        Column("", "left"),
        Column("change"),
        Column("verdict", "left", fold=True),
    )
    rows = []
    for gain in explanation.gains:
        for number, (quantity, change, verdict) in enumerate(setting_changes(gain)):
            rows.append(Row(tuple(map(Cell, ("" if number else gain.setting, quantity, change, verdict)))))
    return Table(columns, tuple(rows), title=title, media=("terminal",))


def _wide_table(explanation: Explanation, title: str) -> Table:
    """A row per setting."""
    quantities = [quantity for quantity, *_ in setting_changes(explanation.gains[0])]
    columns = (Column("setting", "left"), Column(quantities[0]), Column("verdict"), *map(Column, quantities[1:]))
    rows = []
    for gain in explanation.gains:
        (_, wait, verdict), *others = setting_changes(gain)
        texts = [gain.setting, wait, verdict, *(f"{change} {verdict}".strip() for _, change, verdict in others)]
        rows.append(Row(tuple(map(Cell, texts))))
    return Table(columns, tuple(rows), title=title, sortable=True, media=("markdown", "page"))


def _page_blocks(run: StudyRun, explanation: Explanation | None, verdicts: EngineVerdicts | None) -> tuple[Block, ...]:
    results, view = run.results, run.view
    sections = [Section("At a glance", (_glance(results), *_GLANCE_NOTES))]
    if explanation is not None:
        sections.append(Section(f"What would help {explanation.base}", tuple(_explanation_blocks(explanation, ""))))
    if view["timelines"]:
        timelines = tuple(view["timelines"])
        # First the utterance of median length.
        by_length = sorted(range(len(timelines)), key=lambda index: timelines[index]["audio_s"])
        first = by_length[len(by_length) // 2]
        note = f"{view['timelines_of']} {_TIMELINE_NOTE}".strip()
        sections.append(Section("One utterance, moment by moment", (Timelines(timelines, first, note),)))
    if view["waterfall"] or view["positions"]["points"]:
        sections.append(Section("Why a word takes so long, and where", (Figures((("waterfall",), ("positions",))),)))
    sections.append(Section("The numbers", (_numbers(results, page=True),)))
    if verdicts is not None:
        sections.append(Section(f"Against {verdicts.base}", tuple(_verdict_blocks(verdicts, ""))))
    if view["distributions"]:
        figures = Figures((("histogram-*", "ecdf-*"),), layout="grid")
        sections.append(Section("What the machine does with each chunk", (Note(_SPREAD_NOTE), figures)))
    cards = tuple((result.name, tuple(_engine_facts(result))) for result in results)
    return (*sections, Section("The engines", (Facts(cards),)))


_GLANCE_NOTES = (
    Note("In brackets: 95 % interval; a number without one rests on too few words or rounds for it."),
    Note("Point at a number, or Tab to it, for its definition and its notes. Click a heading to sort.", scripted=True),
)
_TIMELINE_NOTE = (
    "Each engine’s chunks are drawn from the start to the end of their processing, pale while they queue; a tick marks "
    "when they are due. Below them, a line for each word of the text: hollow while it may still change, filled once it "
    "is final."
)
_SPREAD_NOTE = (
    "Above: how often a chunk took how long. Below: what share was done within a time. P50 solid, P95 dashed. Bins and "
    "quantiles of all chunks."
)


def _glance(results: Sequence[Result]) -> Table:
    rows, shown = [], glance(results)
    for index, result in enumerate(results):
        cells = {metric: metric_cell(result, metric) for metric in shown}
        # Its interval is that of RTF: without it all columns fit a laptop's screen.
        cells["rtfx"] = replace(cells["rtfx"], text=cells["rtfx"].short or cells["rtfx"].text)
        status = "" if result.status == "ok" else result.status
        rows.append(Row((Cell(result.name), *cells.values()), colour=index, status=status))
    return Table((Column("engine", "left"), *map(Column, shown.values())), tuple(rows), sortable=True)


def _engine_facts(result: Result) -> Iterator[tuple[str, str]]:
    engine: Any = result.params.get("engine") or {}
    parameters = engine.get("parameters")
    for label in ("version", "model", "device", "precision"):
        if engine.get(label):
            yield label, str(engine[label])
    if isinstance(parameters, int):
        yield "parameters", f"{parameters:,}"
    for label, seconds in (("chunk", result.params.get("chunk_s")), ("look-ahead", engine.get("lookahead_s"))):
        if isinstance(seconds, int | float):
            yield label, f"{1e3 * seconds:g} ms"
