"""CSV, TSV and JSON lines as corpora: what is wrong is named and left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus_reading import complaints, noise, refusal, texts

from stopwav.speech.corpus import load_corpus


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
