"""Hugging Face datasets: local ones as their package writes them, and one of a Hub that runs here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_hub import fake_hub
from written_corpora import RATE_HZ, Spoken, make_spoken, parquet, saved_dataset

from stopwav.errors import StopwavError
from stopwav.speech.audio import load_utterance
from stopwav.speech.corpora import hf_datasets
from stopwav.speech.corpus import Corpus, load_corpus

datasets = pytest.importorskip("datasets", reason="needs datasets: pip install 'stopwav[datasets]'")
datasets.disable_progress_bars()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STOPWAV_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def dataset(root: Path, **columns: Sequence[Any]) -> Path:
    """A saved dataset of some utterances with these columns besides, an item each."""
    spoken = make_spoken()
    saved_dataset(root, spoken)
    count = len(next(iter(columns.values()), spoken))
    rows = datasets.load_from_disk(str(root / "saved")).select(range(count)).remove_columns(["id", "sentence"])
    for name, values in columns.items():
        rows = rows.add_column(name, values)
    rows.save_to_disk(root / "other")
    return root / "other"


def refusal(source: str) -> str:
    with pytest.raises(StopwavError) as caught:
        load_corpus(source)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def sounds_as(corpus: Corpus, spoken: Sequence[Spoken]) -> None:
    by_text = {utterance.id: utterance for utterance in corpus.utterances}
    for expected in spoken:
        assert np.array_equal(load_utterance(by_text[expected.id], RATE_HZ).pcm16(), expected.samples)
        assert by_text[expected.id].text == expected.text


def test_columns_by_name_and_classes_by_theirs(tmp_path: Path) -> None:
    path = dataset(tmp_path, text=["a", "b"], raw_text=["A!", "B!"], speaker_id=[7, 8], language=[0, 1])
    rows = datasets.load_from_disk(str(path)).cast_column("language", datasets.ClassLabel(names=["de", "en"]))
    rows.save_to_disk(tmp_path / "classes")
    corpus = load_corpus(f"{tmp_path}/classes,text=raw_text")
    assert [(u.id, u.text, u.speaker, u.language) for u in corpus.utterances] == [
        ("u0-000000", "A!", "7", "de"),
        ("u1-000001", "B!", "8", "en"),
    ]
    assert corpus.problems == ()


def test_rows_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    path = dataset(tmp_path, text=["fine", None, "gone"], id=["same", "none", "lost"])
    rows = datasets.load_from_disk(str(path))
    audio = list(rows.cast_column("audio", datasets.Audio(decode=False))["audio"])
    audio[2] = {"path": "gone.wav", "bytes": None}
    lines = {
        "audio": [*audio, audio[0]],
        "text": ["fine", None, "gone", "again"],
        "id": ["same", "none", "lost", "same"],
    }
    datasets.Dataset.from_dict(lines).save_to_disk(tmp_path / "wrong")
    corpus = load_corpus(tmp_path / "wrong")
    assert {u.id: u.text for u in corpus.utterances} == {"same": "fine", "none": None}
    assert [f"{problem.where}: {problem.message}" for problem in corpus.problems] == [
        "row 2: no audio: gone.wav is not a file here",
        "row 3: id same appears twice; the first is used: rename this one",
    ]


def test_audio_that_is_a_file_is_read_there(tmp_path: Path, cache: Path) -> None:
    spoken = make_spoken()
    saved_dataset(tmp_path, spoken)
    paths = {"audio": [str(tmp_path / f"files/{u.id}.flac") for u in spoken], "text": [u.text for u in spoken]}
    datasets.Dataset.from_dict(paths).to_parquet(tmp_path / "paths.parquet")
    corpus = load_corpus(tmp_path / "paths.parquet")
    assert {utterance.path.parent for utterance in corpus.utterances} == {tmp_path / "files"}
    assert not list(cache.rglob("*.flac"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("split=dev", "there is no split 'dev'; choose with split=, there are train, test"),
        ("text=words", "there is no column 'words' for text; it has audio, id, sentence"),
        ("audio=sound", "there is no column 'sound' for audio"),
        ("rows=0", "rows=0: give a number of rows, or rows=all"),
        ("rows=ten", "rows=ten: give a number of rows"),
        ("streaming=true", "unknown option 'streaming'"),
    ],
)
def test_wrong_options_are_named(options: str, said: str, tmp_path: Path) -> None:
    parquet(tmp_path, make_spoken())
    assert said in refusal(f"{tmp_path}/clone,{options}")


def test_as_many_rows_as_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved_dataset(tmp_path, make_spoken())
    monkeypatch.setattr(hf_datasets, "LARGEST_BYTES", 1000)
    message = refusal(f"hf:{tmp_path}/saved")
    assert "would be copied to" in message
    assert "rows=1000, or rows=all" in message
    assert [u.id for u in load_corpus(f"{tmp_path}/saved,rows=2").utterances] == ["u0", "u1"]
    assert len(load_corpus(f"{tmp_path}/saved,rows=all").utterances) == 6
    assert len(load_corpus(f"{tmp_path}/saved,rows=100").utterances) == 6


def test_rows_are_copied_once_and_again_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = dataset(tmp_path, text=["a", "b"])
    calls: list[tuple[str, int, int]] = []
    first = load_corpus(path, progress=lambda *call: calls.append(call))
    assert calls == [("reading the dataset", 1, 2), ("reading the dataset", 2, 2)]
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "datasets", None)
        assert load_corpus(path) == first, "the package is not needed again"
        assert "needs the package datasets: pip install 'stopwav[datasets]'" in refusal(f"{path},rows=1")
    changed = dataset(tmp_path / "new", text=["a", "c"])
    os.replace(path / "state.json", tmp_path / "old.json")
    os.replace(changed / "state.json", path / "state.json")
    os.replace(next(changed.glob("*.arrow")), next(path.glob("*.arrow")))
    assert [u.text for u in load_corpus(path).utterances] == ["a", "c"]


def test_without_a_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved_dataset(tmp_path, make_spoken())
    monkeypatch.setenv("STOPWAV_CACHE", "")
    assert "set STOPWAV_CACHE to one" in refusal(f"hf:{tmp_path}/saved")
    (tmp_path / "file").touch()
    monkeypatch.setenv("STOPWAV_CACHE", str(tmp_path / "file"))
    assert "set STOPWAV_CACHE to another folder" in refusal(f"hf:{tmp_path}/saved")


def test_a_copy_that_was_interrupted_continues(tmp_path: Path, cache: Path) -> None:
    """The process is killed within the third row; the next one writes no row twice and loses none."""
    spoken = make_spoken()
    saved_dataset(tmp_path, spoken)
    code = (
        "import os, sys\nfrom stopwav.speech.corpus import load_corpus\n"
        "load_corpus(sys.argv[1], progress=lambda task, done, total: os._exit(9) if done == 3 else None)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path / "saved")], timeout=60, check=False)
    assert killed.returncode == 9
    (rows,) = cache.rglob("rows.jsonl")
    rows.write_bytes(rows.read_bytes() + b'{"row": 3, "audio_fi')
    dones: list[int] = []
    corpus = load_corpus(tmp_path / "saved", progress=lambda task, done, total: dones.append(done))
    assert dones == [4, 5, 6]
    assert [json.loads(line)["row"] for line in rows.read_text().splitlines()] == list(range(6))
    sounds_as(corpus, spoken)


def test_another_process_that_reads_it_is_not_disturbed(tmp_path: Path, cache: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    saved_dataset(tmp_path, make_spoken())
    load_corpus(tmp_path / "saved")
    (complete,) = cache.rglob("complete.json")
    complete.unlink()
    with (complete.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another process is reading it" in refusal(f"{tmp_path}/saved")


# The Hub: `datasets` reads the address and the cache from the environment when it is imported.

LISTING = """
import sys, time, json
from stopwav.errors import StopwavError
from stopwav.speech.corpus import load_corpus
begin = time.monotonic()
try:
    corpus = load_corpus(sys.argv[1])
    print(json.dumps([corpus.name, corpus.digest, {u.id: u.text for u in corpus.utterances}]))
