"""The largest batch that fits: a search by doubling and then by bisection, from the probes that a run file holds."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from stopwav.piece import Piece
from stopwav.stats import Estimate

# An engine that takes one utterance after the other never runs out of memory: beyond this the search stops and says so.
LARGEST_BATCH = 4096
# Without a limit of the user's, a probe may take this share of the host's free memory: the machine has to stay alive.
FREE_SHARE = 0.9


@dataclass(frozen=True)
class Frontier:
    """Where a search stands: the largest batch that fitted, and the smallest that did not, with its status and message.

    `fits` is 0 where not even one utterance did. Without `fails_at`, nothing failed up to `fits`.
    """

    fits: int
    fails_at: int | None = None
    status: str = ""
    message: str = ""

    @property
    def failure(self) -> str:
        """How the smallest batch that failed ended."""
        return f"{self.status}: {self.message}" if self.status else ""


def frontier_of(probes: Iterable[tuple[int, Piece]]) -> Frontier:
    """Return what probes say, each a batch size with the piece that holds how it ended."""
    probed = list(probes)
    fits = max((size for size, piece in probed if piece.status == "ok"), default=0)
    # A failure by chance below a batch that fitted is no frontier.
    failed = [(size, piece.status, piece.message) for size, piece in probed if piece.status != "ok" and size > fits]
    return Frontier(fits, *min(failed)) if failed else Frontier(fits)


def next_batch(frontier: Frontier, first: int = 1, most: int = LARGEST_BATCH) -> int | None:
    """Return the batch to try next, up to `most`: twice the largest that fitted, or halfway to one that failed."""
    if frontier.fails_at is None:
        if frontier.fits >= most:
            return None
        return min(most, 2 * frontier.fits) if frontier.fits else first
    return (frontier.fits + frontier.fails_at) // 2 if frontier.fails_at - frontier.fits > 1 else None


def largest_estimate(frontier: Frontier, utterances: int = LARGEST_BATCH, *, ended: bool = True) -> Estimate:
    """Return the largest batch of a corpus of so many that fits, with what stopped it as its note and code.

    A search that has not `ended`, for want of time, gives a lower bound, or nothing where it has not begun.
    """
    if not ended:
        if not frontier.fits:
            return Estimate(
                None, note="there was no time to search for it; continue with --resume and a larger --budget"
            )
        note = "at least: the search was stopped there; continue with --resume and a larger --budget"
        return Estimate(float(frontier.fits), frontier.fits, n=1, note=note, code="lower-bound")
    fits, note, code = float(frontier.fits), f"{frontier.fails_at} ended with {frontier.failure}", frontier.status
    if frontier.fails_at is None:
        reason = f"no more than {LARGEST_BATCH} are tried"
        if utterances < LARGEST_BATCH:
            reason = f"the corpus has {utterances} utterance{'' if utterances == 1 else 's'}"
        note = f"at least: nothing failed up to {frontier.fits}, and {reason}"
        return Estimate(fits, fits, n=1, note=note, code="lower-bound")
    return Estimate(fits, fits, fits, n=1, note=note, code=code)


def free_memory_limit_bytes() -> int | None:
    """Return the host memory that a probe may take where the user set no limit; None where it cannot be limited."""
    import psutil

    return int(FREE_SHARE * psutil.virtual_memory().available) if sys.platform == "linux" else None
