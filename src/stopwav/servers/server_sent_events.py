"""Server-sent events, as answers over HTTP bring them: the data of each, whatever the pieces in which they come in."""

from __future__ import annotations


class SentEvents:
    """A stream of events, read piece by piece."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []

    def push(self, piece: bytes) -> list[str]:
        """Return the data of the events that this piece completes."""
        self._rest += piece
        *lines, self._rest = self._rest.split(b"\n")
        return [data for line in lines for data in self._line(bytes(line))]

    def finish(self) -> list[str]:
        """Return the data of a last event that no blank line ends: not every server sends it."""
        last = [*self._line(bytes(self._rest)), *self._line(b"")]
        self._rest = bytearray()
        return last

    @property
    def pending_bytes(self) -> int:
        """The size of the event that is not complete."""
        return len(self._rest) + sum(map(len, self._data))

    def _line(self, line: bytes) -> list[str]:
        line = line.removesuffix(b"\r")
        if not line:  # the end of an event
            data, self._data = self._data, []
            return [b"\n".join(data).decode("utf-8", "replace")] if data else []
        name, _, value = line.partition(b":")
        if name == b"data":  # comments, names and numbers of events tell nothing that their data does not
            self._data.append(value.removeprefix(b" "))
        return []
