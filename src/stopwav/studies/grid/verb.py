"""The verb `stopwav grid` besides measuring: the notation of its table, and where its traces lie."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from stopwav.cli.options import Scientific
from stopwav.record import Record
from stopwav.studies.study import Verb
from stopwav.studies.traces import traces_folder


def _after(record: Record, settings: Mapping[str, Any]) -> None:
    folder = traces_folder(record)
    if folder.is_dir():
        print(f"stopwav: traces in {folder}", file=sys.stderr)


VERB = Verb(
    options={"scientific": Scientific},
    after=_after,
)
