"""Text from outside (ids, engines, messages) made safe to print: control characters could rewrite the terminal."""

from __future__ import annotations

import unicodedata

# Longer than any sensible name, short enough that one 100 kB word does not bury a table.
LONGEST = 300


def plain(text: str, longest: int = LONGEST) -> str:
    """The text with control, bidirectional and surrogate characters shown as escapes, cut where it is too long."""
    safe = "".join(char if _harmless(char) else char.encode("unicode_escape").decode() for char in text[: longest + 1])
    return safe if len(text) <= longest else f"{safe[:longest]}…"


def _harmless(char: str) -> bool:
    return unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
