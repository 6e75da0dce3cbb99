"""How long a run may take, and what that estimate is based on; and what would stop it at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stopwav.speech.corpus import Corpus
from stopwav.studies.corpus_header import duration_s

# Without an earlier run, an engine is assumed to work as fast as speech arrives: most are faster.
ASSUMED_RTF = 1.0
# What a fresh process takes to start and load a small model.
ASSUMED_LOAD_S = 3.0
# Earlier runs looked at, newest first: reading a long one takes a second.
EARLIER_RUNS = 20
# Utterances whose length is looked up: enough for the mean, where opening 100,000 files would take minutes.
_LENGTHS = 200


@dataclass(frozen=True)
class Forecast:
    """How long a run may take (`None` where nothing is known), on what basis, and what would stop it at once."""

    seconds: float | None
    basis: tuple[str, ...]
    problems: tuple[str, ...] = ()


def assumption(engines: Sequence[str], folder: Path | str) -> str:
    """Return the basis of an estimate for engines without an earlier run."""
    factor = f"real-time factor {ASSUMED_RTF:g} and load {ASSUMED_LOAD_S:g} s"
    return f"{', '.join(engines)}: {factor}, assumed, as there is no earlier run in {folder}"


def lengths_of(corpus: Corpus, limit: int | None) -> tuple[int, float, float]:
    """Return how many utterances are measured, and their mean and largest length in seconds."""
    # Spread over the corpus: the first of a sorted one are all alike.
    step = -(-len(corpus.utterances) // _LENGTHS)
    lengths_s = [duration_s(utterance) for utterance in corpus.utterances[::step]]
    count = min(limit or len(corpus.utterances), len(corpus.utterances))
    return count, sum(lengths_s) / len(lengths_s), max(lengths_s)
