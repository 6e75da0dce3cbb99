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
_ALLOWED = re.compile(r"\w([\w .+()%-]*[\w.+()%-])?")


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

    What stands before the first `=` is a label unless it is a part of a path, which a `/` in it says.
    """
    head, *pairs = text.split(",")
    before, equals, after = head.partition("=")
    is_labelled = bool(equals) and not set(before) & set(":/\\")
    prefix = f"{LABEL}="
    labels = [before] if is_labelled else []
    labels += [pair.removeprefix(prefix) for pair in pairs if pair.startswith(prefix)]
    setting = ",".join([after if is_labelled else head, *(pair for pair in pairs if not pair.startswith(prefix))])
    if len(labels) > 1:
        raise StopwavError(f"engine {text[:LONGEST_SHOWN]!r} has {len(labels)} labels; give it one")
    for label in labels:
        _check(label, text)
    return LabelledEngine("".join(labels), setting)


def _check(label: str, text: str) -> None:
    problem = ""
    if not label:
        problem = "its label is empty; write a name before the =, such as fast=moonshine"
    elif len(label) > LONGEST_LABEL:
        problem = f"its label has {len(label)} characters; {LONGEST_LABEL} are the most"
    elif not _ALLOWED.fullmatch(label):
        problem = (
            f"{label!r} cannot be a label, in which letters, digits, spaces and . _ + ( ) % - can stand; a file whose "
            "path has a = is written ./PATH"
        )
    if problem:
        raise StopwavError(f"engine {text[:LONGEST_SHOWN]!r}: {problem}")
