"""Hypotheses stated before a run, such as "a faster b", and what the verdicts of the run say of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stopwav.errors import StopwavError
from stopwav.stats.change import WORDS
from stopwav.studies.compare.card import Judged, Judgement, PairVerdict

# From the words of a hypothesis to the metric that decides on it, and the verdict on the first against the second.
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
    """A hypothesis, taken apart: the first engine against the second, over all inputs or at one length in frames."""

    text: str
    first: str
    relation: str
    second: str
    frames: int | None = None


def parse_expectation(text: str, engines: Sequence[str], frames: Sequence[int]) -> Expectation:
    """The hypothesis that a text states about engines of the run; raises with the text and the grammar."""
    where = _LENGTH.search(text)
    length = None if where is None else int(where[1])
    sides = list(_sides(text if where is None else text[: where.start()]))
    if not sides:
        raise StopwavError(f"--expect {text!r}: no hypothesis; {GRAMMAR}")
    first, relation, second = next((one for one in sides if one[0] in engines and one[2] in engines), sides[0])
    for name in (first, second):
        if name not in engines:
            raise StopwavError(f"--expect {text!r}: {name!r} is no engine of this run; there are {', '.join(engines)}")
    if first == second:
        raise StopwavError(f"--expect {text!r}: an engine is compared with itself; name two")
    if length is not None and (length not in frames or RELATIONS[relation][0] not in _BY_LENGTH):
        raise StopwavError(
            f"--expect {text!r}: {relation!r} is not known at {length} frames; lengths are for faster, slower and "
            f"energy, and those of this run are {', '.join(map(str, frames))}"
        )
    return Expectation(text, first, relation, second, length)


def judge(expectation: Expectation, verdicts: Iterable[PairVerdict]) -> Judged:
    """What the verdicts say of the hypothesis; a verdict on b against a says the opposite of a against b."""
    metric, wanted = RELATIONS[expectation.relation]
    asked = {expectation.first, expectation.second}
    found = next(
        (
            one
            for one in verdicts
            if {one.a, one.b} == asked and one.frames == expectation.frames and _family(one.change.metric) == metric
        ),
        None,
    )
    if found is None:
        return Judged(expectation.text, "undecided", "nothing was measured that decides")
    said = found.change.verdict if found.b == expectation.first else opposite(found.change.verdict)
    if said == "undecided":
        return Judged(expectation.text, "undecided", found.change.note or "the interval is too wide", found)
    judgement: Judgement = "supported" if said == wanted else "not supported"
    return Judged(expectation.text, judgement, f"{_phrase(said, metric)}, {_by(found, expectation)}", found)


def opposite(verdict: str) -> str:
    """The verdict on a against b, from that on b against a."""
    turned = {one: other for words in WORDS.values() for one, other in (words, words[::-1])}
    return turned.get(verdict, verdict)


def _family(metric: str) -> str:
    return metric.partition("_")[0]


def _phrase(verdict: str, metric: str) -> str:
    """The verdict as a hypothesis would say it."""
    words = {said: relation for relation, (family, said) in RELATIONS.items() if family == metric}
    return words.get(verdict, verdict)


def _by(verdict: PairVerdict, expectation: Expectation) -> str:
    """By how much the first engine differs from the second."""
    value, turned = verdict.change.value or 0.0, verdict.b != expectation.first
    if verdict.change.by == "difference":
        return f"by {100 * (-value if turned else value):+.1f} points"
    return f"{1 / value if turned and value else value:.3g} times"


def _sides(text: str) -> Iterable[tuple[str, str, str]]:
    """Every way to read the text as two names with a relation between them."""
    for relation in RELATIONS:
        for found in re.finditer(rf"\s+{relation}\s+(?:than\s+)?", text):
            yield text[: found.start()].strip(), relation, text[found.end() :].strip()
