"""The label of an engine: what results call it in place of its settings, as in `fast=moonshine,update=0.1`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stopwav.errors import StopwavError

# The option that gives the label, where it does not stand before the engine; no engine has one of that name.
LABEL = "label"
# A heading of a table, and an entry of a legend.
LONGEST_LABEL = 40
# Of a name in a message.
LONGEST_SHOWN = 200
# No sign that separates the parts of an engine's name, is markup, or numbers an engine that is named twice.
_ALLOWED = re.compile(rf"(?=.{{1,{LONGEST_LABEL}}}$)\w([\w .+()%-]*[\w.+()%-])?")


@dataclass(frozen=True)
class LabelledEngine:
    """An engine's name in its two parts: the label, "" where it has none, and the setting that it stands for."""

    label: str
    setting: str

    @property
    def name(self) -> str:
        """What results call the engine."""
        return self.label or self.setting


def read_label(text: str) -> LabelledEngine:
    """Return the label and the setting of an engine, written `LABEL=NAME…` or `NAME…,label=LABEL`.

    What stands before the first `=` is a label unless it is a part of a path, which a `/` in it says. What cannot be a
    label is left where it is: `check_label` says what is wrong with it, and a run file may hold any text.
    """
    label, setting = _split(text)
    return LabelledEngine(label, setting) if _ALLOWED.fullmatch(label) else LabelledEngine("", text)


def check_label(text: str) -> None:
    """Raise for an engine with more than one label, or with one that cannot be."""
    label, setting = _split(text)
    problem = ""
    if _split(setting)[0] or _split(setting)[1] != setting:
        problem = "it has more than one label; leave all but one out"
    elif setting != text and not label:
        problem = "its label is empty; write a name before the =, such as fast=moonshine"
    elif len(label) > LONGEST_LABEL:
        problem = f"its label has {len(label)} characters; {LONGEST_LABEL} are the most"
    elif label and not _ALLOWED.fullmatch(label):
        problem = (
            f"{label!r} cannot be a label, in which letters, digits, spaces and . _ + ( ) % - can stand; a file whose "
            "path has a = is written ./PATH"
        )
    if problem:
        raise StopwavError(f"engine {text[:LONGEST_SHOWN]!r}: {problem}")


def _split(text: str) -> tuple[str, str]:
    """The first label of an engine, "" for none, and the rest of the text."""
    head, *pairs = text.split(",")
    before, equals, after = head.partition("=")
    if equals and not set(before) & set(":/\\"):
        return before, ",".join([after, *pairs])
    for position, pair in enumerate(pairs):
        if pair.startswith(f"{LABEL}="):
            return pair.removeprefix(f"{LABEL}="), ",".join([head, *pairs[:position], *pairs[position + 1 :]])
    return "", text
