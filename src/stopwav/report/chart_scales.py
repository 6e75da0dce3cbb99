"""What the charts of engines share: a colour, a dash and a shape each, the same in every chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from stopwav.report.chart import Key, theme
from stopwav.report.palette import DASHES, SHAPES, engine_ink


def chart_of(rows: Sequence[Mapping[str, Any]]) -> alt.Chart:
    """A chart of rows that stand in the specification itself."""
    return alt.Chart(alt.InlineData(values=list(rows)))


def colour(names: Sequence[str], shown: Sequence[str]) -> alt.Color:
    """The colour of an engine."""
    return alt.Color("engine:N", scale=alt.Scale(domain=shown, range=[engine_ink(names.index(name)) for name in shown]))


def dash(names: Sequence[str], shown: Sequence[str]) -> alt.StrokeDash:
    """The dash of an engine's line."""
    dashes = [DASHES[names.index(name) % len(DASHES)] for name in shown]
    return alt.StrokeDash("engine:N", scale=alt.Scale(domain=shown, range=dashes))


def shape(names: Sequence[str], shown: Sequence[str]) -> alt.Shape:
    """The shape of an engine's marks."""
    shapes = [SHAPES[names.index(name) % len(SHAPES)] for name in shown]
    return alt.Shape("engine:N", scale=alt.Scale(domain=shown, range=shapes))


def engine_keys(names: Sequence[str], shown: Sequence[str]) -> tuple[Key, ...]:
    """The legend of the engines that a chart shows."""
    return tuple(Key(name, engine_ink(names.index(name))) for name in shown)


def spec_of(chart: alt.LayerChart | alt.FacetChart, height: int) -> dict[str, Any]:
    """The chart as wide as its container, in the common look."""
    fields: dict[str, Any] = chart.properties(width="container", height=height).to_dict()
    # Altair names a place on the web where its schema lies; nothing here is to name such a place.
    fields.pop("$schema", None)
    fields["config"] = theme()
    return fields
