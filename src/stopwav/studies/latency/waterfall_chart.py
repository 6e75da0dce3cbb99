"""The waterfall: why a word takes so long, a bar an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from stopwav.report.chart import Chart, Key
from stopwav.report.chart_scales import chart_of, spec_of
from stopwav.report.palette import ink
from stopwav.studies.latency.definitions import DEFINITIONS


def waterfall_chart(means: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Chart:
    """The parts of mean word latency, stacked; parts that no engine has are left out."""
    parts = list(dict.fromkeys(row["part"] for row in means))
    parts = [part for part in parts if any(row["mean_ms"] for row in means if row["part"] == part)]
    titles = {part: DEFINITIONS[f"waterfall_{part}"].title for part in parts}
    rows = [
        {"engine": row["engine"], "part": titles[row["part"]], "order": parts.index(row["part"]), "ms": row["mean_ms"]}
        for row in means
        if row["part"] in titles
    ]
    measured = [name for name in names if any(row["engine"] == name for row in rows)]
    colours = {titles[part]: ink(f"part-{part}") for part in parts}
    return Chart(
        "Why a word takes so long",
        spec_of(_bars(rows, measured, colours) + _totals(rows, measured), 44 * len(measured) + 20),
        "Mean wait for a word, split by cause, in milliseconds. " + " ".join(_told(rows, name) for name in measured),
        tuple(Key(title, colour) for title, colour in colours.items()),
    )


def _bars(rows: Sequence[Mapping[str, Any]], measured: Sequence[str], colours: Mapping[str, str]) -> alt.Chart:
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    bars = chart_of(rows).mark_bar(stroke=ink("card"), strokeWidth=1, height={"band": 0.68})
    return bars.encode(
        y=_engines(measured),
        x=alt.X("ms:Q", stack="zero", title="mean wait for a word, ms", axis=alt.Axis(tickCount=5)),
        color=alt.Color("part:N", scale=scale, sort=list(colours)),
        order=alt.Order("order:Q"),
        tooltip=[
            alt.Tooltip("engine:N"),
            alt.Tooltip("part:N"),
            alt.Tooltip("ms:Q", format=".3~g", title="mean, ms"),
        ],
    )


def _totals(rows: Sequence[Mapping[str, Any]], measured: Sequence[str]) -> alt.Chart:
    """The sum of the parts, behind the bar; parts below zero stand on its other side."""
    own = {name: [row["ms"] for row in rows if row["engine"] == name] for name in measured}
    ends = [
        {"engine": name, "label": f"{sum(parts):.0f} ms", "end": sum(part for part in parts if part > 0)}
        for name, parts in own.items()
    ]
    text = chart_of(ends).mark_text(align="left", dx=6, fontSize=12, fill=ink("ink"))
    return text.encode(y=_engines(measured), x="end:Q", text="label:N")


def _engines(measured: Sequence[str]) -> alt.Y:
    axis = alt.Axis(labelColor=ink("ink"), labelLimit=150, grid=False)
    return alt.Y("engine:N", sort=list(measured), title=None, axis=axis)


def _told(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    own = [row for row in rows if row["engine"] == name]
    parts = ", ".join(f"{row['part']} {row['ms']:.3g}" for row in own if row["ms"])
    return f"{name}: {sum(row['ms'] for row in own):.0f}, of which {parts}."
