"""The history of a folder as one self-contained page: no script, no network, a chart per metric."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from stopwav.report.history import KEY_METRICS, PastRun, display_scale, letter, metrics_of, numbered, series_of, told
from stopwav.report.line_chart import COLOURS, DASHES, line_chart, marker
from stopwav.report.palette import COLOURS as PALETTE
from stopwav.report.plain import plain
from stopwav.report.presentation import PRESENTATIONS
from stopwav.report.provenance import machine_line

_STYLE = """
:root{color-scheme:light dark;--ink:#1a1c1f;--soft:#565b63;--paper:#fff;--line:#d5d8dd;LIGHT}
@media (prefers-color-scheme:dark){:root{--ink:#e9ebee;--soft:#aab0b9;--paper:#15171a;--line:#3a3f46;DARK}}
@media print{:root{--ink:#000;--soft:#333;--paper:#fff;--line:#bbb;LIGHT}details{display:block}}
body{margin:0 auto;max-width:60rem;padding:1rem;font:1rem/1.5 system-ui,sans-serif;color:var(--ink);
background:var(--paper)}
h1{font-size:1.6rem}h2{font-size:1.15rem;margin:2rem 0 0}a{color:var(--c0)}
p{margin:.3rem 0}.soft{color:var(--soft)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{border-bottom:1px solid var(--line);padding:.2rem .6rem;text-align:left;overflow-wrap:anywhere}
td.n{text-align:right;white-space:nowrap}
svg{display:block;width:100%;height:auto}svg text,svg .mark text{fill:var(--ink);stroke:none;font-size:12px}
svg.key{display:inline-block;width:3rem;height:1.2rem;vertical-align:middle}
.grid{stroke:var(--line)}polyline{fill:none;stroke-width:2}.whisker{stroke-width:1.5;opacity:.6}
a:focus-visible .mark{stroke:var(--ink);stroke-width:3}
""".strip()


def history_page(runs: Sequence[PastRun], folder: Path, version: str) -> str:
    """The page over all runs, in the order of time."""
    title = f"stopwav history of {plain(folder.resolve().name or str(folder))}"
    metrics = metrics_of(runs)
    key = [name for name in metrics if name in KEY_METRICS]
    others = [name for name in metrics if name not in KEY_METRICS]
    body = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{len(runs)} runs. A line joins runs of one engine on one machine under one setting, and no others. "
        "Bars are 95 % intervals. A point leads to the report of its run.</p>",
        _legend(runs),
        *(_figure(name, runs, with_table=True) for name in key),
    ]
    if others:
        more = "".join(_figure(name, runs, with_table=False) for name in others)
        body.append(f"<h2>Every other metric</h2><details><summary>{len(others)} charts</summary>{more}</details>")
    body += [_runs(runs), f'<p class="soft">Written by stopwav {escape(version)}.</p>']
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        # Nothing may be fetched, whatever stands in a run file.
        """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">"""
        f"<title>{escape(title)}</title><style>{_style()}</style></head><body><main>\n"
        + "\n".join(body)
        + "\n</main></body></html>\n"
    )


def _style() -> str:
    light, dark = (";".join(f"--c{k}:{PALETTE[f'engine-{k}'][ground]}" for k in range(COLOURS)) for ground in (0, 1))
    classes = "".join(f".c{k}{{stroke:var(--c{k})}}.c{k}.mark{{fill:var(--c{k})}}" for k in range(COLOURS))
    return _STYLE.replace("LIGHT", light).replace("DARK", dark) + classes


def _legend(runs: Sequence[PastRun]) -> str:
    engines = numbered([result.name for run in runs for result in run.results])
    machines = {run.machine: run for run in reversed(runs)}
    items = []
    for name, number in engines.items():
        dash = DASHES[number % len(DASHES)]
        line = f'<polyline class="c{number % COLOURS}" points="0,10 40,10" stroke-dasharray="{dash or "none"}"/>'
        items.append(f"<li>{_key(line)} {number + 1}: {escape(plain(name))}</li>")
    for machine, number in numbered([run.machine for run in runs]).items():
        mark = f'<g class="c0 mark" transform="translate(20 10)">{marker(number)}</g>'
        text = machine_line(machines[machine].record.header)
        items.append(f"<li>{_key(mark)} machine {letter(number)}: {escape(text)}</li>")
    return f"<h2>Engines and machines</h2><ul>{''.join(items)}</ul>"


def _key(shape: str) -> str:
    return f'<svg class="key" viewBox="0 0 40 20" aria-hidden="true">{shape}</svg>'


def _figure(metric: str, runs: Sequence[PastRun], *, with_table: bool) -> str:
    followed = (one for one in PRESENTATIONS.values() if not one.of_training)
    found = next(filter(None, (one.definition(metric) for one in followed)), None)
    title = plain(found.title if found else metric)
    scale, unit = display_scale(metric, runs)
    chart = line_chart(title, unit, series_of(metric, runs, scale, unit))
    text = escape(found.text) if found else ""
    table = f"<details><summary>As a table</summary>{_table(metric, runs, scale, unit)}</details>" if with_table else ""
    return (
        f'<section id="{escape(plain(metric))}"><h2>{escape(title)}, {escape(unit)}</h2>'
        f'<p class="soft">{text}</p>{chart}{table}</section>'
    )


def _table(metric: str, runs: Sequence[PastRun], scale: float, unit: str) -> str:
    machines = numbered([run.machine for run in runs])
    rows = []
    for run in runs:
        for result in run.results:
            estimate = result.metrics.get(metric)
            note = estimate.note if estimate is not None else result.status
            rows.append(
                f"<tr><td>{_link(run)}</td><td>{escape(plain(result.name, 80))}</td>"
                f"<td>{letter(machines[run.machine])}</td><td class=n>{escape(told(estimate, scale))}</td>"
                f"<td>{escape(plain(note))}</td></tr>"
            )
    return _rows(("started (UTC)", "engine", "machine", unit, "note"), rows)


def _runs(runs: Sequence[PastRun]) -> str:
    machines = numbered([run.machine for run in runs])
    rows = [
        f"<tr><td>{_link(run)}</td><td>{escape(plain(run.record.path.name))}</td>"
        f"<td>{letter(machines[run.machine])}</td><td>{escape(plain(run.setting))}</td>"
        f"<td>{escape(plain(run.record.header.stopwav))}</td>"
        f"<td>{'' if run.record.complete else 'not complete'}</td></tr>"
        for run in runs
    ]
    headings = ("started (UTC)", "run file", "machine", "setting", "stopwav", "")
    return f"<h2>Runs</h2>{_rows(headings, rows)}"


def _rows(headings: Sequence[str], rows: Sequence[str]) -> str:
    cells = "".join(f'<th scope="col">{escape(heading)}</th>' if heading else "<td></td>" for heading in headings)
    # A region that scrolls sideways can be reached by keyboard.
    table = f"<table><thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="wide" tabindex="0">{table}</div>'


def _link(run: PastRun) -> str:
    started = escape(plain(run.record.header.started, 40))
    return started if run.href is None else f'<a href="{escape(run.href)}">{started}</a>'
