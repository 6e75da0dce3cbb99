"""Corpora of which some utterances have no transcript: they are kept, and only what is broken is a problem."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from stopwav.errors import StopwavError
from stopwav.speech.align import align_corpus
from stopwav.speech.audio import load
from stopwav.speech.corpus import Corpus, load_corpus
from stopwav.speech.utterance import Word

# Every format that people have and libsndfile both writes and reads.
FORMATS = {
    "a.wav": {},
    "b.flac": {},
    "c.mp3": {},
    "d.ogg": {},
    "e.opus": {"format": "OGG", "subtype": "OPUS"},
    "f.aiff": {},
    "g.AIF": {"format": "AIFF"},
    "h.au": {},
    "i.caf": {},
    "j.w64": {},
    "k.sph": {"format": "NIST"},
    "l.oga": {"format": "OGG", "subtype": "VORBIS"},
}


def sound(path: Path, **fields: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.zeros(16_000), 16_000, **fields)
    return path


def texts(corpus: Corpus) -> dict[str, str | None]:
    return {utterance.id: utterance.text for utterance in corpus.utterances}


def test_a_folder_of_audio_alone_in_every_format(tmp_path: Path) -> None:
    for name, fields in FORMATS.items():
        sound(tmp_path / name, **fields)
    corpus = load_corpus(tmp_path)
    assert texts(corpus) == dict.fromkeys("abcdefghijkl")
    assert corpus.problems == ()
    for utterance in corpus.utterances:
        assert load(utterance.path, 16_000).duration_s == pytest.approx(1.0, abs=0.1)


def test_part_of_a_folder_has_transcripts(tmp_path: Path) -> None:
    for name in ("one", "two", "deep/three", "four"):
        sound(tmp_path / f"{name}.wav")
    (tmp_path / "transcripts.txt").write_text("one Good morning\n")
    (tmp_path / "two.txt").write_text("[noise]")
    corpus = load_corpus(tmp_path)
    assert texts(corpus) == {"one": "Good morning", "two": None, "deep/three": None, "four": None}
    assert corpus.problems == ()


def test_a_manifest_needs_no_text(tmp_path: Path) -> None:
    lines = [{}, {"text": None}, {"text": ""}, {"text": "-"}, {"text": "words"}]
    for number, _ in enumerate(lines):
        sound(tmp_path / f"{number}.wav")
    rows = [{"audio_filepath": f"{number}.wav", **line} for number, line in enumerate(lines)]
    (tmp_path / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = load_corpus(tmp_path / "m.jsonl")
    assert texts(corpus) == {"0": None, "1": None, "2": None, "3": None, "4": "words"}
    assert corpus.problems == ()


def test_one_audio_file_is_a_corpus(tmp_path: Path) -> None:
    corpus = load_corpus(sound(tmp_path / "talk.WAV", format="WAV"))
    assert (corpus.name, texts(corpus), corpus.problems) == ("talk", {"talk": None}, ())
    (tmp_path / "talk.txt").write_text("Hello\nthere")
    (tmp_path / "other.txt").write_text("no audio of this is looked for")
    corpus = load_corpus(tmp_path / "talk.WAV")
    assert (texts(corpus), corpus.problems) == ({"talk": "Hello there"}, ())


def test_recordings_that_cannot_be_read_say_what_to_do(tmp_path: Path) -> None:
    for name in ("a.m4a", "b.M4A", "c.mp4", "good.mp4"):
        (tmp_path / name).write_bytes(b"\0\0\0\x18ftypM4A ")
    sound(tmp_path / "good.wav")
    corpus = load_corpus(tmp_path)
    assert texts(corpus) == {"good": None}
    assert [f"{problem.where}: {problem.message}" for problem in corpus.problems] == [
        "a.m4a (and 1 more): stopwav does not read .m4a files; convert it: ffmpeg -i a.m4a a.wav",
        "c.mp4: stopwav does not read .mp4 files; convert it: ffmpeg -i c.mp4 c.wav",
    ]
    with pytest.raises(StopwavError, match=r"a\.m4a: stopwav does not read \.m4a files; convert it: ffmpeg -i a\.m4a"):
        load_corpus(tmp_path / "a.m4a")


def test_a_usual_format_is_used_before_another_of_the_same_name(tmp_path: Path) -> None:
    sound(tmp_path / "x.aiff")
    sound(tmp_path / "x.wav").with_suffix(".txt").write_text("words")
    assert [utterance.path.name for utterance in load_corpus(tmp_path).utterances] == ["x.wav"]


def test_only_what_has_a_transcript_is_aligned(tmp_path: Path) -> None:
    sound(tmp_path / "alone.wav")
    corpus = align_corpus(load_corpus(tmp_path))
    assert (corpus.utterances[0].words, corpus.problems) == ((), ())


def test_word_times_are_a_transcript(tmp_path: Path) -> None:
    sound(tmp_path / "x.wav")
    (tmp_path / "w.ctm").write_text("x 1 0.1 0.2 Good\nx 1 0.3 0.1 <sil>\nx 1 0.4 0.2 morning\n")
    (utterance,) = load_corpus(tmp_path, tmp_path / "w.ctm").utterances
    assert utterance.text == "good morning"
    assert utterance.words == (Word("good", 0.1, 0.3), Word("morning", 0.4, 0.6))


def test_the_digest_of_transcribed_corpora_is_the_one_of_earlier_runs(tmp_path: Path) -> None:
    size = sound(tmp_path / "a.wav").stat().st_size
    (tmp_path / "a.txt").write_text("words")
    line = json.dumps(["a", "words", size, 0.0, None, []]) + "\n"
    assert load_corpus(tmp_path).digest == hashlib.sha256(line.encode()).hexdigest()[:16]
    (tmp_path / "a.txt").unlink()
    assert load_corpus(tmp_path).digest != hashlib.sha256(line.encode()).hexdigest()[:16]
