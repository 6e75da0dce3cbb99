"""The section of a latency run: headline table, why a word takes so long, distributions, and timelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stopwav.record import Result
from stopwav.report.assets import pack, template
from stopwav.report.charts import Chart, latency_charts
from stopwav.report.explanation import HEADINGS, explanation_finding, label, notes, row
from stopwav.report.findings import latency_finding
from stopwav.report.latency_table import Row, lines_of
from stopwav.report.palette import engine_ink
from stopwav.report.plain import plain
from stopwav.report.sections.cautions import Footnote, footnotes
from stopwav.report.sections.number import Number, number
from stopwav.report.sections.section import Part, Section
from stopwav.studies.latency.gain import Explanation

# What a reader compares engines by, a column each.
HEADLINES = (
    Row("word appears, P50, s", "word_latency_p50"),
    Row("word appears, P95, s", "word_latency_p95"),
    Row("stands for good, P50, s", "committed_latency_p50"),
    Row("final text after audio, P50, s", "final_latency_from_end_p50"),
    Row("real-time factor", "rtf", decimals=4),
    Row("keeps up", "keeps_up"),
    Row("word errors, %", "wer", 100),
    Row("peak memory", "peak_host_bytes"),
)
# Timelines are inflated a batch at a time: small enough to be there at once, large enough to compress well.
BATCH = 25
# A word of 100 kB and a transcript of an hour are cut on the timeline; the run file keeps them whole.
LONGEST_WORD, MOST_WORDS = 60, 400
LONGEST_LABEL = 70


def render_section(section: Section, prefix: str) -> Part:
    """What a latency run puts on the page."""
    results, view = section.results, section.view
    charts = latency_charts(view)
    ids = {name: f"{prefix}chart-{index}" for index, name in enumerate(charts)}
    timelines, explained = view["timelines"], view.get("explanation")
    html = template("latency.html.jinja").render(
        prefix=prefix,
        engines=[(result, plain(result.name, 40), engine_ink(i)) for i, result in enumerate(results)],
        headlines=_headlines(results),
        tables=_tables(results),
        charts=charts,
        ids=ids,
        spreads=[(charts[name], ids[name], *_cumulative(name, charts, ids)) for name in charts if _is_spread(name)],
        timelines=[(t["id"], _label(t)) for t in timelines],
        first=_typical(timelines),
        batch=BATCH,
        details=[_engine_details(result) for result in results],
        explained=None if explained is None else _explained(explained),
    )
    blobs = {
        f"{prefix}timeline-{start // BATCH}": pack([_timeline(t) for t in timelines[start : start + BATCH]])
        for start in range(0, len(timelines), BATCH)
    }
    findings = [latency_finding(result) for result in results]
    if explained is not None:
        # Each setting has its line in the table of the explanation.
        findings = [*findings[:1], explanation_finding(explained)]
    return Part(findings, html, {ids[name]: chart for name, chart in charts.items()}, blobs)


def _explained(found: Explanation) -> dict[str, Any]:
    """The table of what would help."""
    return {
        "base": plain(found.base, 100),
        "headings": HEADINGS,
        "rows": [row(gain) for gain in found.gains],
        "label": label(found),
        "notes": [plain(note) for note in notes(found)],
    }


def _is_spread(name: str) -> bool:
    return name.startswith("histogram-")


def _cumulative(name: str, charts: Mapping[str, Chart], ids: Mapping[str, str]) -> tuple[Chart, str]:
    other = name.replace("histogram-", "ecdf-", 1)
    return charts[other], ids[other]


def _headlines(results: Sequence[Result]) -> tuple[Sequence[Row], list[list[Number]]]:
    notes = footnotes(results)
    return HEADLINES, [[_cell(result, row, notes) for row in HEADLINES] for result in results]


def _tables(results: Sequence[Result]) -> list[tuple[str, list[tuple[str, list[Number]]]]]:
    """The tables of the terminal: a heading, and rows of a label with a number per engine."""
    notes = footnotes(results)
    return [
        (heading, [(row.label, [_cell(result, row, notes) for result in results]) for row in rows])
        for heading, rows in lines_of(results)
    ]


def _cell(result: Result, row: Row, notes: Sequence[Footnote]) -> Number:
    return number(result, row.metric, notes, row.scale, row.decimals)


def _engine_details(result: Result) -> list[tuple[str, str]]:
    engine: Mapping[str, Any] = result.params.get("engine") or {}  # type: ignore[assignment]
    parameters = engine.get("parameters")
    rows = [
        ("version", engine.get("version")),
        ("model", engine.get("model")),
        ("device", engine.get("device")),
        ("precision", engine.get("precision")),
        ("parameters", f"{parameters:,}" if isinstance(parameters, int) else None),
        ("chunk", _milliseconds(result.params.get("chunk_s"))),
        ("look-ahead", _milliseconds(engine.get("lookahead_s"))),
    ]
    return [(label, plain(str(text), 120)) for label, text in rows if text not in (None, "")]


def _milliseconds(seconds: object) -> str | None:
    return f"{1e3 * seconds:g} ms" if isinstance(seconds, int | float) else None


def _typical(timelines: Sequence[Mapping[str, Any]]) -> int:
    """The utterance to show first: that of median length."""
    by_length = sorted(range(len(timelines)), key=lambda index: timelines[index]["audio_s"])
    return by_length[len(by_length) // 2] if by_length else 0


def _label(timeline: Mapping[str, Any]) -> str:
    return plain(f"{plain(timeline['id'], 40)}: {timeline['text']}", LONGEST_LABEL)


def _timeline(timeline: Mapping[str, Any]) -> dict[str, Any]:
    """A timeline with its texts cut and made safe to show."""
    return {
        **timeline,
        "id": plain(timeline["id"], LONGEST_LABEL),
        "text": _shown(timeline["text"]),
        "words": [[plain(text, LONGEST_WORD), start, end] for text, start, end in timeline["words"]],
        "envelope_note": plain(timeline["envelope_note"]),
        "lanes": [
            {
                **lane,
                "engine": plain(lane["engine"], 40),
                "failure": plain(lane["failure"]),
                "texts": [[at_s, _shown(text)] for at_s, text in lane["texts"]],
            }
            for lane in timeline["lanes"]
        ],
    }


def _shown(text: str) -> str:
    words = text.split()
    tail = ["…"] if len(words) > MOST_WORDS else []
    return " ".join([*(plain(word, LONGEST_WORD) for word in words[:MOST_WORDS]), *tail])
