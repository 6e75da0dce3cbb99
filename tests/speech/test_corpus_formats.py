"""Corpora in everyone's formats: the same audio, texts and speakers from each; what is wrong is named and left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from written_corpora import FORMATS, RATE_HZ, Spoken, Written, folder, make_spoken

from stopwav.speech.audio import load_utterance
from stopwav.speech.corpus import load_corpus

Write = Callable[[Path, Sequence[Spoken]], Written]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOPWAV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.parametrize("write", [folder, *FORMATS], ids=lambda write: write.__name__)
def test_every_format_has_the_same_utterances(write: Write, tmp_path: Path) -> None:
    spoken = make_spoken()
    written = write(tmp_path / "x", spoken)
    corpus = load_corpus(written.name)
    assert corpus.problems == ()
    by_id = {utterance.id: utterance for utterance in corpus.utterances}
    assert by_id.keys() == set(written.ids.values())
    for expected in spoken:
        utterance = by_id[written.ids[expected.id]]
        assert np.array_equal(load_utterance(utterance, RATE_HZ).pcm16(), expected.samples)
        assert (utterance.text or "").strip('"“ ') == (expected.text if written.has_texts else "")
        assert utterance.speaker in (expected.speaker, "")
        if written.has_times:
            times = [(word.text, word.start_s, word.end_s) for word in utterance.words]
            assert times == [(word, pytest.approx(a), pytest.approx(b)) for word, a, b in expected.times_s]
    assert load_corpus(written.name).digest == corpus.digest
