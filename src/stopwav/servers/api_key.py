"""The key of a server: read from the environment, sent in a header, and shown nowhere."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field

from stopwav.errors import StopwavError
from stopwav.servers.protocol import ServerError
from stopwav.servers.websocket import brief

# Shorter ones are placeholders for servers that want any key, such as EMPTY: they are no secret, and may be words.
SHORTEST_SECRET = 6
# No word is as long: a key is taken out of texts, a word never is.
SHORTEST_IN_TRANSCRIPT = 16
# The beginning of a key that an error was cut in: fewer characters, such as sk-, say nothing.
SHORTEST_BEGINNING = 4
HIDDEN = "***"


@dataclass(frozen=True)
class ApiKey:
    """A key, or "" where there is none; neither its repr nor a text that it redacts shows it."""

    value: str = field(default="", repr=False)

    @property
    def bearer(self) -> dict[str, str]:
        """The header that proves who asks; no header without a key."""
        return {"Authorization": f"Bearer {self.value}"} if self.value else {}

    def redact(self, text: str) -> str:
        """Return the text without the key, also where a server sends it back, escaped or cut off."""
        if len(self.value) < SHORTEST_SECRET:
            return text
        for written in {self.value, repr(self.value)[1:-1], json.dumps(self.value)[1:-1]}:
            text = text.replace(written, HIDDEN)
        if "…" in text:
            for length in range(len(self.value) - 1, SHORTEST_BEGINNING - 1, -1):
                text = text.replace(f"{self.value[:length]}…", f"{HIDDEN}…")
        return text

    def redact_transcript(self, text: str) -> str:
        """Return a recognised text without the key; one that is short enough to be a word stays."""
        return self.redact(text) if len(self.value) >= SHORTEST_IN_TRANSCRIPT else text

    def brief(self, text: str) -> str:
        """Return the beginning of a message for an error, in one line and without the key."""
        return brief(self.redact(text))

    def cleaned(self, error: ServerError) -> ServerError:
        """Return the same error without the key in its message."""
        cleaned = ServerError(error.reason, self.redact(str(error)))
        cleaned.close_code = error.close_code
        return cleaned


def key_from_environment(variable: str) -> ApiKey:
    """Return the key that an environment variable holds; none where it is not set."""
    value = os.environ.get(variable, "").strip()
    if not (value.isascii() and value.isprintable()) or " " in value:
        raise StopwavError(f"{variable} holds blanks or characters that a key cannot have; set it again")
    return ApiKey(value)
