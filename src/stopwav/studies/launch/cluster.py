"""A cluster as the launcher sees it: it lends machines, each behind a link to a host that answers for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

# Between two looks at a machine that is waited for.
NAP_S = 0.2


class LinkLostError(Exception):
    """The machine behind a link is gone, or does not answer; its text says how that showed."""


class LeaseCancelledError(Exception):
    """A machine that was waited for is no longer needed."""


class Link(Protocol):
    """A machine that was lent, and the way to its host."""

    # What the cluster calls the machine, for messages.
    @property
    def node(self) -> str: ...

    # What tells it from every other machine of the cluster.
    @property
    def machine_id(self) -> str: ...

    def send(self, request: bytes, time_limit_s: float) -> bytes:
        """Return the host's answer, or raise that the link was lost."""
        ...

    def close(self) -> None:
        """Give the machine back; whatever still runs on it for this link is killed."""
        ...


class Cluster(Protocol):
    """Where machines come from."""

    def lease(
        self, avoid: Collection[str], never: Collection[str], say: Callable[[str], None], cancelled: Callable[[], bool]
    ) -> Link:
        """Return a machine as it was asked for, once one is free, or raise why there will be none.

        `avoid` are machines that are taken only where there is no other, and `never` those that are not taken.
        """
        ...

    def every_machine(self) -> Sequence[Callable[[], Link]]:
        """Return a way to reach each machine of the cluster, busy or not, for a look at it."""
        ...

    def close(self) -> None:
        """Leave the cluster."""
        ...
