"""Short latency runs of scripted engines, for the tests of the study."""

import json
from collections.abc import Callable
from pathlib import Path

import stopwav
from stopwav.record import Record

MakeCorpus = Callable[..., Path]


def script(folder: Path, **fields: object) -> str:
    """A scripted engine."""
    path = folder / f"script{len(list(folder.glob('script*')))}.json"
    path.write_text(json.dumps(fields))
    return f"fake:{path}"


def run(engine: str | list[str], corpus: Path, save: Path, **options: object) -> Record:
    """A run of one round."""
    engines = [engine] if isinstance(engine, str) else engine
    given = {"words": corpus / "words.ctm", "rounds": 1, **options}
    return stopwav.latency(engines, corpus=str(corpus), save=save, **given)  # type: ignore[arg-type]
