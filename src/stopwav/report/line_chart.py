"""A line chart as inline SVG: a line per series over time, a marker per point that says its number and links on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

# Room for a scale of six characters at the left and a date below.
WIDTH, HEIGHT = 720, 240
LEFT, RIGHT, TOP, BOTTOM = 70, 18, 12, 34
# Lines are told apart without colour too: by dashes where there are several engines, by markers for machines.
DASHES = ("", "7 3", "2 3", "9 3 2 3", "1 5", "12 4")
# Corners of the markers, around the point; the first is a circle.
MARKERS = ("", "-5,-5 5,-5 5,5 -5,5", "0,-7 7,0 0,7 -7,0", "0,-6 6,5 -6,5", "0,6 6,-5 -6,-5")
COLOURS = 6
TICKS = 4
DAY_S = 86_400


@dataclass(frozen=True)
class Point:
    """A value at a time (seconds since 1970), its interval where there is one, its description, and where it leads."""

    time_s: float
    value: float
    low: float | None
    high: float | None
    text: str
    href: str | None


@dataclass(frozen=True)
class Series:
    """Points that may be joined by a line, with the number of its colour and of its marker."""

    colour: int
    marker: int
    points: Sequence[Point]


def line_chart(title: str, unit: str, series: Sequence[Series]) -> str:
    """The chart as an SVG element that a screen reader can read; it begins at 0, lest noise look like a trend."""
    points = [point for one in series for point in one.points]
    ends = [end for point in points for end in (point.value, point.low, point.high) if end is not None]
    ticks = _ticks(min(0.0, *ends), max(0.0, *ends))
    times = [point.time_s for point in points]
    axes = _Axes(min(times), max(times), ticks[0], ticks[-1])
    parts = [*_scale(axes, ticks, unit), *_dates(axes)]
    for one in series:
        parts += _line(axes, one)
    name = escape(f"{title}: {len(points)} points over time")
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="group" aria-label="{name}" xmlns="http://www.w3.org/2000/svg">'
        f"{''.join(parts)}</svg>"
    )


@dataclass(frozen=True)
class _Axes:
    first_s: float
    last_s: float
    bottom: float
    top: float

    def x(self, time_s: float) -> float:
        # A single moment stands in the middle.
        share = (time_s - self.first_s) / (self.last_s - self.first_s) if self.last_s > self.first_s else 0.5
        return round(LEFT + 10 + share * (WIDTH - LEFT - RIGHT - 20), 1)

    def y(self, value: float) -> float:
        share = (value - self.bottom) / (self.top - self.bottom)
        return round(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM), 1)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers, evenly spaced, from at most `low` to at least `high`."""
    # Where all are zero, or as good as, any scale will do.
    high = high if high - low > 1e-12 else low + 1.0
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return [index * step for index in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _scale(axes: _Axes, ticks: Sequence[float], unit: str) -> Iterator[str]:
    for tick in ticks:
        y = axes.y(tick)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{tick:.4g}</text>'
    middle = (TOP + HEIGHT - BOTTOM) // 2
    yield f'<text transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">{escape(unit)}</text>'


def _dates(axes: _Axes) -> Iterator[str]:
    span_s = axes.last_s - axes.first_s
    form = "%Y-%m-%d" if span_s > 2 * DAY_S else "%m-%d %H:%M"
    shares = (0.0, 1 / 3, 2 / 3, 1.0) if span_s > 0 else (0.0,)
    for share in shares:
        time_s = axes.first_s + share * span_s
        anchor = "middle" if 0 < share < 1 or span_s == 0 else "start" if share == 0 else "end"
        date = datetime.fromtimestamp(time_s, UTC).strftime(form)
        yield f'<text x="{axes.x(time_s)}" y="{HEIGHT - 10}" text-anchor="{anchor}">{date}</text>'


def _line(axes: _Axes, series: Series) -> Iterator[str]:
    colour = f"c{series.colour % COLOURS}"
    places = [(axes.x(point.time_s), axes.y(point.value)) for point in series.points]
    dash = DASHES[series.colour % len(DASHES)]
    path = " ".join(f"{x},{y}" for x, y in places)
    yield f'<polyline class="{colour}" points="{path}"{f" stroke-dasharray={chr(34)}{dash}{chr(34)}" if dash else ""}/>'
    # The number of the engine in the legend, for eyes and printers that see no colour.
    tag = f'<text aria-hidden="true" x="8" y="-6">{series.colour + 1}</text>'
    for point, (x, y) in zip(series.points, places, strict=True):
        if point.low is not None and point.high is not None:
            low, high = axes.y(point.low), axes.y(point.high)
            yield f'<line class="{colour} whisker" x1="{x}" x2="{x}" y1="{low}" y2="{high}"/>'
        mark = f'<g class="{colour} mark" transform="translate({x} {y})">{marker(series.marker)}{tag}</g>'
        text = escape(point.text)
        if point.href is None:
            yield f'<g role="img" aria-label="{text}"><title>{text}</title>{mark}</g>'
        else:
            yield f'<a href="{escape(point.href)}" aria-label="{text}"><title>{text}</title>{mark}</a>'


def marker(number: int) -> str:
    """The shape of a marker, around the origin."""
    corners = MARKERS[number % len(MARKERS)]
    return f'<polygon points="{corners}"/>' if corners else '<circle r="5"/>'
