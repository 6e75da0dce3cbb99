"""A chart: one Vega-Lite specification for the page and for files, with a colour, a dash and a shape per engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import altair as alt
from altair.utils import schemapi

from stopwav.errors import StopwavError
from stopwav.report.axis import end_at_ticks

# Width of a chart in a file; in a page it takes that of its column.
FILE_WIDTH = 640
# A number in d3's notation, of tooltips.
VALUES = ",.3~r"
# The JavaScript engine that draws charts for files reserves 64 GiB of addresses, and aborts the process without them;
# it only takes this much where it bundles the scripts of a page.
DRAWING_BYTES, BUNDLING_BYTES = 72e9, 1e9
# Where SVG names one of its parts, and where it refers to it.
_SVG_ID = re.compile(r'(\bid="|url\(#|href="#)')
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
    # Of interest to few: a page shows it on demand.
    folded: bool = False


def theme() -> dict[str, Any]:
    """The look that all charts share."""
    quiet = {"domain": False, "ticks": False, "labelPadding": 8, "titlePadding": 12, "gridDash": [2, 3]}
    text = {"labelColor": ink("muted"), "titleColor": ink("muted"), "labelFontSize": 12, "titleFontSize": 12}
    # Labels that would touch are left out; the outermost stay at their ticks, and do not move over their neighbours.
    apart = {"labelOverlap": "greedy", "labelSeparation": 8, "labelFlush": False}
    return {
        "background": "transparent",
        "font": FONT,
        # A screen reader gets the description, not hundreds of marks one by one.
        "aria": False,
        "view": {"stroke": None},
        "axis": {**quiet, **text, **apart, "gridColor": ink("line"), "titleFontWeight": "normal"},
        # Two names of that length fit the width of a file.
        "legend": {**text, "orient": "bottom", "title": None, "labelLimit": 240, "columns": 2},
    }


def chart_svg(spec: Mapping[str, Any]) -> str:
    """The chart as SVG text, on light ground."""
    return str(_renderer().vegalite_to_svg(_for_file(spec)))


def chart_png(spec: Mapping[str, Any], scale: float = 2.0) -> bytes:
    """The chart as a PNG image, on light ground, at twice the size in pixels for sharp screens."""
    return bytes(_renderer().vegalite_to_png(_for_file(spec), scale=scale))


def chart_drawing(spec: Mapping[str, Any], prefix: str) -> str:
    """The chart as an SVG element in the palette of a page, without its legend; `prefix` makes its ids unique there."""
    drawn = {**_encodable(dict(spec)), "width": FILE_WIDTH}
    drawn["config"] = {**drawn["config"], "legend": {"disable": True}}
    return _SVG_ID.sub(rf"\g<1>{prefix}", str(_renderer().vegalite_to_svg(drawn)))


def altair_chart(chart: Chart) -> Any:
    """The chart as an object of Altair, on light ground."""
    return alt.Chart.from_dict({**_for_file(chart.spec), "title": chart.title})


def _renderer(address_space_bytes: float = DRAWING_BYTES) -> Any:
    """Return what draws charts; raise where it would end the process for lack of address space."""
    import resource

    limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit_bytes != resource.RLIM_INFINITY and limit_bytes < address_space_bytes:
        raise StopwavError(
            f"charts need an address space of {address_space_bytes / 1e9:.3g} GB, and this process has "
            f"{limit_bytes / 1e9:.3g} GB; lift its limit with `ulimit -v unlimited`"
        )
    import vl_convert

    return vl_convert


@cache
def chart_script() -> str:
    """The JavaScript that draws specifications: Vega, Vega-Lite and Vega-Embed in one."""
    # The characters that could end the script element they are put into.
    return (
        str(_renderer(BUNDLING_BYTES).javascript_bundle("window.vegaEmbed=vegaEmbed;"))
        .replace("</script", "<\\/script")
        .replace("<!--", "<\\!--")
    )


def _for_file(spec: Mapping[str, Any]) -> dict[str, Any]:
    light = dict(_encodable(on_light(dict(spec))))
    light["width"] = FILE_WIDTH if light.get("width") == "container" else light.get("width", FILE_WIDTH)
    light["background"] = on_light(ink("card"))
    light["padding"] = 16
    return light


def _encodable(spec: Any) -> Any:
    """The specification with a question mark for each lone surrogate of a name, which the renderer would refuse."""
    if isinstance(spec, str):
        return spec.encode("utf-8", "replace").decode()
    if isinstance(spec, dict):
        return {_encodable(key): _encodable(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [_encodable(value) for value in spec]
    return spec


def chart_of(rows: Sequence[Mapping[str, Any]]) -> alt.Chart:
    """A chart of rows that stand in the specification itself."""
    # Altair copies what lists hold with every part of a chart that is put together, but not what tuples hold.
    return alt.Chart(alt.InlineData(values=tuple(rows)))


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
    fields["datasets"] = {name: list(rows) for name, rows in fields.get("datasets", {}).items()}
    fields["config"] = theme()
    end_at_ticks(fields)
    _check_colours(fields)
    return fields


def _check_colours(spec: Any) -> None:
    """Raise where a colour follows a quantity: Vega would mix CSS variables, which it cannot, and draw black.

    Let the opacity of one colour follow it instead.
    """
    if isinstance(spec, list):
        for part in spec:
            _check_colours(part)
    if isinstance(spec, dict):
        for key, part in spec.items():
            quantity = isinstance(part, dict) and part.get("type") == "quantitative"
            if key in ("color", "fill", "stroke") and quantity:
                raise ValueError(f"{key} follows the quantity {part.get('field')!r}; let an opacity follow it")
            if key != "datasets":
                _check_colours(part)


# Name: (on light ground, on dark ground). Text colours have a contrast of at least 4.5 : 1 on `paper` and on `card`.
COLOURS: dict[str, tuple[str, str]] = {
    "paper": ("#f7f7f5", "#121518"),
    "card": ("#ffffff", "#1a1e22"),
    "ink": ("#1b2026", "#e9ecef"),
    "muted": ("#58616b", "#a7b0b9"),
    "line": ("#dcdfe2", "#343b42"),
    "accent": ("#0b5c97", "#7fc1f5"),
    "wash": ("#eaf2f9", "#1d2c39"),
    "caution": ("#7a4a00", "#f2c46d"),
    "caution-wash": ("#fdf3df", "#33290f"),
    # Engines, after Okabe and Ito: told apart with any kind of colour vision, and by dash and shape besides.
    "engine-0": ("#0b6bb0", "#6cb8f0"),
    "engine-1": ("#c2500a", "#f5975a"),
    "engine-2": ("#0b7f5f", "#4cc9a4"),
    "engine-3": ("#a4417f", "#e59ac6"),
    "engine-4": ("#836500", "#e3c14b"),
    "engine-5": ("#5a4bb0", "#b1a6f5"),
    "engine-6": ("#5c6670", "#b6bec6"),
    "engine-7": ("#7a3b1d", "#d3a68c"),
    "engine-8": ("#007a87", "#5fc6d6"),
    "engine-9": ("#b3263e", "#f58a9b"),
    "engine-10": ("#4b7010", "#a9cf5f"),
    "engine-11": ("#8a2fa8", "#dc9bf2"),
    # Why a word takes so long: waiting for audio is blue, queueing yellow, computing orange.
    "part-buffering": ("#0b4f86", "#3580c2"),
    "part-lookahead": ("#3f86bd", "#74b3e3"),
    "part-emission": ("#93c1e4", "#b9dbf5"),
    "part-queue": ("#dfae22", "#f2cb52"),
    "part-features": ("#75290d", "#a84a1e"),
    "part-copy": ("#a2451a", "#cb6631"),
    "part-inference": ("#cf6a31", "#ea8c53"),
    "part-post": ("#e5a077", "#f5b991"),
    "part-other": ("#f1cdb6", "#fbdfcd"),
    "part-network": ("#8f8a9e", "#aaa5ba"),
    "part-server": ("#b5553c", "#e08468"),
}

# More in one run are told apart by dash and shape alone.
ENGINE_COLOURS = 12
DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3])
SHAPES = ("circle", "square", "triangle-up", "diamond")

_VARIABLE = re.compile(r"var\(--([a-z0-9-]+)\)")


def ink(name: str) -> str:
    """The colour of that name as CSS writes it."""
    if name not in COLOURS:
        raise ValueError(f"{name!r} is no colour of the palette")
    return f"var(--{name})"


def engine_ink(index: int) -> str:
    """The colour of the engine at that place of the run, the same in every chart."""
    return ink(f"engine-{index % ENGINE_COLOURS}")


def css_variables() -> str:
    """The palette as CSS: one declaration a colour, for both grounds."""
    return "\n".join(f"  --{name}: light-dark({light}, {dark});" for name, (light, dark) in COLOURS.items())


def on_light(spec: Any) -> Any:
    """The specification with every named colour replaced by the one for light ground."""
    if isinstance(spec, str):
        return _VARIABLE.sub(lambda match: COLOURS[match[1]][0], spec)
    if isinstance(spec, dict):
        return {key: on_light(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [on_light(value) for value in spec]
    return spec
