"""Engines whose weights were never trained: their times mean something, and whatever rests on their texts does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stopwav.record import UNTRAINED, Piece
from stopwav.stats import Estimate

# How the names begin of what depends on which words were recognised, and when the model chose to write them.
_OF_TEXT = (
    "word",
    "stabilisation",
    "committed_latency",
    "waterfall",
    "share",
    "first_word_latency",
    "wer",
    "upwr",
    "normalised_erasure",
)
_LAGGING = {"al", "laal", "dal", "al_ca", "laal_ca", "dal_ca"}


def is_untrained(pieces: Sequence[Piece]) -> bool:
    """Whether an engine says that its weights are random; runs from before there was that word are of trained ones."""
    loads = (piece.data for piece in pieces if piece.key[0] == "load")
    return any(data.get("engine", {}).get("untrained", False) for data in loads)


def without_text(metrics: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """The metrics, those that rest on texts without a value and with the reason."""
    return {name: _nothing(one) if rests_on_text(name) else one for name, one in metrics.items()}


def rests_on_text(metric: str) -> bool:
    """Whether a metric would be another with other words."""
    return metric.startswith(_OF_TEXT) or metric in _LAGGING


def _nothing(estimate: Estimate) -> Estimate:
    return replace(estimate, value=None, low=None, high=None, n=0, note=UNTRAINED)
