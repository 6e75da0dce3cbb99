"""Error rates of real recognisers on LibriSpeech are those of jiwer with the package's own normaliser."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("moonshine_voice")

from normalisers import ENGINES, measure, rows


@pytest.mark.soak
def test_rates_are_those_of_jiwer_after_the_package(librispeech: Path, tmp_path: Path) -> None:
    table = rows(measure(librispeech, ENGINES, tmp_path))
    assert {(row.engine, row.normaliser) for row in table} == {
        (engine, name) for engine in ENGINES for name in ("whisper-english", "whisper-basic", "stopwav-english", "none")
    }
    for row in table:
        assert row.wer == pytest.approx(row.jiwer_wer, abs=1e-12), row
        assert row.cer == pytest.approx(row.jiwer_cer, abs=1e-12), row
