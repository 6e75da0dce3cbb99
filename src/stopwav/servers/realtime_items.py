"""The items of a realtime session: each is a part of the audio, with a text that grows until it is complete."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class RealtimeItems:
    """The texts of all items in the order in which they were announced, whatever the order in which they complete."""

    _texts: dict[str, str] = field(default_factory=dict)
    _complete: set[str] = field(default_factory=set)
    # Those whose audio the server has taken: each of them will have a text.
    _committed: set[str] = field(default_factory=set)

    @property
    def text(self) -> str:
        """The whole text as a listener sees it."""
        return " ".join(filter(None, map(str.strip, self._texts.values())))

    @property
    def has_commits(self) -> bool:
        """Whether the server says which audio it takes: not every one does."""
        return bool(self._committed)

    @property
    def is_complete(self) -> bool:
        """Whether every item whose audio was taken has its text."""
        return self._committed <= self._complete

    def announce(self, item: str) -> None:
        """Give an item its place, behind those that are known."""
        self._texts.setdefault(item, "")

    def commit(self, item: str) -> None:
        """Note that the audio of an item is complete."""
        self.announce(item)
        self._committed.add(item)

    def add(self, item: str, delta: str) -> str:
        """Append to the text of an item, and return the whole text; one that is complete does not change any more."""
        self.announce(item)
        if item not in self._complete:
            self._texts[item] += delta
        return self.text

    def complete(self, item: str, text: str) -> str:
        """Set the final text of an item, and return the whole text."""
        self._texts[item] = text
        self._complete.add(item)
        return self.text
