"""How much of a run is shown, as the flags of the command line ask for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Detail:
    """What is shown beyond the usual; a study passes over what it does not have."""

    every_metric: bool = False
    # The real-time factors of a grid in the notation 4.08E-02.
    scientific: bool = False
    # The repeated layers of a step one by one, and only the rows whose label matches.
    unfold: bool = False
    labels: str | None = None
