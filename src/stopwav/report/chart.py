"""A chart: one Vega-Lite specification for the page and for files, with a colour, a dash and a shape per engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import altair as alt
from altair.utils import schemapi

from stopwav.report.palette import DASHES, SHAPES, engine_ink, ink, on_light

# Width of a chart in a file; in a page it takes that of its column.
FILE_WIDTH = 640
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"


@dataclass(frozen=True)
class Key:
    """One entry of a chart's legend: what, and in which colour."""

    label: str
    colour: str


@dataclass(frozen=True)
class Chart:
    """A chart: its title, its Vega-Lite specification, what it shows in words, and its legend."""

    title: str
    spec: Mapping[str, Any]
    description: str
    legend: tuple[Key, ...] = ()


def theme() -> dict[str, Any]:
    """The look that all charts share."""
    quiet = {"domain": False, "ticks": False, "labelPadding": 8, "titlePadding": 12, "gridDash": [2, 3]}
    text = {"labelColor": ink("muted"), "titleColor": ink("muted"), "labelFontSize": 12, "titleFontSize": 12}
    return {
        "background": "transparent",
        "font": FONT,
        # A screen reader gets the description, not hundreds of marks one by one.
        "aria": False,
        "view": {"stroke": None},
        "axis": {**quiet, **text, "gridColor": ink("line"), "titleFontWeight": "normal", "labelOverlap": "greedy"},
        # Two names of that length fit the width of a file.
        "legend": {**text, "orient": "bottom", "title": None, "labelLimit": 240, "columns": 2},
    }


def chart_svg(spec: Mapping[str, Any]) -> str:
    """The chart as SVG text, on light ground."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(_for_file(spec)))


def chart_png(spec: Mapping[str, Any], scale: float = 2.0) -> bytes:
    """The chart as a PNG image, on light ground, at twice the size in pixels for sharp screens."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(_for_file(spec), scale=scale))


@cache
def chart_script() -> str:
    """The JavaScript that draws specifications: Vega, Vega-Lite and Vega-Embed in one."""
    import vl_convert

    # The characters that could end the script element they are put into.
    return (
        str(vl_convert.javascript_bundle("window.vegaEmbed=vegaEmbed;"))
        .replace("</script", "<\\/script")
        .replace("<!--", "<\\!--")
    )


def _for_file(spec: Mapping[str, Any]) -> dict[str, Any]:
    light = dict(on_light(dict(spec)))
    light["width"] = FILE_WIDTH if light.get("width") == "container" else light.get("width", FILE_WIDTH)
    light["background"] = on_light(ink("card"))
    light["padding"] = 16
    return light


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
    # Checked against Altair's schema where the parts of the chart are checked too.
    whole = chart.properties(width="container", height=height)
    fields: dict[str, Any] = whole.to_dict(validate=schemapi.DEBUG_MODE)
    # Altair names a place on the web where its schema lies; nothing here is to name such a place.
    fields.pop("$schema", None)
    fields["config"] = theme()
    return fields
