"""The verb `stopwav step`: how much of the tree it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stopwav.cli.options import Labels, Unfold
from stopwav.errors import StopwavError
from stopwav.studies.study import Verb


def _prepare(settings: dict[str, Any], given: Sequence[str]) -> dict[str, Any]:
    if settings["unfold"] and settings["labels"] is not None:
        raise StopwavError("--unfold and --labels: a label belongs to all of its layers; give one of them")
    return settings


VERB = Verb(options={"unfold": Unfold, "labels": Labels}, prepare=_prepare)
