"""The text of a stream whose server sends it in segments: those that are final, and the one that still changes."""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass, field


@dataclass
class SegmentedText:
    """Final segments in the order of their places, whatever the order in which they come, and the current partial.

    A place is anything that grows along the audio: the second at which a segment begins, or its number.
    """

    # Place, number in the order of arrival, text.
    _final: list[tuple[float, int, str]] = field(default_factory=list)
    _partial: str = ""
    # Where the partial is; behind all others where the server does not say.
    _partial_place: float = math.inf
    # The finals before the partial and those behind it, joined: they change less often than it does.
    _before: str = ""
    _behind: str = ""

    @property
    def text(self) -> str:
        """The whole text as a listener sees it."""
        return " ".join(filter(None, (self._before, self._partial, self._behind)))

    @property
    def partial(self) -> str:
        """The text that is not final yet."""
        return self._partial

    def change(self, partial: str, place: float | None = None) -> str:
        """Replace the partial of the current segment, at its place or behind all others; return the whole text."""
        self._partial, moved_from = partial.strip(), self._partial_place
        self._partial_place = math.inf if place is None else place
        if self._partial_place != moved_from:
            self._join()
        return self.text

    def commit(self, final: str, place: float | None = None, end: float | None = None) -> str:
        """Make a segment final, at its place or behind all others, and return the whole text.

        A partial that begins before the segment's `end` is replaced by it. One that begins later stays.
        """
        number = len(self._final)
        last = self._final[-1][0] if self._final else 0.0
        insort(self._final, (last if place is None else place, number, final.strip()))
        if place is None or self._partial_place in (place, math.inf) or self._partial_place < max(place, end or place):
            self._partial = ""
        self._join()
        return self.text

    def put(self, text: str, place: float) -> str:
        """Set the segment of a place, whatever it was before, and return the whole text."""
        self._final = [segment for segment in self._final if segment[0] != place]
        return self.commit(text, place)

    def _join(self) -> None:
        before = [text for place, _, text in self._final if place <= self._partial_place]
        behind = [text for place, _, text in self._final if place > self._partial_place]
        self._before, self._behind = " ".join(filter(None, before)), " ".join(filter(None, behind))
