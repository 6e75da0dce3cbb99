"""An engine that dies is started again, one that only fails keeps its process, one that keeps dying is given up."""

from pathlib import Path

import pytest
from compare_runs import FAST, run

import stopwav
from stopwav.record import Record

ENGINE = """
import os
from stopwav import EngineInfo
class Odd:
    def __init__(self):
        self.info = EngineInfo(name='odd', version='1')
        with open(os.environ['ODD_LOADS'], 'a') as file: file.write('.')
    def transcribe(self, batch):
        seconds = batch[0].duration_s
        {body}
        return ['one two']
"""


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("ODD_LOADS", str(tmp_path / "loads"))

    def make(body: str) -> str:
        (tmp_path / "odd.py").write_text(ENGINE.format(body=body))
        return f"{tmp_path / 'odd.py'}:Odd"

    return make


def statuses(record: Record) -> list[str]:
    return [piece.status for piece in record.pieces if piece.key[0] == "sample"]


def test_an_engine_that_fails_on_every_input_is_loaded_once_for_them(odd, tmp_path: Path, tiny_corpus) -> None:  # type: ignore[no-untyped-def]
    engine = odd("assert seconds < 0.2, 'too long'")
    record = run([engine], tmp_path, corpus=str(tiny_corpus()), samples=3)
    assert statuses(record) == ["error"] * 3
    # Once for its description, and once for its length and all inputs.
    assert (tmp_path / "loads").read_text() == ".."
    result = stopwav.results(record)[0]
    assert result.status == "error"
    assert "too long" in next(w.message for w in result.warnings if w.code == "sample-error")


def test_an_engine_that_dies_on_every_input_is_given_up(odd, tmp_path: Path, tiny_corpus) -> None:  # type: ignore[no-untyped-def]
    engine = odd("if seconds > 0.2: os._exit(7)")
    record = run([engine], tmp_path, corpus=str(tiny_corpus(count=5)), samples=5, plan=FAST)
    assert statuses(record) == ["crashed"] * 3 + ["skipped"] * 2
    codes = {warning.code: warning.message for warning in stopwav.results(record)[0].warnings}
    assert "exited with code 7" in codes["sample-crashed"]
    assert "died 3 times in a row" in codes["sample-skipped"]


def test_a_length_that_ends_the_process_takes_only_itself(odd, tmp_path: Path, tiny_corpus) -> None:  # type: ignore[no-untyped-def]
    engine = odd("if abs(seconds - 0.2) < 0.01: os._exit(7)")
    corpus = str(tiny_corpus(count=2))
    for budget in ({"rounds": 1}, {"rounds": None, "budget_s": 5.0}):
        record = run([engine], tmp_path, corpus=corpus, frames=[10, 20, 30], **budget)
        lengths = {piece.key[3]: piece.status for piece in record.pieces if piece.key[0] == "length"}
        assert lengths == {10: "ok", 20: "crashed", 30: "ok"}
        assert set(statuses(record)) == {"ok"}
        # The process that died was loaded again, once.
        loads = [piece.key for piece in record.pieces if piece.key[:2] == ["load", 0]]
        assert loads == [["load", 0, engine, 0], ["load", 0, engine, 1]]


def test_engines_that_do_not_fit_into_memory_together_are_measured_one_after_the_other(
    odd,  # type: ignore[no-untyped-def]
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # It needs all the memory there is: while another process holds it, it runs out.
    monkeypatch.setenv("ODD_MEMORY", str(tmp_path / "memory"))
    engine = odd(
        "import fcntl\n"
        "        if not hasattr(self, 'memory'):\n"
        "            self.memory = open(os.environ['ODD_MEMORY'], 'w')\n"
        "        try: fcntl.flock(self.memory, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "        except OSError: raise MemoryError('none left')"
    )
    record = run([engine, engine], tmp_path, rounds=2)
    assert record.complete
    assert {piece.status for piece in record.pieces} == {"ok"}
    assert {tuple(piece.key[:3]) for piece in record.pieces if piece.key[0] == "length"} == {
        ("length", index, name) for index in (0, 1) for name in (engine, f"{engine}#2")
    }
