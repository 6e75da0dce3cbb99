"""Segments of recordings by STM and RTTM: read by their offset, each channel alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from corpus_reading import complaints, noise, refusal, texts
from written_corpora import RATE_HZ, make_spoken, stm

from stopwav.errors import StopwavError
from stopwav.speech.audio import load_utterance
from stopwav.speech.corpus import load_corpus


def test_segments_name_what_is_wrong(tmp_path: Path) -> None:
    noise(tmp_path / "talk.v1.wav", 3.0, channels=2)
    lines = [
        ";; a comment",
        "talk.v1 A ann 0.0 1.0 <o,f0,female> so { yes / no } go",
        "talk.v1 2 bob 1.0 2.5 well { @ / um } on",
        "talk.v1 1 ann 0.5",
        "talk.v1 1 ann 2.0 1.0 <o> back",
        "talk.v1 1 ann soon 1.0 x",
        "talk.v1 0 ann 0.0 1.0 x",
        "gone 1 ann 0.0 1.0 x",
        "talk.v1 1 inter 1.0 2.0 <o> ignore_time_segment_in_scoring",
        "talk.v1 1 ann 0.0 1.0 twice",
    ]
    (tmp_path / "t.stm").write_text("\n".join(lines))
    corpus = load_corpus(tmp_path / "t.stm")
    assert [(u.id, u.text, u.speaker, u.channel) for u in corpus.utterances] == [
        ("talk.v1-2@1.000-2.500", "well on", "bob", 1),
        ("talk.v1@0.000-1.000", "so yes go", "ann", 0),
    ]
    said = complaints(corpus)
    for start in (
        "t.stm:4: a line is `recording channel speaker start end",
        "t.stm:5: a segment cannot last from 2 s to 1 s",
        "t.stm:6: a segment cannot last from nan s to 1 s",
        "t.stm:7: channel 0 is neither a number from 1 nor a letter from A",
        "t.stm:8: no audio for gone",
        "t.stm:9: 1 segment of unknown words (ignore_time_segment_in_scoring) left out",
        "t.stm:10: id talk.v1@0.000-1.000 appears twice",
    ):
        assert any(line.startswith(start) for line in said), (start, said)
    assert len(said) == 7
    assert f"audio_folder={tmp_path}/nowhere is no folder" in refusal(
        f"{tmp_path}/t.stm,audio_folder={tmp_path}/nowhere"
    )


def test_a_channel_is_heard_alone(tmp_path: Path) -> None:
    path = noise(tmp_path / "talk.wav", 1.0, channels=2)
    samples, _ = soundfile.read(path, dtype="int16")
    (tmp_path / "t.rttm").write_text(
        "SPKR-INFO talk 1 <NA> <NA> <NA> unknown ann <NA>\n"
        "SPEAKER talk 1 0.0 0.5 <NA> <NA> ann <NA> <NA>\nSPEAKER talk 2 0.5 0.5 <NA> <NA> bob <NA> <NA>\n"
        "SPEAKER talk 3 0.5 0.5 <NA> <NA> bob <NA> <NA>\nSPEAKER talk 1 x 0.5 <NA> <NA> bob <NA>\nSPEAKER talk 1\n"
    )
    corpus = load_corpus(tmp_path / "t.rttm")
    by_speaker = {(u.speaker, u.channel): u for u in corpus.utterances}
    assert np.array_equal(load_utterance(by_speaker["ann", 0], RATE_HZ).pcm16(), samples[:8000, 0])
    assert np.array_equal(load_utterance(by_speaker["bob", 1], RATE_HZ).pcm16(), samples[8000:, 1])
    with pytest.raises(StopwavError, match=r"talk\.wav has 2 channels and no channel 3"):
        load_utterance(by_speaker["bob", 2], RATE_HZ)
    assert [line.split(": ")[0] for line in complaints(corpus)] == ["t.rttm:5", "t.rttm:6"]
    (tmp_path / "t.rttm").write_text((tmp_path / "t.rttm").read_text().replace("talk 2", "talk 1"))
    assert load_corpus(tmp_path / "t.rttm").digest != corpus.digest


def test_rttm_next_to_transcripts_is_not_the_corpus(tmp_path: Path) -> None:
    noise(tmp_path / "talk.wav").with_suffix(".txt").write_text("hello")
    (tmp_path / "talk.rttm").write_text("SPEAKER talk 1 0.0 0.05 <NA> <NA> ann <NA> <NA>\n")
    assert texts(load_corpus(tmp_path)) == {"talk": "hello"}


def test_a_segment_is_read_by_its_offset(tmp_path: Path) -> None:
    """Of ten segments of a recording little more than their own bytes is read, wherever they are."""
    io_counts = Path("/proc/self/io")
    if not io_counts.exists():
        pytest.skip("no /proc/self/io here")
    noise(tmp_path / "long.wav", 300.0)
    lines = [f"long 1 ann {start} {start + 0.5} x\n" for start in range(0, 300, 30)]
    (tmp_path / "t.stm").write_text("".join(lines))
    utterances = load_corpus(tmp_path / "t.stm").utterances
    load_utterance(utterances[0], RATE_HZ)

    def read_bytes() -> int:
        return int(io_counts.read_text().split("rchar: ")[1].split()[0])

    before = read_bytes()
    for utterance in utterances:
        assert load_utterance(utterance, RATE_HZ).duration_s == 0.5
    segments_bytes = len(utterances) * RATE_HZ
    assert read_bytes() - before < 5 * segments_bytes < (tmp_path / "long.wav").stat().st_size / 10


def test_stm_folders(tmp_path: Path) -> None:
    written = stm(tmp_path / "x", make_spoken())
    by_file = load_corpus(written.name)
    by_folder = load_corpus(f"{tmp_path}/x,audio_folder={tmp_path}/x/audio")
    assert [replace_path(u) for u in by_folder.utterances] == [replace_path(u) for u in by_file.utterances]


def replace_path(utterance: Any) -> Any:
    return (utterance.id, os.path.realpath(utterance.path), utterance.text, utterance.start_s, utterance.end_s)
