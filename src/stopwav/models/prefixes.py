"""The texts a search considers, as a tree: a prefix is its parent and one more symbol; equal texts are one object."""

from __future__ import annotations

from collections.abc import Iterable


class Prefix:
    """A text so far. `slot` says where its prediction is kept, `None` where it is not."""

    __slots__ = ("children", "length", "parent", "slot", "symbol")

    def __init__(self, parent: Prefix | None, symbol: int) -> None:
        self.parent = parent
        self.symbol = symbol
        self.length: int = 0 if parent is None else parent.length + 1
        self.children: dict[int, Prefix] = {}
        self.slot: int | None = None

    def child(self, symbol: int) -> Prefix:
        """This text and one more symbol."""
        found = self.children.get(symbol)
        if found is None:
            found = self.children[symbol] = Prefix(self, symbol)
        return found

    def symbols(self) -> list[int]:
        """The text, without the blank at its root."""
        symbols = []
        node = self
        while node.parent is not None:
            symbols.append(node.symbol)
            node = node.parent
        return symbols[::-1]

    def cut(self) -> None:
        """Leave the tree, and with it every ancestor that only led here."""
        node = self
        while node.parent is not None and node.slot is None and not node.children:
            del node.parent.children[node.symbol]
            node = node.parent


class Slots:
    """The numbers of the places where predictions are kept; all streams of an engine share them, none its own."""

    def __init__(self) -> None:
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._free)

    def take(self) -> int:
        """A free number."""
        return self._free.pop()

    def give_back(self, prefixes: Iterable[Prefix]) -> None:
        """Free the places of these prefixes and forget those that nothing else leads through."""
        for prefix in prefixes:
            if prefix.slot is not None:
                self._free.append(prefix.slot)
                prefix.slot = None
                prefix.cut()

    def add(self, numbers: range) -> None:
        """More places."""
        self._free.extend(reversed(numbers))
