"""The charts of a latency run: why words take so long, where in the utterance, and how long the machine works."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stopwav.report.chart import Chart
from stopwav.report.plain import plain
from stopwav.studies.latency.definitions import DEFINITIONS
from stopwav.studies.latency.positions_chart import positions_chart
from stopwav.studies.latency.spread_chart import ecdf_chart, histogram_chart
from stopwav.studies.latency.waterfall_chart import waterfall_chart

# In the order in which a chunk meets them; what an engine marks besides follows.
KNOWN = ("chunk_lag", "queue", "service", "features", "copy", "inference", "post", "other")
LONGEST_NAME = 40


def latency_charts(view: Mapping[str, Any]) -> dict[str, Chart]:
    """The charts by name, in the order in which a page shows them."""
    display = _display_names(view["engines"])
    names = list(display.values())
    view = _renamed(view, display)
    charts: dict[str, Chart] = {}
    if view["waterfall"]:
        charts["waterfall"] = waterfall_chart(view["waterfall"], names)
    if view["positions"]["points"]:
        charts["positions"] = positions_chart(view["positions"], names)
    by_quantity: dict[str, list[Mapping[str, Any]]] = {}
    for entry in view["distributions"]:
        by_quantity.setdefault(entry["quantity"], []).append(entry)
    for quantity in sorted(by_quantity, key=lambda name: KNOWN.index(name) if name in KNOWN else len(KNOWN)):
        title, entries = quantity_title(quantity), by_quantity[quantity]
        key = _key(quantity, charts)
        charts[f"histogram-{key}"] = histogram_chart(title, entries, names)
        charts[f"ecdf-{key}"] = ecdf_chart(title, entries, names)
    return charts


def _key(quantity: str, charts: Mapping[str, Chart]) -> str:
    """The quantity as part of a chart's name, fit for a file's; engines name their stages as they like."""
    key = re.sub(r"\W+", "_", quantity, flags=re.ASCII)[:LONGEST_NAME]
    return key if f"ecdf-{key}" not in charts else f"{key}-{len(charts)}"


def quantity_title(quantity: str) -> str:
    """What a distribution is of, as a heading."""
    known = DEFINITIONS.get(quantity) if quantity in KNOWN else None
    return known.title if known else f"stage {plain(quantity, LONGEST_NAME)}"


def _display_names(engines: Sequence[str]) -> dict[str, str]:
    """A name to show for each engine: harmless, short, and its own even where two begin alike."""
    shown: dict[str, str] = {}
    for engine in engines:
        name = plain(engine, LONGEST_NAME)
        shown[engine] = name if name not in shown.values() else f"{name} ({len(shown) + 1})"
    return shown


def _renamed(value: Any, display: Mapping[str, str]) -> Any:
    """The view with every engine under the name to show."""
    if isinstance(value, Mapping):
        return {key: display[one] if key == "engine" else _renamed(one, display) for key, one in value.items()}
    return [_renamed(one, display) for one in value] if isinstance(value, list) else value
