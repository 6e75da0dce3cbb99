"""Corpora in everyone's formats: the same audio, texts and speakers from each; what is wrong is named and left out."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from written_corpora import FORMATS, RATE_HZ, Spoken, Written, cuts, folder, make_spoken, stm

from stopwav.errors import StopwavError
from stopwav.speech.audio import load, load_utterance
from stopwav.speech.corpora.name import located, parse_name
from stopwav.speech.corpus import Corpus, is_audio_file, load_corpus

Write = Callable[[Path, Sequence[Spoken]], Written]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STOPWAV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path / "cache"


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


# Names with options


def test_a_path_is_the_whole_name_where_it_exists(tmp_path: Path) -> None:
    noise(tmp_path / "a,split=test/x.wav")
    assert parse_name(str(tmp_path / "a,split=test")).options == {}
    assert texts(load_corpus(tmp_path / "a,split=test")) == {"x": None}
    name = parse_name("hf:owner/name,config=de,text=a=b")
    assert (name.source, name.options) == ("hf:owner/name", {"config": "de", "text": "a=b"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("splt=test", "unknown option 'splt': did you mean 'split'?"),
        ("split=dev", r"there is no dev.tsv; choose with split=, there are test, train"),
        ("text=words", "there is no column 'words' for text; it has client_id, path, sentence"),
        ("split=test,split=dev", "option 'split' is given twice"),
        ("split=", "option 'split' has no value"),
    ],
)
def test_wrong_options_are_named(options: str, said: str, tmp_path: Path) -> None:
    from written_corpora import common_voice

    common_voice(tmp_path / "cv", make_spoken())
    assert said in refusal(f"{tmp_path}/cv,{options}")


def test_a_format_without_options_says_so(tmp_path: Path) -> None:
    noise(tmp_path / "x/a.wav")
    assert "unknown option 'split': this format takes no options" in refusal(f"{tmp_path}/x,split=test")


def test_names_that_hold_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    assert located("data") == f"{tmp_path}/data"
    assert located("hf:data,split=test") == f"hf:{tmp_path}/data,split=test"
    assert located("hf:owner/name,split=test") == "hf:owner/name,split=test"
    assert located("bundled") == "bundled"
    assert located("a.stm,audio_folder=data") == f"{tmp_path}/a.stm,audio_folder={tmp_path}/data"


def test_which_names_are_those_of_one_audio_file(tmp_path: Path) -> None:
    noise(tmp_path / "a.wav")
    (tmp_path / "t.csv").write_text("path\na.wav\n")
    assert is_audio_file(str(tmp_path / "a.wav"))
    assert not any(map(is_audio_file, [str(tmp_path), str(tmp_path / "t.csv"), "bundled", "hf:a/b"]))


# Tables


def test_a_table_names_what_is_wrong(tmp_path: Path) -> None:
    noise(tmp_path / "a.wav", 1.0)
    rows = [
        "ID,wav,start,end,wrd,spk_id,language",
        'one,a.wav,,,"Hello, there",ann,en',
        "two,a.wav,0.25,0.75,a part,bob,de",
        "three,a.wav,0.5,0.5,no time,,",
        "four,a.wav,soon,,a word,,",
        "five,gone.wav,,,a word,,",
        "one,a.wav,,,again,,",
        "six,a.wav,too few",
        "",
        "seven,a.wav,0,1e9,long,,",
    ]
    (tmp_path / "t.csv").write_text("\r\n".join(rows), encoding="utf-8-sig")
    corpus = load_corpus(tmp_path / "t.csv")
    assert [(u.id, u.text, u.start_s, u.end_s, u.speaker, u.language) for u in corpus.utterances] == [
        ("one", "Hello, there", 0.0, None, "ann", "en"),
        ("two", "a part", 0.25, 0.75, "bob", "de"),
    ]
    said = complaints(corpus)
    for start in (
        "t.csv:4: an utterance cannot last from 0.5 s to 0.5 s",
        "t.csv:5: key 'start' is 'soon', not a number of seconds",
        "t.csv:6: no audio for five",
        "t.csv:7: id one appears twice",
        "t.csv:8: 3 fields where the header has 7",
        "t.csv:10: 2.78e+05 h are too long",
    ):
        assert any(line.startswith(start) for line in said), (start, said)
    assert len(said) == 6


def test_quotes_in_a_tsv_are_part_of_the_text(tmp_path: Path) -> None:
    noise(tmp_path / "a.wav")
    noise(tmp_path / "b.wav")
    (tmp_path / "t.tsv").write_text('path\tsentence\na.wav\t"He said\nb.wav\tno"\n')
    assert texts(load_corpus(tmp_path / "t.tsv")) == {"a": '"He said', "b": 'no"'}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no column of audio files"),
        (b"name,words\na,b\n", "name one of its columns with audio=: name, words"),
        ("path,text\nä.wav,b\n".encode("latin1"), "is not UTF-8"),
        (b"path,text\n" + b'a.wav,"' + b"x" * 200_000, "not a row of a table (field larger than field limit"),
        (b"path,text\n\0,\0\n", "no audio for"),
    ],
)
def test_what_is_no_table_of_audio(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    assert said in refusal(tmp_path / "t.csv")


def test_audiofolder_by_json_lines(tmp_path: Path) -> None:
    noise(tmp_path / "one.wav")
    (tmp_path / "metadata.jsonl").write_text('{"file_name": "one.wav", "transcription": "Hi"}\n')
    assert texts(load_corpus(tmp_path)) == {"one": "Hi"}
    assert texts(load_corpus(f"hf:{tmp_path}")) == {"one": "Hi"}, "needs no package"


# WebDataset


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


# STM and RTTM


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


# Lhotse


@pytest.fixture
def lhotse() -> Any:
    return pytest.importorskip("lhotse", reason="needs lhotse: pip install 'stopwav[lhotse]'")


def test_cuts_that_lhotse_has_to_make(lhotse: Any, tmp_path: Path, cache: Path) -> None:
    """Mixed, padded and perturbed cuts sound as lhotse makes them; they are made once."""
    plain = list(lhotse.CutSet.from_file(cuts(tmp_path / "x", make_spoken()).name))
    changed = [plain[0].append(plain[2]).with_id("mixed"), plain[1].pad(duration=3.0).with_id("padded")]
    changed += [plain[2].perturb_speed(1.1).with_id("faster")]
    lhotse.CutSet.from_cuts(changed).to_file(tmp_path / "changed.jsonl.gz")
    corpus = load_corpus(tmp_path / "changed.jsonl.gz")
    assert complaints(corpus) == []
    by_id = {utterance.id: utterance for utterance in corpus.utterances}
    for cut in changed:
        heard = load_utterance(by_id[cut.id], RATE_HZ).samples
        np.testing.assert_allclose(heard, np.clip(cut.load_audio()[0], -1, 1), atol=1e-6)
    assert by_id["mixed"].text == "one one two three"
    second_s = plain[0].duration
    expected = [(0.2, 0.4), *((second_s + a, second_s + b) for a, b in ((0.2, 0.4), (0.6, 0.8), (1.0, 1.2)))]
    assert [(w.start_s, w.end_s) for w in by_id["mixed"].words] == [pytest.approx(pair) for pair in expected]
    made = {path: path.stat().st_mtime_ns for path in cache.rglob("*.wav")}
    assert len(made) == 3
    assert load_corpus(tmp_path / "changed.jsonl.gz").digest == corpus.digest
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.wav")} == made


def test_without_lhotse_only_changed_cuts_are_left_out(
    lhotse: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = list(lhotse.CutSet.from_file(cuts(tmp_path / "x", make_spoken()).name))
    lhotse.CutSet.from_cuts([*plain, plain[0].append(plain[1])]).to_file(tmp_path / "c.jsonl")
    monkeypatch.setitem(sys.modules, "lhotse", None)
    corpus = load_corpus(tmp_path / "c.jsonl")
    assert len(corpus.utterances) == len(plain)
    (complaint,) = complaints(corpus)
    assert complaint.startswith(
        "c.jsonl:7: it is mixed or changed, and lhotse is not installed: pip install 'stopwav[l"
    )
    monkeypatch.setenv("STOPWAV_CACHE", "")
    assert "set STOPWAV_CACHE" in complaints(load_corpus(tmp_path / "c.jsonl"))[0]


def cut(**changes: Any) -> dict[str, Any]:
    source = {"type": "file", "channels": [0], "source": "a.wav", **changes.pop("source", {})}
    recording = {"id": "a", "sources": [source], "sampling_rate": 16000, "num_samples": 16000, "duration": 1.0}
    supervision = {"id": "s", "recording_id": "a", "start": 0.0, "duration": 1.0, "channel": 0, "text": "hi"}
    base = {"id": "c", "start": 0.0, "duration": 1.0, "channel": 0, "type": "MonoCut"}
    return {**base, "supervisions": [supervision], "recording": recording, **changes}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            cut(source={"type": "command", "source": "touch ran; cat a.wav"}),
            "its audio is of type 'command'; stopwav r",
        ),
        (cut(source={"type": "url", "source": "http://127.0.0.1:9/a.wav"}), "its audio is of type 'url'"),
        (cut(source={"source": "gone.wav"}), "no audio: "),
        (cut(recording=None), "it has no recording, only features or nothing"),
        (cut(start=-1.0), "-1.0 is not a time in seconds"),
        (cut(duration=float("nan")), "nan is not a time in seconds"),
        (cut(duration="long"), "not a cut as Lhotse writes it (ValueError"),
        (cut(duration=0.5), "its supervision reaches beyond it; trim the cuts to their supervisions"),
        (cut(channel=7), "it is mixed or changed, and lhotse is not installed"),
        (cut(supervisions=[7]), "not a cut as Lhotse writes it (TypeError"),
        ({"type": "MonoCut", "id": "x"}, "it has no recording"),
        (cut(recording={"id": "a"}), "not a cut as Lhotse writes it (KeyError"),
        (cut(id="good"), "id good appears twice"),
        (cut(duration=1e9), "too long for one utterance"),
    ],
)
def test_a_wrong_cut_is_named_and_the_rest_goes_on(
    wrong: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "lhotse", None)
    noise(tmp_path / "a.wav", 1.0)
    (tmp_path / "c.jsonl").write_text(f"{json.dumps(cut(id='good'))}\n{json.dumps(wrong)}\n")
    corpus = load_corpus(tmp_path / "c.jsonl")
    assert texts(corpus) == {"good": "hi"}
    (complaint,) = complaints(corpus)
    assert complaint.startswith("c.jsonl:2: ")
    assert said in complaint
    assert not (tmp_path / "ran").exists()


def test_alignments_that_cannot_be_leave_the_utterance_without_times(tmp_path: Path) -> None:
    noise(tmp_path / "a.wav", 1.0)
    supervision = {**cut()["supervisions"][0], "alignment": {"word": [["hi", 5.0, 0.5, None]]}}
    (tmp_path / "c.json").write_text(json.dumps([cut(supervisions=[supervision])], indent=1))
    corpus = load_corpus(tmp_path / "c.json")
    assert corpus.utterances[0].words == ()
    assert complaints(corpus)[0].startswith("c: c.json: 'hi' starts at 5.000 s, after the audio ends")


def test_one_file_for_each_channel(tmp_path: Path) -> None:
    for channel in range(2):
        noise(tmp_path / f"{channel}.wav", 1.0, seed=channel)
    sources = [{"type": "file", "channels": [channel], "source": f"{channel}.wav"} for channel in range(2)]
    lines = [cut(id=f"c{channel}", channel=channel) for channel in range(2)]
    for line in lines:
        line["recording"]["sources"] = sources
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for channel, utterance in enumerate(load_corpus(tmp_path / "c.jsonl").utterances):
        expected = load(tmp_path / f"{channel}.wav", RATE_HZ).samples
        assert np.array_equal(load_utterance(utterance, RATE_HZ).samples, expected)


@pytest.mark.parametrize("other", ["results.parquet", "backup.tar", "notes.csv", "metadata.csv"])
def test_what_lies_next_to_audio_files_is_not_the_corpus(other: str, tmp_path: Path) -> None:
    noise(tmp_path / "a.wav").with_suffix(".txt").write_text("hello")
    (tmp_path / other).write_bytes(b"anything")
    assert texts(load_corpus(tmp_path)) == {"a": "hello"}


def test_stm_folders(tmp_path: Path) -> None:
    written = stm(tmp_path / "x", make_spoken())
    by_file = load_corpus(written.name)
    by_folder = load_corpus(f"{tmp_path}/x,audio_folder={tmp_path}/x/audio")
    assert [replace_path(u) for u in by_folder.utterances] == [replace_path(u) for u in by_file.utterances]


def replace_path(utterance: Any) -> Any:
    return (utterance.id, os.path.realpath(utterance.path), utterance.text, utterance.start_s, utterance.end_s)
