"""WebDataset archives as corpora: audio is read in its place, and what is wrong is named and left out."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from corpus_reading import complaints, refusal, texts
from written_corpora import RATE_HZ

from stopwav.speech.audio import load, load_utterance
from stopwav.speech.corpus import load_corpus


def archive(path: Path, **members: bytes) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def audio_bytes(seconds: float = 0.1, suffix: str = "flac", seed: int = 0) -> bytes:
    buffer = io.BytesIO()
    samples = np.random.default_rng(seed).uniform(-0.5, 0.5, round(seconds * RATE_HZ))
    soundfile.write(buffer, samples, RATE_HZ, format=suffix)
    return buffer.getvalue()


def test_an_archive_names_what_is_wrong(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "a.tar",
        **{
            "d/good.flac": audio_bytes(),
            "d/good.json": b'{"text": "fine", "lang": "en", "speaker": 3}',
            "d/good.cls": b"7",
            "two.flac": audio_bytes(),
            "two.wav": audio_bytes(suffix="wav"),
            "broken.flac": audio_bytes(),
            "broken.json": b'["no object"]',
            "silent.txt": b"no audio",
            "latin.flac": audio_bytes(),
            "latin.txt": "naïve".encode("latin1"),
            "../up.flac": audio_bytes(),
            "__key__": b"x",
        },
    )
    corpus = load_corpus(path)
    assert [(u.id, u.text, u.speaker, u.language) for u in corpus.utterances] == [
        ("../up", None, "", ""),
        ("broken", None, "", ""),
        ("d/good", "fine", "3", "en"),
        ("latin", None, "", ""),
        ("two", None, "", ""),
    ]
    said = complaints(corpus)
    for start in (
        "a.tar:broken.json: not readable (a list, not an object)",
        "a.tar:latin.txt: not readable (",
        "a.tar:silent: no audio for it in the archive",
        "a.tar:two: more audio of this key; the first is used",
    ):
        assert any(line.startswith(start) for line in said), (start, said)
    assert len(said) == 4
    assert all(utterance.path == path for utterance in corpus.utterances), "nothing is unpacked"


@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3"])
def test_audio_in_an_archive_reads_as_the_same_file_alone(suffix: str, tmp_path: Path) -> None:
    content = audio_bytes(2.0, suffix)
    (tmp_path / f"x.{suffix}").write_bytes(content)
    members = {f"{name}.{suffix}": audio_bytes(0.5, suffix, seed=1) for name in ("before", "z")}
    path = archive(tmp_path / "a.tar", **{f"before.{suffix}": members[f"before.{suffix}"], f"x.{suffix}": content})
    (utterance,) = [each for each in load_corpus(path).utterances if each.id == "x"]
    assert np.array_equal(load_utterance(utterance, 8_000).samples, load(tmp_path / f"x.{suffix}", 8_000).samples)


def test_an_archive_that_was_cut_short(tmp_path: Path) -> None:
    members = {f"{name}.wav": audio_bytes(1.0, "wav", seed) for seed, name in enumerate("abc")}
    path = archive(tmp_path / "a.tar", **members)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    corpus = load_corpus(path)
    assert "a" in texts(corpus)
    assert "c" not in texts(corpus)
    assert any("a.tar" in line and ("ends within it" in line or "not readable" in line) for line in complaints(corpus))
    for utterance in corpus.utterances:
        load_utterance(utterance, RATE_HZ)


def test_a_compressed_archive_says_what_to_do(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", **{"a.flac": audio_bytes()})
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert "a.tar: not readable as a tar archive" in refusal(path)
    assert "decompress it, for example with gunzip" in refusal(path)


def test_the_same_key_in_two_archives(tmp_path: Path) -> None:
    for name in ("a", "b"):
        archive(tmp_path / f"{name}.tar", **{"x.flac": audio_bytes(), "x.txt": name.encode()})
    corpus = load_corpus(tmp_path)
    assert texts(corpus) == {"x": "a"}
    assert complaints(corpus) == ["b.tar:x: id x appears twice; the first is used: rename this one"]
