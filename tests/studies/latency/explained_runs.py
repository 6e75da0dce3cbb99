"""Runs of `--explain` that were never measured: what each setting changes is planted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from synthetic_runs import synthetic_run

from stopwav.record import Record

BASE = "engine"


def explained_run(
    settings: Mapping[str, Mapping[str, Any]],
    *,
    rounds: int = 5,
    untrained: bool = False,
    unavailable: Mapping[str, str] | None = None,
    base: Mapping[str, Any] | None = None,
    path: Path = Path("explained.jsonl"),
) -> Record:
    """A run of an engine and of each setting; a setting says how `synthetic_run` makes it, the seed included."""
    fields = {setting: f"{BASE},{setting}" for setting in settings}
    runs = [synthetic_run(names=[BASE], rounds=rounds, **{"seed": 1, **(base or {})})]
    runs += [
        synthetic_run(names=[fields[setting]], rounds=rounds, **{"seed": 2 + index, **planted})
        for index, (setting, planted) in enumerate(settings.items())
    ]
    pieces = [piece for run in runs for piece in run.pieces]
    for piece in pieces:
        if piece.key[0] == "load":
            piece.data["engine"]["untrained"] = untrained
    knobs: list[dict[str, Any]] = [
        {"setting": setting, "engine": engine, "unavailable": ""} for setting, engine in fields.items()
    ]
    knobs += [{"setting": one, "engine": None, "unavailable": why} for one, why in (unavailable or {}).items()]
    header = runs[0].header
    header.spec |= {"engines": [BASE, *fields.values()], "knobs": knobs}
    return Record(path, header, pieces, complete=True)
