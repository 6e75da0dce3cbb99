"""The data of charts and timelines of a latency run: bins, quantiles, means and one timeline per utterance.

Everything is an aggregate or a sample drawn by a fixed rule, so that the page of a large corpus stays small and the
same run always gives the same page. Times are milliseconds where the name says so, else seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stopwav.speech.waterfall import WATERFALL
from stopwav.stats import minimum_count, nearest_rank
from stopwav.stats.intervals import rank
from stopwav.studies.engine_names import engine_names
from stopwav.studies.latency.results import engine_pieces, is_untrained
from stopwav.studies.latency.stream_table import stream_tables
from stopwav.studies.latency.timelines import short, timelines
from stopwav.studies.stream_table import StreamTable, Words
from stopwav.studies.study import StudyRun

# Bars of a histogram: narrower than a P50 mark's label, wide enough that 100 chunks still show a shape.
BINS = 40
# Corners of an ECDF: more than the pixels of a small chart can tell apart.
ECDF_CORNERS = 120
# A microsecond: about the resolution of a stage's clock. A logarithmic axis has an end; shorter times are drawn there.
FLOOR_MS = 1e-3
# Dots of the scatter, over all engines: enough to see the cloud, few enough to draw in an instant.
MOST_POINTS = 1200
# Groups along the utterance; the quartiles of fewer words than this say nothing.
POSITION_GROUPS, FEWEST_IN_GROUP = 12, 8


def latency_view(run: StudyRun) -> dict[str, Any]:
    """Return what the charts and timelines of a latency run show, as values that JSON can hold."""
    record = run.record
    names = engine_names(record.header.spec["engines"])
    by_engine = {name: engine_pieces(record, name) for name in names}
    tables = stream_tables(record)
    tables = {name: table.without_words() if is_untrained(by_engine[name]) else table for name, table in tables.items()}
    return {
        "engines": names,
        "distributions": _distributions(tables),
        "waterfall": [row for name in names for row in _waterfall(name, tables[name].words)],
        "positions": _positions(tables),
        **timelines(record, tables, by_engine),
    }


def _distributions(tables: Mapping[str, StreamTable]) -> list[dict[str, Any]]:
    """One entry per quantity and engine, the quantities in the order in which they occur in a chunk."""
    # What a server does with chunks is not known.
    samples = {
        name: dict(table.chunks.quantities())
        for name, table in tables.items()
        if table.network_s is None and table.chunks.audio_sizes.any()
    }
    entries = []
    for quantity in dict.fromkeys(quantity for by_quantity in samples.values() for quantity in by_quantity):
        values = {
            name: _sorted_ms(by_quantity[quantity]())
            for name, by_quantity in samples.items()
            if quantity in by_quantity
        }
        if any(ordered[-1] > FLOOR_MS for ordered in values.values()):
            edges = _edges(values.values())
            entries += [{"quantity": quantity, "engine": name, **_spread(a, edges)} for name, a in values.items()]
    return entries


def _sorted_ms(seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """The milliseconds of every chunk with audio, in rising order and in the place of the seconds."""
    seconds *= 1e3
    seconds.sort()
    return seconds


def _edges(samples: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The edges of bins that are equally wide on a logarithmic axis, the same for all engines."""
    positive = [ordered[np.searchsorted(ordered, FLOOR_MS, side="right") :] for ordered in samples]
    # The quickest thousandth would stretch the axis by decades for the sake of a few events.
    place = rank(0.001, sum(ordered.size for ordered in positive))
    quickest = np.sort(np.concatenate([ordered[:place] for ordered in positive]))[place - 1]
    longest = max(float(ordered[-1]) for ordered in positive if ordered.size)
    low = 10 ** (math.floor(4 * math.log10(quickest)) / 4)
    high = 10 ** (math.ceil(4 * math.log10(longest * 1.0001)) / 4)
    return np.geomspace(low, high, BINS + 1)


def _spread(ordered: NDArray[np.float64], edges: NDArray[np.float64]) -> dict[str, Any]:
    """Bins, ECDF and the percentiles that the sample supports; what is shorter than the axis is put at its end."""
    size = ordered.size
    places = np.searchsorted(ordered, edges, side="left")
    # No value is above the last edge.
    counts = np.diff([0, *places[1:-1], size])
    ranks = np.unique(np.linspace(1, size, min(size, ECDF_CORNERS)).round().astype(int))
    corners = np.clip(ordered[ranks - 1], edges[0], edges[-1])
    marks = {
        f"p{round(100 * p)}_ms": short(ordered[rank(p, size) - 1]) if size >= minimum_count(p) else None
        for p in (0.5, 0.95)
    }
    return {
        "n": size,
        "below_axis": int(places[0]),
        "edges_ms": [short(edge) for edge in edges],
        "shares": [short(count / size) for count in counts],
        "ecdf": [[short(corner), short(number / size)] for corner, number in zip(corners, ranks, strict=True)],
        **marks,
    }


def _waterfall(name: str, words: Words) -> list[dict[str, Any]]:
    """The mean of each part of word latency; the parts add up to mean word latency."""
    count = int(np.count_nonzero(words.shown))
    if not count:
        return []
    means = {part: 1e3 * float(words.parts[part].shown.sum()) / count for part in WATERFALL}
    return [{"engine": name, "part": part, "mean_ms": short(mean), "n": count} for part, mean in means.items()]


def _positions(tables: Mapping[str, StreamTable]) -> dict[str, Any]:
    """Word latency against the moment the word ends: quartiles in groups of equal length, and a sample of the words."""
    words = {name: _latencies(table.words) for name, table in tables.items()}
    longest_s = max((float(array[:, 0].max()) for array in words.values() if array.size), default=0.0)
    step_s = longest_s / POSITION_GROUPS or 1.0
    total = sum(len(array) for array in words.values())
    # Every k-th word in order of position: no seed, no clusters, the same dots each time.
    stride = max(1, math.ceil(total / MOST_POINTS))
    return {
        "total": total,
        "stride": stride,
        "groups": [group for name, array in words.items() for group in _groups(name, array, step_s)],
        "points": [
            {"engine": name, "at_s": short(at_s), "latency_s": short(latency_s)}
            for name, array in words.items()
            for at_s, latency_s in array[::stride]
        ],
    }


def _latencies(words: Words) -> NDArray[np.float64]:
    """Rows of (end of the word, its latency), in order of the former."""
    shown = words.shown
    # Complex numbers are sorted in their place, by their real parts first.
    rows = np.empty(np.count_nonzero(shown), dtype=complex)
    rows.real, rows.imag = words.end_s[shown], words.latency_s[shown]
    rows.sort()
    return rows.view(float).reshape(-1, 2)


def _groups(name: str, words: NDArray[np.float64], step_s: float) -> list[dict[str, Any]]:
    groups = []
    for index in range(POSITION_GROUPS):
        # The last group includes its upper end, where the last word is.
        above = words[:, 0] < (index + 1) * step_s if index < POSITION_GROUPS - 1 else True
        inside = words[(words[:, 0] >= index * step_s) & above, 1]
        if inside.size >= FEWEST_IN_GROUP:
            quartiles = {f"p{round(100 * p)}_s": short(nearest_rank(inside, p)) for p in (0.25, 0.5, 0.75)}
            groups.append({"engine": name, "at_s": short((index + 0.5) * step_s), "n": int(inside.size), **quartiles})
    return groups
