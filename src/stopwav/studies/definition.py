"""The meaning of a metric and how it is shown: declared once, read by tables, pages, diff, history and docs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from stopwav.record import NO_TRANSCRIPT


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
    # What it depends on: the recognised text (an untrained model has none), the times of the reference words, the
    # transcript (as word times do, too), and how fast the machine was.
    rests_on_text: bool = False
    rests_on_word_times: bool = False
    rests_on_transcript: bool = False
    rests_on_speed: bool = True
    # The heading of its column where runs are compared side by side; "" where it is none of those. One that comes as
    # percentiles has a column for each of these, whose number stands in place of `{p}`.
    headline: str = ""
    headline_percentiles: tuple[int, ...] = ()

    @property
    def needs_transcript(self) -> bool:
        """Whether an utterance without a transcript has no value of it."""
        return self.rests_on_transcript or self.rests_on_word_times


def seconds(title: str, text: str) -> Definition:
    """Return the definition of a metric that is a time."""
    return Definition(title, "s", text)


def ratio(title: str, text: str) -> Definition:
    """Return the definition of a metric without a unit."""
    return Definition(title, "", text)


def size(title: str, text: str) -> Definition:
    """Return the definition of a metric in bytes."""
    return Definition(title, "B", text, rests_on_speed=False)


def _error_rate(title: str, text: str, headline: str = "") -> Definition:
    return Definition(
        title,
        "",
        text,
        scale=100.0,
        rests_on_text=True,
        rests_on_transcript=True,
        rests_on_speed=False,
        headline=headline,
    )


_ERRORS = "Σ (substitutions + deletions + insertions) / Σ reference"
_PART = "Σ {0} words / Σ reference words, a part of WER; characters where a language is written without spaces."
ERROR_RATES = {
    "wer": _error_rate("word error rate (WER)", f"{_ERRORS} words, of the final text, after normalisation.", "WER, %"),
    "cer": _error_rate(
        "character error rate (CER)",
        f"{_ERRORS} characters, of the final text, after normalisation; the one space between two words is a "
        "character, and where a language is written without spaces, none is.",
        "CER, %",
    ),
    "substitution_rate": _error_rate("substituted words", _PART.format("substituted")),
    "deletion_rate": _error_rate("deleted words", _PART.format("deleted")),
    "insertion_rate": _error_rate("inserted words", _PART.format("inserted")),
}
# Rows of the page, where there is room.
PARTS_OF_WER = ("substitution_rate", "deletion_rate", "insertion_rate")
# The code of a word error rate that is none, because a language has no spaces between words, and its note.
NO_SPACES, NO_WORDS = "no-spaces", "no spaces: see CER"

# The code of the warning that an engine recognises another language than the corpus is in.
OTHER_LANGUAGE = "other-language"
# Warnings about the times of the reference words, and those about the run as a whole or its streams, which touch every
# number. All other warnings are about how fast the machine was.
_WORD_TIME_CODES = ("guessed-pronunciation", "no-word-times", "guessed-word-times", "no-aligner")
_GENERAL_CODES = ("stream-", "corpus", "engine", "incomplete", "rounds-failed")

_PERCENTILE = re.compile(r"(?P<family>\w+)_p(?P<percent>\d\d)")


@dataclass(frozen=True)
class Definitions:
    """The metrics of a study by heading, in the order in which a reader meets them."""

    groups: Mapping[str, Mapping[str, Definition]]
    # The definition of a metric that is not listed by name, such as one that an engine names itself.
    derive: Callable[[str], Definition | None] = lambda metric: None

    def find(self, metric: str) -> Definition | None:
        """Return the definition of a metric by its name in a result, percentile suffix and all."""
        listed = self._listed(metric)
        percentile = _PERCENTILE.fullmatch(metric) if listed is None else None
        if percentile is None:
            known = listed or self.derive(metric)
            return None if known is None or known.percentiles else known
        family = self._listed(percentile["family"]) or self.derive(percentile["family"])
        if family is None or not family.percentiles:
            return None
        return replace(family, title=f"{family.title}, P{percentile['percent']}")

    def explain(self, metric: str) -> tuple[str, str] | None:
        """Return the title and the meaning of a metric."""
        known = self.find(metric)
        return None if known is None else (known.title, known.text)

    def short_title(self, metric: str) -> str:
        """Return the metric's title without what it has in brackets, for where it has to fit a line."""
        known = self.find(metric)
        return metric if known is None else re.sub(r" \([^)]*\)", "", known.title).replace(", P", " P")

    def headlines(self) -> list[tuple[str, Definition]]:
        """Return the metrics that runs are compared by on a page of several."""
        listed = [pair for group in self.groups.values() for pair in group.items() if pair[1].headline]
        headlines = []
        for name, definition in listed:
            if not definition.percentiles:
                headlines.append((name, definition))
            for percent in definition.headline_percentiles:
                heading = definition.headline.format(p=percent)
                headlines.append((f"{name}_p{percent}", replace(definition, headline=heading)))
        return headlines

    def doubts(self, code: str, metric: str) -> bool:
        """Whether a warning of that code casts doubt on a metric."""
        definition = self.find(metric) or Definition(metric, "", "")
        if code in _WORD_TIME_CODES:
            return definition.rests_on_word_times
        if code == NO_TRANSCRIPT:
            return definition.needs_transcript
        if code == OTHER_LANGUAGE:
            return definition.rests_on_text
        return code.startswith(_GENERAL_CODES) or definition.rests_on_speed

    def _listed(self, metric: str) -> Definition | None:
        return next((group[metric] for group in self.groups.values() if metric in group), None)
