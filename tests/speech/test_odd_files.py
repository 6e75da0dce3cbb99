"""Corpora with pipes, devices, sockets, dangling links, impossible times: each is a problem, and the rest is used."""

from __future__ import annotations

import gzip
import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import soundfile

from stopwav.errors import StopwavError
from stopwav.speech import ctm
from stopwav.speech.corpus import Corpus, load_corpus
from stopwav.speech.shapes import load_shapes

# A number that is an integer in JSON, and infinity as a float.
HUGE = "9" * 400


def zero_link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def dangling_link(path: Path) -> None:
    path.symlink_to("/nowhere/at/all")


def listening_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(path))  # a short name: an address has 108 bytes


KINDS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "device": zero_link,
    "link": dangling_link,
    "socket": listening_socket,
}
SAID = {"link": "is a link to nothing"}


def write_sound(path: Path, seconds: float = 0.5) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.full(round(16_000 * seconds), 0.1), 16_000)


def where_and_why(corpus: Corpus) -> dict[str, str]:
    assert all("\n" not in problem.message for problem in corpus.problems)
    return {problem.where: problem.message for problem in corpus.problems}


def folder(root: Path) -> tuple[Path, str]:
    (root / "odd.txt").write_text("hello there")
    return root, "odd.wav"


def librispeech_tree(root: Path) -> tuple[Path, str]:
    (root / "1-2.trans.txt").write_text("good hello\nodd there\n")
    return root, "1-2.trans.txt:2"


def nemo_manifest(root: Path) -> tuple[Path, str]:
    lines = [json.dumps({"audio_filepath": f"{name}.wav", "text": "hello"}) for name in ("good", "odd")]
    (root / "m.jsonl").write_text("\n".join(lines))
    return root / "m.jsonl", "m.jsonl:2"


def kaldi_folder(root: Path) -> tuple[Path, str]:
    (root / "wav.scp").write_text("good good.wav\nodd odd.wav\n")
    (root / "text").write_text("good hello\nodd there\n")
    return root, "text:2"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", [folder, librispeech_tree, nemo_manifest, kaldi_folder])
def test_audio_that_is_no_file_is_a_problem(
    layout: Callable[[Path], tuple[Path, str]], kind: str, tmp_path: Path
) -> None:
    write_sound(tmp_path / "good.wav")
    KINDS[kind](tmp_path / "odd.wav")
    source, place = layout(tmp_path)
    corpus = load_corpus(source)
    assert [utterance.id for utterance in corpus.utterances] == ["good"]
    assert SAID.get(kind, "is a pipe, a socket or a device, not a file") in where_and_why(corpus)[place]


@pytest.mark.parametrize("kind", KINDS)
def test_texts_that_are_no_files_are_problems(kind: str, tmp_path: Path) -> None:
    for name in ("good", "odd"):
        write_sound(tmp_path / "single" / f"{name}.wav")
    (tmp_path / "single" / "good.txt").write_text("hello")
    KINDS[kind](tmp_path / "single" / "odd.txt")
    corpus = load_corpus(tmp_path / "single")
    assert [utterance.id for utterance in corpus.utterances] == ["good"]
    assert list(where_and_why(corpus)) == ["odd.txt"]

    write_sound(tmp_path / "list" / "a.wav")
    KINDS[kind](tmp_path / "list" / "transcripts.txt")
    corpus = load_corpus(tmp_path / "list")
    assert [(utterance.id, utterance.text) for utterance in corpus.utterances] == [("a", None)]
    assert list(where_and_why(corpus)) == ["transcripts.txt"]


@pytest.mark.parametrize("kind", KINDS)
def test_kaldi_tables_that_are_no_files_are_problems(kind: str, tmp_path: Path) -> None:
    write_sound(tmp_path / "a.wav")
    (tmp_path / "wav.scp").write_text("a a.wav\n")
    for name in ("text", "utt2spk"):
        KINDS[kind](tmp_path / name)
    assert sorted(where_and_why(load_corpus(tmp_path))) == ["text", "utt2spk"]
    KINDS[kind](tmp_path / "segments")
    with pytest.raises(StopwavError, match="no usable utterance"):  # and not the whole recording for its segments
        load_corpus(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_that_is_no_file_is_an_error(kind: str, tmp_path: Path) -> None:
    for suffix in (".wav", ".jsonl", ".json", ""):
        KINDS[kind](tmp_path / f"odd{suffix}")
        with pytest.raises(StopwavError, match=SAID.get(kind, "is a pipe, a socket or a device")):
            load_corpus(tmp_path / f"odd{suffix}")
    for suffix in (".csv", ".jsonl.gz"):
        KINDS[kind](tmp_path / f"odd{suffix}")
        with pytest.raises(StopwavError):
            load_shapes(tmp_path / f"odd{suffix}", tokenizer="words")
    KINDS[kind](tmp_path / "odd.ctm")
    with pytest.raises(StopwavError, match=SAID.get(kind, "is a pipe, a socket or a device")):
        ctm.read(tmp_path / "odd.ctm")


def test_a_folder_that_may_not_be_read_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_sound(tmp_path / "a.wav")
    (tmp_path / "closed").mkdir()
    scan = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)  # the tests may run as root, who may read everything
    problems = where_and_why(load_corpus(tmp_path))
    assert problems == {"closed": "the folder cannot be read (Permission denied); check its permissions"}


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-1", "1e300", "20000", HUGE, "true", "[]"])
def test_impossible_durations_are_problems(value: str, tmp_path: Path) -> None:
    write_sound(tmp_path / "a.wav")
    (tmp_path / "m.jsonl").write_text(
        f'{{"audio_filepath": "a.wav", "id": "bad", "duration": {value}}}\n{{"audio_filepath": "a.wav", "id": "ok"}}\n'
    )
    corpus = load_corpus(tmp_path / "m.jsonl")
    assert [utterance.id for utterance in corpus.utterances] == ["ok"]
    assert list(where_and_why(corpus)) == ["m.jsonl:1"]


