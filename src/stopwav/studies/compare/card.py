"""The card of a comparison: a verdict per pair and metric, the Pareto set, and what was expected before the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from stopwav.stats.change import Change

Judgement = Literal["supported", "not supported", "undecided"]


@dataclass(frozen=True)
class PairVerdict:
    """What is known of b against a in one metric; over all inputs, or at one length in frames."""

    a: str
    b: str
    change: Change
    frames: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields as `--json` prints them."""
        return {"of": self.b, "against": self.a, "frames": self.frames, **self.change.to_json()}


@dataclass(frozen=True)
class Pareto:
    """Who is not shown to be beaten on the axes, which are names of metrics; and who could not be placed, and why."""

    axes: tuple[str, ...]
    members: tuple[str, ...]
    beaten: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The fields as `--json` prints them."""
        return {
            "axes": list(self.axes),
            "members": list(self.members),
            "beaten": list(self.beaten),
            "left_out": [{"name": name, "reason": reason} for name, reason in self.left_out],
        }


@dataclass(frozen=True)
class Judged:
    """A hypothesis as it was stated, what the run says of it, and the verdict that says so, where there is one."""

    text: str
    judgement: Judgement
    reason: str
    verdict: PairVerdict | None = None

    def to_json(self) -> dict[str, Any]:
        """The fields as `--json` prints them."""
        return {
            "text": self.text,
            "judgement": self.judgement,
            "reason": self.reason,
            "verdict": None if self.verdict is None else self.verdict.to_json(),
        }


@dataclass(frozen=True)
class Card:
    """All that a comparison decides: over all inputs, at each length, and what follows.

    `verdicts` have one confidence of 95 % together, and so have `by_length`.
    """

    engines: tuple[str, ...]
    verdicts: tuple[PairVerdict, ...]
    by_length: tuple[PairVerdict, ...]
    pareto: Pareto
    expectations: tuple[Judged, ...]

    def to_json(self) -> dict[str, Any]:
        """The card as `--json` prints it."""
        return {
            "engines": list(self.engines),
            "verdicts": [one.to_json() for one in self.verdicts],
            "by_length": [one.to_json() for one in self.by_length],
            "pareto": self.pareto.to_json(),
            "expectations": [one.to_json() for one in self.expectations],
        }
