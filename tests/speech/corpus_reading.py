"""Noise to read, and what reading a corpus gave: texts, complaints, or why it was refused."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from written_corpora import RATE_HZ

from stopwav.errors import StopwavError
from stopwav.speech.corpus import Corpus, load_corpus


def noise(path: Path, seconds: float = 0.1, seed: int = 0, channels: int = 1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = np.random.default_rng(seed).uniform(-0.5, 0.5, (round(seconds * RATE_HZ), channels))
    soundfile.write(path, samples, RATE_HZ)
    return path


def texts(corpus: Corpus) -> dict[str, str | None]:
    return {utterance.id: utterance.text for utterance in corpus.utterances}


def complaints(corpus: Corpus) -> list[str]:
    assert all("\n" not in problem.where + problem.message for problem in corpus.problems)
    return [f"{problem.where}: {problem.message}" for problem in corpus.problems]


def refusal(source: str | Path) -> str:
    with pytest.raises(StopwavError) as caught:
        load_corpus(source)
    assert "\n" not in str(caught.value)
    return str(caught.value)
