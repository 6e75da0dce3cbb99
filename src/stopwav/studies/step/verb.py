"""The verb `stopwav step`: how much of the tree it shows, and what it takes the frames of a file for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stopwav.cli.options import Labels, Unfold
from stopwav.errors import StopwavError
from stopwav.studies.step.job import is_reference
from stopwav.studies.study import Verb


def _prepare(settings: dict[str, Any], given: Sequence[str]) -> dict[str, Any]:
    if settings["unfold"] and settings["labels"] is not None:
        raise StopwavError("--unfold and --labels: a label belongs to all of its layers; give one of them")
    if "shapes" in given and "frames" not in given and is_reference(settings["model"]):
        _print_guess(settings)
    return settings


def _print_guess(settings: dict[str, Any]) -> None:
    """Say it before minutes are spent on steps that are four times too long."""
    import sys

    from stopwav.speech.shapes import load_shapes

    names = ("tokenizer", "subsampling", "seed")
    shapes = load_shapes(settings["shapes"], **{name: settings[name] for name in names})
    if shapes.guess:
        print(f"stopwav: {shapes.name}: {shapes.guess}", file=sys.stderr)


VERB = Verb(options={"unfold": Unfold, "labels": Labels}, prepare=_prepare)
