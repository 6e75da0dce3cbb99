"""A section of the page: one run, what it found, and what its study wants drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stopwav.record import Record, Result
from stopwav.report.charts import Chart


@dataclass(frozen=True)
class Section:
    """One run: its record, its results, and its study's view.

    A view holds bins, quantiles and timelines, what the settings gain that were tried, or a comparison's card.
    """

    record: Record
    results: Sequence[Result]
    view: Mapping[str, Any]


@dataclass(frozen=True)
class Part:
    """What a study puts on the page: findings, markup (escaped by its template), charts by element id, packed data."""

    findings: Sequence[str] = ()
    html: str = ""
    charts: Mapping[str, Chart] = field(default_factory=dict)
    blobs: Mapping[str, str] = field(default_factory=dict)
