"""What settings gain over a base: each one's changes, and the settings ranked by what they do to the wait."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from stopwav.stats.change import Change


@dataclass(frozen=True)
class Gain:
    """One setting against the base: the wait it changes, what of that is the algorithm's, and what else it changes.

    `algorithmic_s` follows from the setting and has no interval. `felt` is the change of what a listener feels.
    """

    setting: str
    algorithmic_s: float
    felt: Change
    lag_p95: Change
    lag_p50: Change
    wer: Change

    @property
    def felt_s(self) -> float | None:
        """Seconds by which the wait is longer than the base's; below zero is a gain."""
        return None if self.felt.a is None or self.felt.b is None else self.felt.b - self.felt.a

    def to_json(self) -> dict[str, Any]:
        """The fields as `--json` prints them."""
        changes = {"felt": self.felt, "lag_p95": self.lag_p95, "lag_p50": self.lag_p50, "wer": self.wer}
        return {
            "setting": self.setting,
            "algorithmic_s": self.algorithmic_s,
            "felt_s": self.felt_s,
            **{name: change.to_json() for name, change in changes.items()},
        }


@dataclass(frozen=True)
class Explanation:
    """What would help an engine: the settings that were tried, the best first, and those that were not, with reasons.

    `felt` names the metric that they are ranked by.
    """

    base: str
    felt: str
    gains: tuple[Gain, ...]
    left_out: tuple[tuple[str, str], ...]

    def to_json(self) -> dict[str, Any]:
        """The explanation as `--json` prints it."""
        return {
            "base": self.base,
            "felt": self.felt,
            "gains": [gain.to_json() for gain in self.gains],
            "left_out": [{"setting": setting, "reason": reason} for setting, reason in self.left_out],
        }


def ranked(gains: Iterable[Gain]) -> tuple[Gain, ...]:
    """The gains by what a listener feels: those that are shown to help, those that are not, those that hurt."""
    tiers = {"faster": 0, "slower": 2}
    return tuple(sorted(gains, key=lambda gain: (tiers.get(gain.felt.verdict, 1), gain.felt_s or 0.0)))
