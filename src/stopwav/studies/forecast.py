"""How long a run may take, on what basis, and what would stop it at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from stopwav.errors import StopwavError
from stopwav.speech.corpus import Corpus
from stopwav.studies.corpus_header import duration_s
from stopwav.studies.spec import StudySpec
from stopwav.studies.study import Study

# Without an earlier run, an engine is assumed to work as fast as speech arrives: most are faster.
ASSUMED_RTF = 1.0
# A fresh process takes this long to start and load a small model.
ASSUMED_LOAD_S = 3.0
# Earlier runs looked at, newest first: reading a long one takes a second.
EARLIER_RUNS = 20
# Utterances whose length is looked up: enough for the mean, where opening 100,000 files would take minutes.
_LENGTHS = 200


@dataclass(frozen=True)
class Forecast:
    """How long a run may take (None where nothing is known), and on what basis."""

    seconds: float | None
    basis: tuple[str, ...]


def forecast(study: Study, spec: StudySpec) -> Forecast:
    """Return the forecast of a run; its audio may be opened, and nothing is measured."""
    if study.forecast is None:
        return Forecast(None, (f"no estimate for {study.name}",))
    return study.forecast(spec)


def engine_problems(setting: str, engines: Iterable[str], time_limit_s: float = 0.0) -> Iterator[tuple[str, str]]:
    """Yield the engines that are not available, each as the setting that names it and the reason."""
    from stopwav.studies.engine_check import check_engine

    for engine in engines:
        try:
            check_engine(engine, time_limit_s)
        except StopwavError as error:
            yield setting, str(error)


def measured_basis(engine: str, rtf: float, load_s: float, run: str) -> str:
    """Return how fast an engine was in an earlier run."""
    return f"{engine}: real-time factor {rtf:.3f} and load {load_s:.1f} s, measured in {run}"


def assumption(engines: list[str], folder: Path | str) -> str:
    """Return the assumption about engines that no earlier run has measured."""
    assumed = f"RTF {ASSUMED_RTF:g} and {ASSUMED_LOAD_S:g} s of loading assumed for {', '.join(dict.fromkeys(engines))}"
    return f"no earlier run in {folder} to calibrate on: {assumed}"


def lengths_of(corpus: Corpus, limit: int | None) -> tuple[int, float, float]:
    """Return how many utterances are streamed, and their mean and largest length in seconds."""
    # Spread over the corpus: the first of a sorted one are all alike.
    step = -(-len(corpus.utterances) // _LENGTHS)
    lengths_s = [duration_s(utterance) for utterance in corpus.utterances[::step]]
    count = min(limit or len(corpus.utterances), len(corpus.utterances))
    return count, sum(lengths_s) / len(lengths_s), max(lengths_s)
