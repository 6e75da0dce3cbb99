"""The charts of a comparison of runs: every ratio to the first run with its interval, a chart per item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from stopwav.report.axis import TICKS, log_scale, log_ticks
from stopwav.report.chart import Chart, chart_of, colour, engine_keys, ink, shape, spec_of
from stopwav.report.text import effect_text
from stopwav.stats.change import Change
from stopwav.studies.definition import Definitions
from stopwav.studies.diff.diff import Diffs
from stopwav.studies.diff.document import finding_text, lettered
from stopwav.studies.study import find_study

# A row of a metric holds its label, and the marks of each run below each other.
ROW_HEIGHT, MARK_HEIGHT = 26, 14
# An item with fewer ratios than this is read faster in its table.
FEWEST_RATIOS = 2


def diff_charts(compared: Diffs) -> dict[str, Chart]:
    """Return the charts by name: one per item that is no part of another."""
    definitions = find_study(compared.diffs[0].study).definitions
    runs = [f"{letter}: {diff.b.stem}" for letter, diff in lettered(compared.diffs)]
    names = dict.fromkeys(item.name for diff in compared.diffs for item in diff.items if not item.part)
    charts = {}
    for number, name in enumerate(names):
        rows = [
            _row(run, change, definitions)
            for run, diff in zip(runs, compared.diffs, strict=True)
            for item in diff.items
            if item.name == name
            for change in item.changes
            if change.by == "ratio" and change.value is not None and change.value > 0
        ]
        if len(rows) >= FEWEST_RATIOS:
            charts[f"ratios-{number}"] = _chart(name, rows, runs, _about(name, compared, definitions))
    return charts


def _about(name: str, compared: Diffs, definitions: Definitions) -> str:
    """What the chart of an item shows, run by run."""
    found = [
        f"{letter}: {finding_text(item.changes, definitions)}."
        for letter, diff in lettered(compared.diffs)
        for item in diff.items
        if item.name == name
    ]
    return f"Points: the ratio to run a; lines: its interval; the upright line: no change. {' '.join(found)}"


def _row(run: str, change: Change, definitions: Definitions) -> dict[str, Any]:
    ends = {} if not change.low or not change.high else {"low": change.low, "high": change.high}
    title = definitions.short_title(change.metric)
    text = f"{title}: {effect_text(change)}, {change.verdict}"
    return {"engine": run, "metric": title, "value": change.value, **ends, "verdict": change.verdict, "text": text}


def _chart(name: str, rows: Sequence[dict[str, Any]], runs: Sequence[str], about: str) -> Chart:
    shown = [run for run in runs if any(row["engine"] == run for row in rows)]
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    offset = alt.YOffset("engine:N", sort=shown)
    ends = [row[end] for row in rows for end in ("value", "low", "high") if end in row]
    ticks = log_ticks([1.0, *ends])
    axis = alt.Axis(format=TICKS, values=ticks)
    ratio = alt.X("value:Q", title="ratio to run a (logarithmic)", scale=log_scale(ticks), axis=axis)
    base = chart_of(rows).encode(
        y=alt.Y("metric:N", sort=metrics, title=None, axis=alt.Axis(grid=False, labelLimit=260)),
        yOffset=offset,
        color=colour(runs, shown).legend(None),
    )
    same = alt.Chart(alt.InlineData(values=[{"at": 1}])).mark_rule(color=ink("muted"), strokeDash=[4, 4])
    intervals = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=2)
    marks = base.mark_point(filled=True, size=60, opacity=1)
    layers = (
        same.encode(x=alt.X("at:Q")),
        # A layer without rows has no extent.
        *([intervals.encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))] if any("low" in row for row in rows) else ()),
        marks.encode(
            x=ratio,
            shape=shape(runs, shown).legend(None),
            tooltip=[alt.Tooltip("engine:N", title="run"), alt.Tooltip("text:N", title="ratio")],
        ),
    )
    height = len(metrics) * max(ROW_HEIGHT, MARK_HEIGHT * len(shown)) + 40
    return Chart(name, spec_of(alt.layer(*layers), height), about, engine_keys(runs, shown))
