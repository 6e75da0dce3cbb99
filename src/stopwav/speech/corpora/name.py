"""The name of a corpus, `SOURCE[,key=value…]`, taken apart."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stopwav.errors import StopwavError, suggestion

BUNDLED = "bundled"
# What follows is a dataset of the `datasets` package: a folder, a file, or a name on the Hub.
HUB = "hf:"

_OPTION = re.compile(r",(?=[a-z_]+=)")


@dataclass(frozen=True)
class CorpusName:
    """A file, a folder or a dataset, and the options with which it is read."""

    source: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The file or folder that is named; for a dataset on the Hub there is none at this path."""
        return Path(self.source.removeprefix(HUB))

    @property
    def is_dataset(self) -> bool:
        """Whether it is to be read by the `datasets` package, whatever it looks like."""
        return self.source.startswith(HUB)

    def __str__(self) -> str:
        return ",".join([self.source, *(f"{key}={value}" for key, value in self.options.items())])

    def check_options(self, *known: str) -> None:
        """Raise for an option that the format of this corpus does not have."""
        for key in self.options:
            if key not in known:
                hint = suggestion(key, list(known)) if known else "this format takes no options"
                raise StopwavError(f"corpus {self}: unknown option {key!r}: {hint}")


def parse_name(text: str | Path) -> CorpusName:
    """Take a name apart; a path that exists is the whole of it, commas or not."""
    text = str(text)
    if os.path.exists(text):
        return CorpusName(text)
    source, *pairs = _OPTION.split(text)
    options: dict[str, str] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        if key in options or not value:
            wrong = "is given twice" if value else "has no value"
            raise StopwavError(f"corpus {text}: option {key!r} {wrong}; write SOURCE,key=value,key=value")
        options[key] = value
    return CorpusName(source, options)


def located(text: str) -> str:
    """Return the name with full paths, for a process that may be in another folder when it reads the corpus."""
    name = parse_name(text)
    if text == BUNDLED or (name.is_dataset and not os.path.exists(name.path)):
        return text
    prefix = HUB if name.is_dataset else ""
    options = {key: os.path.abspath(value) if key == "audio_folder" else value for key, value in name.options.items()}
    return str(CorpusName(f"{prefix}{os.path.abspath(name.path)}", options))
