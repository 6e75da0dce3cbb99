"""Hypotheses stated before a run, such as "a faster b", and their judgement by the verdicts of the run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stopwav.errors import StopwavError
from stopwav.stats.change import WORDS
from stopwav.studies.compare.verdicts import PairVerdict
from stopwav.studies.error_rates import CER, WER

Judgement = Literal["supported", "not supported", "undecided"]

# The words of a hypothesis: the metric that decides on it, and the verdict on the first engine against the second.
RELATIONS = {
    "faster": ("latency", "faster"),
    "slower": ("latency", "slower"),
    "smaller": ("parameters", "smaller"),
    "bigger": ("parameters", "bigger"),
    "more accurate": ("wer", "better"),
    "less accurate": ("wer", "worse"),
    "less energy": ("energy", "less"),
    "more energy": ("energy", "more"),
}
GRAMMAR = f"write ENGINE RELATION ENGINE [at N frames], with a RELATION of {', '.join(RELATIONS)}"
# Metrics that are known at each length as well.
_BY_LENGTH = ("latency", "energy")
_LENGTH = re.compile(r"\s+at\s+(\d+)\s+frames\s*$")


@dataclass(frozen=True)
class Expectation:
    """A parsed hypothesis: the first engine against the second, over all inputs or at one length in frames."""

    text: str
    first: str
    relation: str
    second: str
    frames: int | None = None


@dataclass(frozen=True)
class JudgedExpectation:
    """A hypothesis as it was stated, its judgement with the reason, and the verdict behind it, where there is one."""

    text: str
    judgement: Judgement
    reason: str
    verdict: PairVerdict | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as `--json` prints them."""
        return {
            "text": self.text,
            "judgement": self.judgement,
            "reason": self.reason,
            "verdict": None if self.verdict is None else self.verdict.to_json(),
        }


def parse_expectation(text: str, engines: Sequence[str], frames: Sequence[int]) -> Expectation:
    """Return the hypothesis that a text states about engines of the run; raise with the text and the grammar."""
    where = _LENGTH.search(text)
    length = None if where is None else int(where[1])
    readings = list(_readings(text if where is None else text[: where.start()]))
    if not readings:
        raise StopwavError(f"--expect {text!r}: not a hypothesis; {GRAMMAR}")
    first, relation, second = next(
        (reading for reading in readings if reading[0] in engines and reading[2] in engines), readings[0]
    )
    for name in (first, second):
        if name not in engines:
            known = ", ".join(engines)
            raise StopwavError(f"--expect {text!r}: {name!r} is not an engine of this run; there are {known}")
    if first == second:
        raise StopwavError(f"--expect {text!r}: an engine is compared with itself; name two")
    if length is not None and (length not in frames or RELATIONS[relation][0] not in _BY_LENGTH):
        raise StopwavError(
            f"--expect {text!r}: {relation!r} is not known at {length} frames; lengths are for faster, slower and "
            f"energy, and those of this run are {', '.join(map(str, frames))}"
        )
    return Expectation(text, first, relation, second, length)


def judge(expectation: Expectation, verdicts: Iterable[PairVerdict]) -> JudgedExpectation:
    """Return the judgement of a hypothesis; a verdict on b against a says the opposite of a against b."""
    metric, expected = RELATIONS[expectation.relation]
    pair = {expectation.first, expectation.second}
    verdict = next(
        (
            verdict
            for verdict in verdicts
            if {verdict.a, verdict.b} == pair
            and verdict.frames == expectation.frames
            and _family(verdict.change.metric) == metric
        ),
        None,
    )
    if verdict is None:
        return JudgedExpectation(expectation.text, "undecided", "nothing was measured that decides")
    change = verdict.change
    word = change.verdict if verdict.b == expectation.first else _opposite(change.verdict)
    if word == "undecided":
        return JudgedExpectation(expectation.text, "undecided", change.note or "the interval is too wide", verdict)
    judgement: Judgement = "supported" if word == expected else "not supported"
    reason = f"{_phrase(word, metric)}, {_amount(verdict, expectation)}"
    return JudgedExpectation(expectation.text, judgement, reason, verdict)


def _opposite(verdict: str) -> str:
    """Return the verdict on a against b, from that on b against a."""
    opposites = {word: other for words in WORDS.values() for word, other in (words, words[::-1])}
    return opposites.get(verdict, verdict)


def _family(metric: str) -> str:
    return WER if metric == CER else metric.partition("_")[0]


def _phrase(verdict: str, metric: str) -> str:
    """The verdict in the words of a hypothesis."""
    phrases = {word: relation for relation, (family, word) in RELATIONS.items() if family == metric}
    return phrases.get(verdict, verdict)


def _amount(verdict: PairVerdict, expectation: Expectation) -> str:
    """By how much the first engine differs from the second."""
    value, reversed_ = verdict.change.value or 0.0, verdict.b != expectation.first
    if verdict.change.by == "difference":
        return f"by {100 * (-value if reversed_ else value):+.1f} points"
    times = 1 / value if reversed_ and value else value
    return f"{times:.3g} times" if times < 999.5 else f"{times:.0f} times"


def _readings(text: str) -> Iterable[tuple[str, str, str]]:
    """Every way to read the text as two names with a relation between them."""
    for relation in RELATIONS:
        for match in re.finditer(rf"\s+{relation}\s+(?:than\s+)?", text):
            yield text[: match.start()].strip(), relation, text[match.end() :].strip()
