"""Word times that were found once are kept: whatever happens to the process, and whatever happened to the file."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from stopwav.speech import alignment_cache
from stopwav.speech.align import align_corpus
from stopwav.speech.alignment_cache import FILE_NAME, AlignedWords, AlignmentCache
from stopwav.speech.audio import Audio
from stopwav.speech.cache_folder import cache_folder
from stopwav.speech.corpus import Corpus, Word, bundled_corpus
from stopwav.speech.pocketsphinx_aligner import PocketsphinxAligner

WORDS = AlignedWords((Word("a", 0.1, 0.25), Word("b", 0.25, 1 / 3)), ("b",))


def corpus(count: int = 4) -> Corpus:
    """The shortest utterances of the bundled corpus, without their word times."""
    utterances = sorted(bundled_corpus().utterances, key=lambda utterance: len(utterance.words))[:count]
    return Corpus("short", tuple(replace(utterance, words=()) for utterance in utterances))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STOPWAV_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def aligned_texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were really aligned."""
    texts: list[str] = []
    original = PocketsphinxAligner.align

    def align(aligner: PocketsphinxAligner, audio: Audio, words: Sequence[str]) -> AlignedWords:
        texts.append(" ".join(words))
        return original(aligner, audio, words)

    monkeypatch.setattr(PocketsphinxAligner, "align", align)
    return texts


def count(folder: Path) -> int:
    with sqlite3.connect(folder / FILE_NAME) as database:
        return int(database.execute("SELECT count(*) FROM alignments").fetchone()[0])


def test_what_is_aligned_once_is_not_aligned_again(folder: Path, aligned_texts: list[str]) -> None:
    first = align_corpus(corpus())
    assert len(aligned_texts) == count(folder) == 4
    assert align_corpus(corpus()) == first
    assert len(aligned_texts) == 4
    changed = corpus(1).utterances[0]
    assert changed.text is not None
    for other in (replace(changed, text=f"{changed.text} yes"), replace(changed, start_s=0.05)):
        align_corpus(Corpus("changed", (other,)))
    assert len(aligned_texts) == 6


def test_an_alignment_that_was_killed_continues(folder: Path, aligned_texts: list[str]) -> None:
    script = (
        "import sys, time\n"
        "sys.path.insert(0, 'tests/speech')\n"
        "from test_alignment_cache import align_corpus, corpus\n"
        "def progress(done, total):\n"
        "    print(done, flush=True)\n"
        "    time.sleep(1000 if done == 3 else 0)\n"
        "align_corpus(corpus(), progress)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while process.stdout.readline() not in ("3\n", ""):
            pass
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert all(utterance.words for utterance in align_corpus(corpus()).utterances)
    assert len(aligned_texts) == 1


@pytest.mark.parametrize("damage", ["garbage", "empty", "zeros", "row", "folder", "pipe", "device", "locked"])
def test_a_damaged_cache_is_a_slower_start(
    damage: str, folder: Path, aligned_texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment_cache, "LOCK_WAIT_S", 0.1)
    expected = align_corpus(corpus(2))
    file = folder / FILE_NAME
    if damage == "row":
        with sqlite3.connect(file) as database:
            database.execute("UPDATE alignments SET alignment = '[[[\"x\", 0, 1]], []]'")
    elif damage == "locked":
        with sqlite3.connect(file) as database:
            database.execute("BEGIN EXCLUSIVE")  # as another process that was stopped
            assert align_corpus(corpus(2)) == expected
        return
    else:
        content = file.read_bytes()
        file.unlink()
        make: dict[str, Callable[[], object]] = {
            "garbage": lambda: file.write_bytes(b"garbage " * 4096),
            "empty": lambda: file.write_bytes(b""),
            "zeros": lambda: file.write_bytes(content[:4096] + bytes(len(content) - 4096)),
            "folder": file.mkdir,
            "pipe": lambda: os.mkfifo(file),
            "device": lambda: file.symlink_to("/dev/zero"),
        }
        make[damage]()
    for _ in range(2):
        assert align_corpus(corpus(2)) == expected
    if damage in ("garbage", "empty", "row"):
        assert align_corpus(corpus(2)) == expected
        assert count(folder) == 2


def test_numbers_come_back_exactly(tmp_path: Path) -> None:
    with AlignmentCache(tmp_path) as cache:
        cache.put("key", WORDS)
        assert cache.get("key", ["a", "b"]) == WORDS
        assert cache.get("other", ["a", "b"]) is None
        assert cache.get("key", ["a", "c"]) is None


def test_the_oldest_go_when_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment_cache, "LARGEST_BYTES", 100_000)
    long = AlignedWords(tuple(Word("word", 0.0, 1.0) for _ in range(100)))
    with AlignmentCache(tmp_path) as cache:
        for number in range(200):
            cache.put(str(number), long)
        assert cache.get("199", ["word"] * 100) == long
        assert cache.get("0", ["word"] * 100) is None
    assert count(tmp_path) > 20
    assert (tmp_path / FILE_NAME).stat().st_size < 130_000


def test_the_folder_is_the_users_and_can_be_named_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() is None  # as the tests have it
    monkeypatch.delenv("STOPWAV_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/stopwav")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/her")
    assert cache_folder() == Path("/home/her/.cache/stopwav")
    monkeypatch.setenv("STOPWAV_CACHE", "here")
    assert cache_folder() == Path("here")


def test_many_processes_share_it(folder: Path) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from stopwav.speech.alignment_cache import AlignedWords, AlignmentCache\n"
        "with AlignmentCache(Path(sys.argv[1])) as cache:\n"
        "    for number in range(50):\n"
        "        cache.put(sys.argv[2] + str(number), AlignedWords(()))\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", script, folder, name]) for name in "ab"]
    assert [process.wait() for process in started] == [0, 0]
    assert count(folder) == 100
