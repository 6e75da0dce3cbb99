"""The meaning of a metric and how it is shown: declared once, read by tables, pages, diff, history and docs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Definition:
    """A metric: its title, the unit it is stored in ("" for a plain ratio), and its meaning in a sentence."""

    title: str
    unit: str
    text: str
    # Whether it comes as `NAME_p50`, `NAME_p90`, … and not as `NAME` itself.
    percentiles: bool = False
    # What the stored value is multiplied by where it is shown in a table, and the most decimals it has there.
    scale: float = 1.0
    decimals: int = 2
    # Whether it rests on the recognised text, so that an untrained model has none.
    rests_on_text: bool = False
    # The heading of its column where runs are compared side by side; "" where it is none of those.
    headline: str = ""


def seconds(title: str, text: str) -> Definition:
    """Return the definition of a metric that is a time."""
    return Definition(title, "s", text)


def ratio(title: str, text: str) -> Definition:
    """Return the definition of a metric without a unit."""
    return Definition(title, "", text)


def size(title: str, text: str) -> Definition:
    """Return the definition of a metric in bytes."""
    return Definition(title, "B", text)


_PERCENTILE = re.compile(r"(?P<family>\w+)_p(?P<percent>\d\d)")


@dataclass(frozen=True)
class Definitions:
    """The metrics of a study by heading, in the order in which a reader meets them."""

    groups: Mapping[str, Mapping[str, Definition]]
    # The definition of a metric that is not listed by name, such as one that an engine names itself.
    derive: Callable[[str], Definition | None] = lambda metric: None

    def find(self, metric: str) -> Definition | None:
        """Return the definition of a metric by its name in a result, percentile suffix and all."""
        percentile = _PERCENTILE.fullmatch(metric)
        if percentile is None:
            known = self._named(metric)
            return None if known is None or known.percentiles else known
        family = self._named(percentile["family"])
        if family is None or not family.percentiles:
            return None
        return replace(family, title=f"{family.title}, P{percentile['percent']}")

    def short_title(self, metric: str) -> str:
        """Return the metric's title without its abbreviation, for where it has to fit a line."""
        known = self.find(metric)
        return metric if known is None else re.sub(r" \(\w+\)", "", known.title).replace(", P", " P")

    def headlines(self) -> list[tuple[str, Definition]]:
        """Return the metrics that runs are compared by on a page of several."""
        return [
            (name, definition)
            for group in self.groups.values()
            for name, definition in group.items()
            if definition.headline
        ]

    def _named(self, metric: str) -> Definition | None:
        listed = (group[metric] for group in self.groups.values() if metric in group)
        return next(listed, None) or self.derive(metric)
