"""Audio drawn from corpora in archives, tables and segments, for studies that need a length and not a corpus."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from written_corpora import RATE_HZ, Written, make_spoken, stm, table, webdataset

from stopwav.errors import StopwavError
from stopwav.speech.shapes import load_shapes
from stopwav.studies.audio_input import audio_digest, audio_warnings, input_digests, located, make_audio
from stopwav.studies.digests import changed_file, missing_file


@pytest.fixture(params=[webdataset, table, stm], ids=lambda write: write.__name__)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Written:
    made: Written = request.param(tmp_path / "x", make_spoken())
    return made


def test_it_is_that_of_the_utterances_in_a_row(written: Written) -> None:
    spoken = make_spoken()
    expected = np.concatenate([each.samples for each in spoken])
    audio = make_audio(written.name, len(expected) / RATE_HZ, RATE_HZ, seed=0)
    assert np.array_equal(audio.pcm16(), expected)
    assert audio_warnings(written.name, 1.0) == []
    assert located(written.name) == written.name


def test_a_change_is_noticed_and_a_corpus_with_options_is_not_missing(written: Written, tmp_path: Path) -> None:
    digests = input_digests(written.name, 1.0)
    assert digests[written.name] == f"corpus:{audio_digest(written.name)}"
    assert (changed_file(digests), missing_file(digests)) == (None, None)
    for path in (tmp_path / "x").rglob("*"):
        if path.suffix in (".csv", ".stm", ".tar"):
            path.write_bytes(path.read_bytes().replace(b"two", b"too"))
    assert changed_file(digests) is not None


def test_shapes_count_frames_and_tokens(written: Written) -> None:
    shapes = load_shapes(written.name, tokenizer="words", subsampling=1)
    assert sorted(shapes.frames.tolist()) == [60, 60, 100, 100, 140, 140]
    assert sorted(shapes.tokens.tolist()) == [1, 1, 2, 2, 3, 3]


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    for name in (f"{tmp_path}/gone.csv,text=a", f"{tmp_path}/gone.tar"):
        with pytest.raises(StopwavError, match="does not exist"):
            make_audio(name, 1.0, RATE_HZ, seed=0)