def test_impossible_segments_are_problems(tmp_path: Path) -> None:
    write_sound(tmp_path / "r.wav")
    (tmp_path / "wav.scp").write_text("r r.wav\n")
    ends = ["nan", "inf", HUGE, "1e300", "20000", "-5"]
    (tmp_path / "segments").write_text("ok r 0 0.4\n" + "".join(f"s{n} r 0 {end}\n" for n, end in enumerate(ends)))
    corpus = load_corpus(tmp_path)
    assert [utterance.id for utterance in corpus.utterances] == ["ok"]
    assert len(corpus.problems) == len(ends)


@pytest.mark.parametrize("time", ["nan", "inf", HUGE, "1e300", "1e308", "-1e300"])
def test_impossible_times_in_a_ctm_are_an_error_that_names_the_line(time: str, tmp_path: Path) -> None:
    for line in (f"a 1 {time} 0.1 hi", f"a 1 0.1 {time} hi"):
        (tmp_path / "w.ctm").write_text(line)
        with pytest.raises(StopwavError, match=r"w\.ctm:1: '.{1,40}' is not a time of an utterance in seconds"):
            ctm.read(tmp_path / "w.ctm")


def test_a_word_after_the_end_of_the_audio_is_a_problem(tmp_path: Path) -> None:
    write_sound(tmp_path / "a.wav", 1.0)
    (tmp_path / "a.txt").write_text("good morning")
    (tmp_path / "w.ctm").write_text("a 1 0.1 0.3 good\na 1 50.1 0.3 morning\n")
    corpus = load_corpus(tmp_path / "a.wav", tmp_path / "w.ctm")
    assert corpus.utterances[0].words == ()
    assert "'morning' starts at 50.100 s, after the audio ends" in where_and_why(corpus)["a"]


@pytest.mark.parametrize("value", ["NaN", "-1", "1e300", "Infinity", HUGE, "null", "true", "[]"])
def test_impossible_durations_of_shapes_name_their_line(value: str, tmp_path: Path) -> None:
    path = tmp_path / "cuts.jsonl"
    path.write_text(f'{{"duration": 2, "text": "hi"}}\n{{"duration": {value}, "text": "hi"}}\n')
    with pytest.raises(StopwavError, match=r"cuts\.jsonl:2: .* is not a number of seconds"):
        load_shapes(path, tokenizer="words")
    (tmp_path / "text").write_text("a hi\n")
    (tmp_path / "utt2dur").write_text(f"a {value}\n")
    with pytest.raises(StopwavError, match=r"utt2dur:1: the duration .* is not a number of seconds"):
        load_shapes(tmp_path, tokenizer="words")


def test_a_text_of_null_is_not_the_word_none(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"duration": 2, "text": null}\n')
    with pytest.raises(StopwavError, match=r"m\.jsonl:1: .*the text is None, not a string"):
        load_shapes(tmp_path / "m.jsonl", tokenizer="words")
    write_sound(tmp_path / "a.wav")
    (tmp_path / "m.jsonl").write_text('{"audio_filepath": "a.wav", "text": null}\n')
    assert load_corpus(tmp_path / "m.jsonl").utterances[0].text is None


def test_damaged_gzip_and_deep_json_are_errors_in_one_line(tmp_path: Path) -> None:
    whole = gzip.compress(b'{"duration": 2, "text": "hi there"}\n' * 500)
    for number in range(len(whole)):
        damaged = bytearray(whole)
        damaged[number] ^= 0x55
        (tmp_path / "cuts.jsonl.gz").write_bytes(damaged)
        with suppress(StopwavError):
            load_shapes(tmp_path / "cuts.jsonl.gz", tokenizer="words")
    (tmp_path / "cuts.jsonl.gz").write_bytes(whole[:-20])
    with pytest.raises(StopwavError, match="cannot read"):
        load_shapes(tmp_path / "cuts.jsonl.gz", tokenizer="words")
    (tmp_path / "deep.jsonl").write_text("[" * 100_000)
    with pytest.raises(StopwavError, match="not JSON"):
        load_shapes(tmp_path / "deep.jsonl", tokenizer="words")


def test_shapes_say_how_many_utterances_they_left_out(tmp_path: Path) -> None:
    write_sound(tmp_path / "a.wav")
    (tmp_path / "a.txt").write_text("hi")
    dangling_link(tmp_path / "b.wav")
    assert "1 unusable left out (b.wav: no audio for b" in load_shapes(tmp_path, tokenizer="words").note


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"T,U\n{HUGE},3\n", "not a file of shapes"),
        ("T,U\n9000000000000000000,3\n", "correct what is over 1e\\+09"),
        ("# subsampling: 0\n# digest: x\nT,U\n100,3\n", "subsampling by 0; give 1 to 1000"),
        (f"# subsampling: {HUGE}\n# digest: x\nT,U\n100,3\n", "give 1 to 1000"),
        ("t_low,t_high,u_low,u_high,count\n5,6,3,4,0\n", "the counts of its bins"),
    ],
)
def test_absurd_shapes_are_errors_in_one_line(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(content)
    with pytest.raises(StopwavError, match=said):
        load_shapes(tmp_path / "s.csv")