except StopwavError as error:
    print(json.dumps(str(error)))
print(time.monotonic() - begin)
"""


def listed(tmp_path: Path, source: str, endpoint: str, **environment: str) -> tuple[Any, float]:
    """Load a corpus in a process of its own, which knows this Hub alone; return what it found, and the seconds."""
    given = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "hf"), **environment}
    given.pop("HF_HUB_OFFLINE", None) if "HF_HUB_OFFLINE" not in environment else None
    done = subprocess.run(
        [sys.executable, "-c", LISTING, source], capture_output=True, text=True, timeout=120, check=True, env=given
    )
    *_, result, seconds = done.stdout.splitlines()
    return json.loads(result), float(seconds)


def test_a_dataset_of_the_hub_is_streamed_once(tmp_path: Path) -> None:
    spoken = make_spoken()
    parquet(tmp_path, spoken)
    (tmp_path / "clone/README.md").write_text("---\nlicense: cc0-1.0\n---\n")
    expected = {u.id: u.text for u in spoken}
    source = "hf:owner/tiny,split=train,text=sentence"
    with fake_hub(tmp_path / "clone", "owner/tiny") as endpoint:
        (name, digest, texts), _ = listed(tmp_path, source, endpoint)
    assert (name, texts) == ("tiny-train", expected)
    assert not list((tmp_path / "hf").rglob("*.parquet")), "streamed, not downloaded"
    again, _ = listed(tmp_path, source, "http://127.0.0.1:9")
    assert again == [name, digest, texts], "without the network"


def test_without_the_hub_the_error_comes_in_seconds(tmp_path: Path) -> None:
    message, seconds = listed(tmp_path, "hf:owner/tiny", "http://127.0.0.1:9")
    assert message.startswith("corpus hf:owner/tiny: there is no such folder or file, and the Hub was not reached")
    assert "HF_HUB_OFFLINE=1" in message
    assert seconds < 10
    message, seconds = listed(tmp_path, "hf:owner/tiny", "http://127.0.0.1:9", HF_HUB_OFFLINE="1")
    assert message.startswith("corpus hf:owner/tiny: Couldn't reach 'owner/tiny' on the Hub")
    assert seconds < 10


@pytest.mark.soak
def test_the_cache_of_datasets_is_read_offline(tmp_path: Path) -> None:
    parquet(tmp_path, make_spoken())
    fill = "import datasets, sys; datasets.load_dataset('owner/tiny', split='test')"
    with fake_hub(tmp_path / "clone", "owner/tiny") as endpoint:
        given = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "hf")}
        subprocess.run([sys.executable, "-c", fill], check=True, timeout=120, env=given, capture_output=True)
    (_, _, texts), _ = listed(tmp_path, "hf:owner/tiny,split=test", "http://127.0.0.1:9", HF_HUB_OFFLINE="1")
    assert texts == {u.id: u.text for u in make_spoken()}
