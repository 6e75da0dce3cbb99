"""Corpora in the formats people have, whole and broken."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from stopwav.errors import StopwavError
from stopwav.speech.corpus import Corpus, load_corpus

SHARED = Path("../shared/data/librispeech")


def sound(path: Path, seconds: float = 0.1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.zeros(round(16_000 * seconds)), 16_000)
    return path


def manifest(folder: Path, *lines: object, name: str = "manifest.jsonl") -> Path:
    path = folder / name
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def texts(corpus: Corpus) -> dict[str, str | None]:
    return {utterance.id: utterance.text for utterance in corpus.utterances}


def complaints(corpus: Corpus) -> list[str]:
    assert all("\n" not in problem.where + problem.message for problem in corpus.problems)
    return [f"{problem.where}: {problem.message}" for problem in corpus.problems]


# A folder of audio


def test_a_folder_with_texts_beside_the_audio(tmp_path: Path) -> None:
    for name, text in (("b/two.flac", "The second\n one.\n"), ("one.wav", "\ufeffFirst.\r\n"), ("THREE.WAV", "Third")):
        sound(tmp_path / name).with_suffix(".txt").write_text(text, encoding="utf-8")
    (tmp_path / "README.txt").write_text("What this is.")
    corpus = load_corpus(tmp_path)
    assert texts(corpus) == {"THREE": "Third", "b/two": "The second one.", "one": "First."}
    assert complaints(corpus) == []
    assert [utterance.id for utterance in corpus.utterances] == sorted(texts(corpus))


def test_a_folder_with_a_list(tmp_path: Path) -> None:
    sound(tmp_path / "a.flac")
    sound(tmp_path / "deep/er/b.ogg")
    sound(tmp_path / "c.mp3")
    (tmp_path / "transcripts.txt").write_bytes(
        "\ufeffa\tHello there\r\n\r\nb  It’s me\r\nc.mp3 naïve café\r\n".encode()
    )
    corpus = load_corpus(str(tmp_path))
    assert texts(corpus) == {"a": "Hello there", "b": "It’s me", "c.mp3": "naïve café"}
    assert complaints(corpus) == []


def test_what_a_folder_lacks_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    sound(tmp_path / "good.wav")
    sound(tmp_path / "silent.wav")
    sound(tmp_path / "alone.wav")
    (tmp_path / "transcripts.txt").write_bytes(b"good one\ngood two\nlost three\nsilent ...\ncaf\xe9 four\n")
    corpus = load_corpus(tmp_path)
    assert texts(corpus) == {"good": "one", "silent": None, "alone": None}
    said = complaints(corpus)
    assert len(said) == 3
    assert any(line.startswith("transcripts.txt:2: id good appears twice") for line in said)
    assert any(line.startswith("transcripts.txt:3: no audio for lost") for line in said)
    assert any(line.startswith("transcripts.txt:5: not UTF-8") for line in said)


def test_a_transcript_that_lost_its_audio(tmp_path: Path) -> None:
    sound(tmp_path / "a.wav").with_suffix(".txt").write_text("here")
    (tmp_path / "b.txt").write_text("gone")
    assert complaints(load_corpus(tmp_path)) == ["b.txt: no audio for this transcript; add b.wav"]


def test_two_files_of_one_id(tmp_path: Path) -> None:
    sound(tmp_path / "a.wav").with_suffix(".txt").write_text("words")
    sound(tmp_path / "a.flac")
    sound(tmp_path / "x/t.wav")
    sound(tmp_path / "y/t.wav")
    (tmp_path / "transcripts.txt").write_text("t more words")
    corpus = load_corpus(tmp_path)
    assert {utterance.id: utterance.path.name for utterance in corpus.utterances} == {"a": "a.flac", "t": "t.wav"}
    assert [problem.where for problem in corpus.problems] == ["y/t.wav", "a.wav"]


def test_a_librispeech_tree(tmp_path: Path) -> None:
    for speaker, chapter in (("84", "121123"), ("174", "50561")):
        folder = tmp_path / "dev-clean" / speaker / chapter
        for number in range(2):
            sound(folder / f"{speaker}-{chapter}-{number:04d}.flac")
        lines = "".join(f"{speaker}-{chapter}-{number:04d} GO {number} ON\n" for number in range(2))
        (folder / f"{speaker}-{chapter}.trans.txt").write_text(lines)
    corpus = load_corpus(tmp_path)
    assert [(utterance.id, utterance.speaker) for utterance in corpus.utterances] == [
        ("174-50561-0000", "174"),
        ("174-50561-0001", "174"),
        ("84-121123-0000", "84"),
        ("84-121123-0001", "84"),
    ]
    assert load_corpus(tmp_path / "dev-clean/84/121123").utterances[0].speaker == "84"


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the shared LibriSpeech utterances")
def test_real_librispeech() -> None:
    corpus = load_corpus(SHARED)
    assert len(corpus.utterances) == 8
    assert corpus.problems == ()


# A NeMo manifest


def test_a_manifest(tmp_path: Path) -> None:
    sound(tmp_path / "audio/a.wav", 3.0)
    elsewhere = sound(tmp_path / "other/b.wav")
    path = manifest(
        tmp_path / "audio",
        {"audio_filepath": "a.wav", "text": "whole", "duration": 3.0},
        {"audio_filepath": "a.wav", "text": "part", "duration": 0.5, "offset": 1.25, "speaker": 7},
        "",
        {"audio_filepath": str(elsewhere), "text": "far", "id": "the third"},
    )
    corpus = load_corpus(path)
    assert complaints(corpus) == []
    assert {(u.id, u.text, u.start_s, u.end_s, u.speaker) for u in corpus.utterances} == {
        ("a", "whole", 0.0, 3.0, ""),
        ("a@1.250", "part", 1.25, 1.75, "7"),
        ("the_third", "far", 0.0, None, ""),
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"audio_filepath": "a.wav", ', "not JSON ("),
        ("[1, 2]", "a list, not an object"),
        ("null", "not an object"),
        ("[" * 100_000, "not JSON ("),
        ('{"duration": 1' + "0" * 5000 + "}", "not JSON ("),
        ({"text": "hi"}, "key 'audio_filepath' is missing"),
        ({"audio_filepath": "a.wav", "text": 5}, "key 'text' is 5, not a string"),
        ({"audio_filepath": ["a.wav"], "text": "hi"}, "key 'audio_filepath' is ['a.wav'], not a string"),
        ({"audio_filepath": "a.wav", "text": "hi", "duration": -1}, "key 'duration' is -1, not a number of seconds"),
        ({"audio_filepath": "a.wav", "text": "hi", "duration": 0}, "key 'duration' is 0"),
        ({"audio_filepath": "a.wav", "text": "hi", "offset": "soon"}, "key 'offset' is 'soon'"),
        ({"audio_filepath": "a.wav", "text": "hi", "offset": True}, "key 'offset' is True"),
        ('{"audio_filepath": "a.wav", "text": "hi", "duration": NaN}', "key 'duration' is nan"),
        ({"audio_filepath": "a.wav", "text": "hi", "duration": 10**400}, "key 'duration' is 1000"),
        ({"audio_filepath": "gone.wav", "text": "hi"}, "no audio for gone"),
        ({"audio_filepath": "nul\0.wav", "text": "hi"}, "no audio for nul_"),
        ({"audio_filepath": "x" * 5000, "text": "hi"}, "no audio for x"),
        ({"audio_filepath": "", "text": "hi"}, "no audio for"),
        ({"audio_filepath": "good.wav", "text": "again"}, "id good appears twice"),
    ],
)
def test_a_bad_line_is_named_and_the_rest_goes_on(tmp_path: Path, line: object, said: str) -> None:
    sound(tmp_path / "a.wav")
    sound(tmp_path / "good.wav")
    corpus = load_corpus(manifest(tmp_path, {"audio_filepath": "good.wav", "text": "fine"}, line))
    assert texts(corpus) == {"good": "fine"}
    (complaint,) = complaints(corpus)
    assert complaint.startswith("manifest.jsonl:2: ")
    assert said in complaint


def test_ids_of_any_shape(tmp_path: Path) -> None:
    names = ["a b", "dir/c", "日本", "e\u0301", "tab\tname", "x\u202ey", 'quote"']
    for name in names:
        sound(tmp_path / f"{name}.wav")
    corpus = load_corpus(manifest(tmp_path, *({"audio_filepath": f"{name}.wav", "text": "hi"} for name in names)))
    assert complaints(corpus) == []
    assert len(corpus.utterances) == len(names)
    assert all(len(utterance.id.split()) == 1 and utterance.id.isprintable() for utterance in corpus.utterances)


def test_half_a_surrogate_pair_can_be_saved(tmp_path: Path) -> None:
    sound(tmp_path / "a.wav")
    corpus = load_corpus(
        manifest(tmp_path, '{"audio_filepath": "a.wav", "text": "hi \\ud800 there", "id": "\\udfff1"}')
    )
    assert texts(corpus) == {"_1": "hi ? there"}
    assert len(corpus.digest.encode()) == 16


@given(st.lists(st.binary(max_size=80), max_size=6))
@settings(max_examples=100, deadline=None)
def test_no_manifest_crashes(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.jsonl"
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(StopwavError, match="has no usable utterance"):
        load_corpus(path)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=3)
KEYS = st.sampled_from(["audio_filepath", "text", "duration", "offset", "id", "speaker"])


@given(st.dictionaries(KEYS, JSON))
@settings(max_examples=200, deadline=None)
def test_no_object_crashes(tmp_path_factory: pytest.TempPathFactory, entry: dict[str, object]) -> None:
    folder = tmp_path_factory.getbasetemp()
    if not (folder / "good.wav").exists():
        sound(folder / "good.wav")
    path = manifest(
        folder, {"audio_filepath": "good.wav", "text": "fine", "id": "a good one"}, entry, name="objects.jsonl"
    )
    assert texts(load_corpus(path)) == {"a_good_one": "fine"}


# A Kaldi data folder


def kaldi(folder: Path, **files: str) -> Path:
    sound(folder / "audio/r1.wav", 5.0)
    sound(folder / "audio/r2.wav", 5.0)
    defaults = {"wav.scp": "r1 audio/r1.wav\nr2 audio/r2.wav\n", "text": "r1 HELLO\nr2 WORLD\n"}
    for name, content in (defaults | {key.replace("_", "."): text for key, text in files.items()}).items():
        (folder / name).write_text(content, encoding="utf-8")
    return folder


def test_a_kaldi_folder(tmp_path: Path) -> None:
    corpus = load_corpus(kaldi(tmp_path, utt2spk="r1 ann\nr2 bob\n"))
    assert [(u.id, u.text, u.speaker) for u in corpus.utterances] == [("r1", "HELLO", "ann"), ("r2", "WORLD", "bob")]
    assert complaints(corpus) == []


def test_kaldi_segments(tmp_path: Path) -> None:
    segments = "u1 r1 0.5 1.5\nu2 r1 2 -1\nu3 r9 0 1\nu4 r2 3 2\nu5 r2 soon 2\nu6 r2 0\nu7 r2 0 inf\nu8 r2 0 1\n"
    text = "".join(f"u{number} WORD\n" for number in (*range(1, 8), 9))
    corpus = load_corpus(kaldi(tmp_path, segments=segments, text=text))
    assert [(u.id, u.start_s, u.end_s, u.text) for u in corpus.utterances] == [
        ("u1", 0.5, 1.5, "WORD"),
        ("u2", 2.0, None, "WORD"),
        ("u8", 0.0, 1.0, None),
    ]
    said = complaints(corpus)
    for start in (
        "segments:4: a segment cannot last from 3 s to 2 s",
        "segments:5: a segment is",
        "segments:6: a segment is",
        "segments:7: a segment cannot last",
        "text:3: no audio for u3: recording r9 is not in wav.scp",
        "text:8: no audio for u9",
    ):
        assert any(line.startswith(start) for line in said), (start, said)


@pytest.mark.parametrize("pipe", ["touch {0} |", "| touch {0}", "sox x.sph -t wav - | touch {0} |  "])
def test_commands_in_wav_scp_are_never_run(tmp_path: Path, pipe: str) -> None:
    trace = tmp_path / "was-run"
    corpus = load_corpus(kaldi(tmp_path, wav_scp=f"r1 {pipe.format(trace)}\nr2 audio/r2.wav\n"))
    assert not trace.exists()
    assert texts(corpus) == {"r2": "WORLD"}
    (complaint,) = complaints(corpus)
    assert complaint.startswith("text:1: no audio for r1: wav.scp:1 is a command, which stopwav never runs")


def test_kaldi_duplicates_boms_and_carriage_returns(tmp_path: Path) -> None:
    corpus = load_corpus(kaldi(tmp_path, text="\ufeffr1 ONE\r\nr1 TWO\r\nr2 THREE\r\n"))
    assert texts(corpus) == {"r1": "ONE", "r2": "THREE"}
    assert complaints(corpus) == ["text:2: id r1 is in text:1 already, which is used"]


def test_kaldi_without_text_and_paths_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = kaldi(tmp_path / "data", wav_scp="r1 data/audio/r1.wav\nr2 missing.wav\n")
    monkeypatch.chdir(tmp_path)
    assert texts(load_corpus("data")) == {"r1": "HELLO"}
    (folder / "text").unlink()
    corpus = load_corpus(folder)
    assert texts(corpus) == {"r1": None}
    assert [problem.where for problem in corpus.problems] == ["wav.scp:2"]
