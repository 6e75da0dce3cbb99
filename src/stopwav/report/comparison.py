"""Several runs side by side, on top of their page: a row per run and engine, and what makes the runs differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from stopwav.record import Header, Record, Result
from stopwav.report.numbers import DASH, format_bytes, format_interval, missing
from stopwav.report.plain import plain
from stopwav.report.presentation import Presentation, presentation_of
from stopwav.report.provenance import fingerprint
from stopwav.stats import Estimate

# The heading, the metric, what its stored value is multiplied by, and the most decimals.
COLUMNS = (
    ("word appears P50, s", "word_latency_p50", 1.0, 2),
    ("P95, s", "word_latency_p95", 1.0, 2),
    ("stands P50, s", "committed_latency_p50", 1.0, 2),
    ("real-time factor", "rtf", 1.0, 4),
    ("chunk lag P95, ms", "chunk_lag_p95", 1e3, 2),
    ("WER, percent", "wer", 100.0, 2),
    ("peak memory", "peak_host_bytes", 1.0, 0),
)


def comparison_html(runs: Sequence[tuple[Record, Sequence[Result]]]) -> str:
    """The table as an HTML fragment, with a warning where the runs differ in more than their engines.

    Each row leads to the section of its run on the same page. Studies of training have no rows. Runs that are all of
    one study are compared in its own way, where it has one.
    """
    own, *others = {_shown(record).comparison for record, _ in runs}
    if own is not None and not others:
        return own(runs)
    headings = ["run", "engine", *(heading for heading, *_ in COLUMNS)]
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    rows = [_row(index, run[0], result) for index, run in enumerate(runs) for result in _compared(*run)]
    table = (
        f'<div class="scroll" tabindex="0" role="region" aria-label="Comparison of runs"><table class="sortable">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
    return (
        f'<h1 class="title">{len(runs)} runs compared</h1>'
        f"{_differences([record.header for record, _ in runs])}{table if rows else ''}{_left_out(runs)}"
    )


def _shown(record: Record) -> Presentation:
    return presentation_of(record.header.study)


def _compared(record: Record, results: Sequence[Result]) -> list[Result]:
    """The results that stand in the table: engines and the cells of grids, not the lengths and laws of either."""
    if _shown(record).of_training:
        return []
    return [one for one in results if one.params.get("kind", "engine") in ("engine", "cell")]


def _left_out(runs: Sequence[tuple[Record, Sequence[Result]]]) -> str:
    names = [escape(plain(record.path.stem, 60)) for record, _ in runs if _shown(record).of_training]
    told = "of training, which has none of these numbers; each is in its section below"
    return f'<p class="aside">Not in the table: <bdi>{", ".join(names)}</bdi>, {told}.</p>' if names else ""


def _row(index: int, record: Record, result: Result) -> str:
    run = escape(plain(record.path.stem, 60))
    name = escape(plain(result.name, 80)) + ("" if result.status == "ok" else f" ({escape(result.status)})")
    absent = f"not measured by {record.header.study}" if result.metrics else "nothing was measured"
    cells = "".join(_cell(result.metrics, absent, *column[1:]) for column in COLUMNS)
    return (
        f'<tr><th scope="row"><a href="#s{index}-run"><bdi>{run}</bdi></a></th><td><bdi>{name}</bdi></td>{cells}</tr>'
    )


def _cell(metrics: Mapping[str, Estimate], absent: str, name: str, scale: float, most: int) -> str:
    estimate = metrics.get(name)
    if estimate is None or estimate.value is None:
        note = escape(plain(absent if estimate is None else estimate.note))
        return f'<td data-sort="" title="{note}">{DASH if estimate is None else missing(estimate)}</td>'
    text = format_bytes(estimate.value) if estimate.unit == "B" else format_interval(estimate, scale, most)
    return f'<td data-sort="{estimate.value!r}">{escape(text)}</td>'


def _differences(headers: Sequence[Header]) -> str:
    """What sets the runs apart, in a sentence; nothing where they can be compared as they are."""
    aspects = {
        "study": [header.study for header in headers],
        "machine": [fingerprint(header) for header in headers],
        "corpus": [str(header.corpus.get("digest")) for header in headers],
        "normaliser": [str(header.normaliser) for header in headers],
        "pace": [str(header.spec.get("pace")) for header in headers],
        "chunk size": [str(header.spec.get("chunk_ms")) for header in headers],
        "version of stopwav": [header.stopwav for header in headers],
    }
    differing = [name for name, values in aspects.items() if len(set(values)) > 1]
    if not differing:
        return "<p>Same machine, corpus and settings. Whether a difference is more than noise, stopwav diff says.</p>"
    told = f"These runs differ in {', '.join(differing)}: their numbers are not comparable as such."
    return f'<p class="cautions">{told}</p>'
