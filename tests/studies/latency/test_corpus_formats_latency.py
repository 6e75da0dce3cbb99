"""`stopwav latency --corpus` gives the same numbers whatever format the same utterances are in."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import command
from written_corpora import FORMATS, Spoken, Written, folder, kaldi, make_spoken, manifest, write_ctm

from stopwav.record import Record

# Writes a word for every burst of sound, when it has heard a chunk of silence after it; the third one wrongly.
ENGINE = """
import numpy as np
from stopwav import EngineInfo, Hypothesis

WORDS = ("one", "two", "too")

class Ears:
    def __init__(self):
        self.info = EngineInfo(name="ears", version="1", chunk_s=0.1)

    def open(self):
        return Hearing()

class Hearing:
    def __init__(self):
        self.levels = []
        self.heard = 0

    def push(self, samples):
        self.levels.append(float(np.abs(samples).mean()) > 0.01)
        self.heard += self.levels[-2:] == [True, False]
        return [Hypothesis(" ".join(WORDS[: self.heard]))]

    def finish(self):
        return [Hypothesis(" ".join(WORDS[: self.heard]))]
"""
# The speed of this machine, which no corpus changes.
OF_THE_MACHINE = (
    *("rtf", "rtfx", "load_time", "backlog_slope", "share_waiting", "share_computing"),
    *("peak_host_bytes", "peak_host_over_baseline_bytes"),
)
# The delays of the script are tenths of a second; a busy machine adds some milliseconds to each.
SLACK_S = 0.03


def numbers(folder: Path, written: Written, spoken: Sequence[Spoken]) -> tuple[dict[str, Any], list[list[object]]]:
    """Return the metrics of a run over a corpus, and the texts of each of its streams, by utterance."""
    words = write_ctm(folder / "words.ctm", spoken, written.ids)
    engine = folder / "ears.py"
    engine.write_text(ENGINE)
    given = [] if written.has_times or not written.has_texts else ["--words", str(words)]
    result = command(
        *("latency", f"{engine}:Ears", "--corpus", written.name, "--rounds", "1", "--json"),
        # Of words such as "one two" others make a number.
        *("--normaliser", "stopwav-english", "--save", str(folder / "runs"), *given),
    )
    assert result.code == 0, result.stderr
    printed = json.loads(result.stdout)
    (row,) = printed["results"]
    values = {
        name: pytest.approx(metric["value"], abs=SLACK_S if metric["unit"] == "s" else 1e-9)
        for name, metric in row["metrics"].items()
        if metric["value"] is not None and name not in OF_THE_MACHINE
    }
    record = Record.read(Path(printed["run"]))
    ids = {theirs: ours for ours, theirs in written.ids.items()}
    streams = [
        [ids[str(piece.key[3])], piece.data["trace"]["texts"], piece.data["trace"]["audio_s"]]
        for piece in record.pieces
        if piece.key[0] == "stream"
    ]
    return values, sorted(streams)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[list[object]]]:
    root = tmp_path_factory.mktemp("reference")
    spoken = make_spoken()
    values, streams = numbers(root, folder(root / "x", spoken), spoken)
    # Two utterances have a third word, of 12 in all. Each word shows when the chunk of 0.1 s after it has been heard.
    assert values["wer"] == 2 / 12
    assert values["word_latency_p50"] == 0.1
    return values, streams


@pytest.mark.parametrize(
    "write", [each for each in FORMATS if each not in (manifest, kaldi)], ids=lambda write: write.__name__
)
def test_the_numbers_are_those_of_the_folder(
    write: Callable[[Path, Sequence[Spoken]], Written],
    reference: tuple[dict[str, Any], list[list[object]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STOPWAV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    spoken = make_spoken()
    written = write(tmp_path / "x", spoken)
    values, streams = numbers(tmp_path, written, spoken)
    expected, expected_streams = reference
    assert streams == expected_streams
    if written.has_texts:
        assert values.keys() == expected.keys()
    assert {name: value.expected for name, value in values.items()} == {name: expected[name] for name in values}
