"""Engines that raise, hang, crash or return nonsense, and audio that is broken: each is a result."""

import textwrap
from pathlib import Path

import numpy as np
import pytest
import soundfile
from latency_runs import MakeCorpus, run
from noise_corpus import write_corpus

import stopwav
from stopwav.record import Result
from stopwav.speech.stored_trace import trace_from_json
from stopwav.studies.study import results

ENGINES = """
    import os, time
    from stopwav import EngineInfo, Hypothesis

    class Base:
        info = EngineInfo(name="mine", version="1", chunk_s=0.1)
        def open(self): return self
        def push(self, samples): return []
        def finish(self): return [Hypothesis("one two")]

    class Third(Base):
        def open(self):
            self.chunks = 0
            return self
        def push(self, samples):
            self.chunks += 1
            if self.chunks == 3:
                return self.third()
            return []

    class Raises(Third):
        def third(self): raise ValueError("out of ideas")

    class Garbage(Third):
        def third(self): return 42

    class Words(Third):
        def third(self): return ["just a string"]

    class Crashes(Third):
        def third(self): os.kill(os.getpid(), 11)

    class Hungry(Third):
        def third(self): raise MemoryError

    class Hangs(Third):
        def third(self): time.sleep(1000)

    class Loads:
        def __init__(self): raise RuntimeError("weights are missing")

    class DiesLoading(Base):
        def __init__(self): os.kill(os.getpid(), 11)

    class HungryLoading(Base):
        def __init__(self): raise MemoryError

    class Deaf:
        info = EngineInfo(name="mine", version="1")
        def transcribe(self, batch): return [""] * len(batch)

    class Nothing: pass

    class OnlyOne(Base):
        "Fails on the one utterance that is longer than the others."
        def open(self):
            self.heard = 0
            return self
        def push(self, samples):
            self.heard += len(samples)
            if self.heard > 0.55 * 16000:
                self.fail()
            return []

    class RaisesOnLong(OnlyOne):
        def fail(self): raise ValueError("too long for me")

    class CrashesOnLong(OnlyOne):
        def fail(self): os._exit(3)

    class HangsOnLong(OnlyOne):
        def fail(self): time.sleep(1000)

    class NowAndThen(Base):
        opened = 0
        def open(self):
            NowAndThen.opened += 1
            return self
        def push(self, samples):
            if NowAndThen.opened % 6 == 0:
                raise ValueError("every sixth time")
            return []

    class Marks(Base):
        def push(self, samples):
            from stopwav import stage
            with stage("queue"):
                time.sleep(0.01)
            return []

    class Muddled(Base):
        def finish(self): return [Hypothesis("\\ud800 \\x1b[31m" + "x" * 100_000)]
"""


# Each hang costs it once. A stream that does not hang takes a hundredth.
LIMIT_S = 1.5


# How each engine ends, and what is said of it.
BROKEN = {
    "Raises": ("error", "in chunk 3 (audio 0.20 to 0.30 s): ValueError: out of ideas"),
    "Garbage": ("error", "in chunk 3 (audio 0.20 to 0.30 s): the engine returned 42 where a list of Hypothesis"),
    "Words": ("error", "the engine returned 'just a string' where a list of Hypothesis"),
    "Crashes": ("crashed", "crashed (SIGSEGV)"),
    "Hungry": ("oom", "MemoryError"),
    "Hangs": ("timeout", f"no answer within {LIMIT_S:g} s; killed"),
    "DiesLoading": ("crashed", "the engine did not load: crashed (SIGSEGV)"),
    "HungryLoading": ("oom", "the engine did not load: MemoryError"),
    "Loads": ("error", "the engine did not load: RuntimeError: weights are missing"),
    "Nothing": ("error", "Nothing has no `info`"),
}


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engines") / "my_engines.py"
    path.write_text(textwrap.dedent(ENGINES))
    return path


@pytest.fixture(scope="module")
def measured(engines: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """All broken engines in one run, with one that is not."""
    folder = tmp_path_factory.mktemp("broken")
    corpus = write_corpus(folder / "corpus", count=2)
    names = [*(f"{engines}:{name}" for name in BROKEN), "fake"]
    record = run(names, corpus, folder, time_limit_s=LIMIT_S)
    return {result.name.rpartition(":")[2]: result for result in results(record)}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_engine_is_a_result(measured: dict[str, Result], name: str) -> None:
    status, reason = BROKEN[name]
    assert measured[name].status == status
    assert reason in measured[name].warnings[0].message


def test_an_engine_that_does_not_load_is_named_before_anything_is_measured(
    engines: Path, tiny_corpus: MakeCorpus, tmp_path: Path
) -> None:
    told: list[str] = []

    class Progress:
        def __call__(self, task: str, done: int, total: int) -> None:
            told.append(task)

        def say(self, text: str) -> None:
            told.append(text)

    names = [f"{engines}:{name}" for name in ("Base", "Loads", "Nothing")]
    run(names, tiny_corpus(), tmp_path / "runs", progress=Progress())
    first_stream = told.index("streaming")
    for name in ("Loads", "Nothing"):
        (line,) = (text for text in told if f"{engines}:{name}: the engine did not load" in text)
        assert BROKEN[name][1] in line
        assert told.index(line) < first_stream


def test_what_does_not_stream_is_known_without_loading_it(
    engines: Path, tiny_corpus: MakeCorpus, tmp_path: Path
) -> None:
    """Next to one that does not exist, and one whose model is not there: all three are named at once."""
    names = [f"{engines}:Deaf", "pocketsphynx", "emformer-rnnt:nowhere.pt,tokenizer=t,stats=s", "fake"]
    with pytest.raises(stopwav.StopwavError) as raised:
        run(names, tiny_corpus(), tmp_path / "runs")
    said = str(raised.value)
    assert said.startswith("3 engines cannot be measured: (1) ")
    for reason in ("does not stream", "did you mean 'pocketsphinx'", "emformer-rnnt"):
        assert reason in said


def test_the_engine_that_works_is_measured_among_them(measured: dict[str, Result]) -> None:
    assert measured["fake"].status == "ok"
    assert measured["fake"].params["utterances"] == 2


@pytest.mark.parametrize(
    ("name", "status"), [("RaisesOnLong", "error"), ("CrashesOnLong", "crashed"), ("HangsOnLong", "timeout")]
)
def test_one_bad_utterance_costs_only_itself(
    tiny_corpus: MakeCorpus, tmp_path: Path, engines: Path, name: str, status: str
) -> None:
    corpus = tiny_corpus(count=5)
    long = np.zeros(16_000, dtype=np.float32)
    soundfile.write(corpus / "u002.wav", long, 16_000)
    record = run(f"{engines}:{name}", corpus, tmp_path, time_limit_s=LIMIT_S)
    statuses = {str(piece.key[3]): piece.status for piece in record.pieces if piece.key[0] == "stream"}
    assert statuses == {f"u{k:03d}": status if k == 2 else "ok" for k in range(5)}
    (result,) = results(record)
    assert result.status == "ok"
    assert result.params["utterances"] == 4


def test_an_engine_that_dies_on_everything_is_given_up(tiny_corpus: MakeCorpus, tmp_path: Path, engines: Path) -> None:
    record = run(f"{engines}:Crashes", tiny_corpus(count=6), tmp_path)
    statuses = [piece.status for piece in record.pieces if piece.key[0] == "stream"]
    assert statuses == ["crashed"] * 3 + ["skipped"] * 3


def test_an_engine_that_fails_now_and_then_is_measured_in_between(
    tiny_corpus: MakeCorpus, tmp_path: Path, engines: Path
) -> None:
    record = run(f"{engines}:NowAndThen", tiny_corpus(count=12), tmp_path)
    (result,) = results(record)
    assert result.status == "ok"
    assert result.params["utterances"] == 10
    assert {"not-warm", "stream-error"} <= {warning.code for warning in result.warnings}


def test_a_stage_of_the_users_own_cannot_be_taken_for_another_metric(
    tiny_corpus: MakeCorpus, tmp_path: Path, engines: Path
) -> None:
    (result,) = results(run(f"{engines}:Marks", tiny_corpus(count=4), tmp_path))
    assert result.metrics["queue_p50"].value == 0
    assert 0.01 <= result.metrics["stage_queue_p50"].value < 0.5  # type: ignore[operator]


def test_muddled_text_is_kept_and_counted_as_wrong(tiny_corpus: MakeCorpus, tmp_path: Path, engines: Path) -> None:
    (result,) = results(run(f"{engines}:Muddled", tiny_corpus(count=2), tmp_path))
    assert result.status == "ok"
    assert result.metrics["wer"].value is not None
    assert result.metrics["wer"].value >= 1


def test_bad_audio_is_named_and_the_rest_is_measured(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = tiny_corpus(count=6)
    whole = (corpus / "u000.wav").read_bytes()
    (corpus / "u000.wav").write_bytes(b"")
    (corpus / "u001.wav").write_bytes(whole[: len(whole) // 2])
    (corpus / "u002.wav").write_bytes(b"RIFF this is no audio at all" * 10)
    soundfile.write(corpus / "u003.wav", np.full(8000, np.nan, dtype=np.float32), 16_000, subtype="FLOAT")
    soundfile.write(corpus / "u004.wav", np.zeros(800, dtype=np.float32), 16_000)
    (corpus / "words.ctm").unlink()
    record = stopwav.latency(["fake"], corpus=str(corpus), rounds=1, save=tmp_path)
    (result,) = results(record)
    said = " | ".join(warning.message for warning in result.warnings)
    for name in ("u000", "u001", "u002", "u003"):
        assert name in said
    assert result.params["utterances"] == 2, said


def test_an_utterance_without_words_is_measured_without_errors(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = tiny_corpus(count=2)
    (corpus / "transcripts.txt").write_text("u000\nu001 one two\n")
    (corpus / "words.ctm").write_text("u001 1 0.0 0.25 one\nu001 1 0.25 0.25 two\n")
    (result,) = results(run("fake", corpus, tmp_path))
    assert (result.params["utterances"], result.params["transcripts"]) == (2, 1)
    assert any(warning.message.startswith("1 of 2 utterances without") for warning in result.warnings)


FORKING = """
import os
from stopwav import EngineInfo, Hypothesis

class Forking:
    "Hears how long an utterance is, and leaves copies of itself behind that come back with another answer."
    info = EngineInfo(name="forking", version="1", chunk_s=0.1)
    is_copy = False
    def open(self):
        self.heard = 0
        return self
    def push(self, samples):
        self.heard += len(samples)
        return []
    def finish(self):
        child = 0 if self.is_copy else os.fork()
        if child and self.waits: os.waitpid(child, 0)
        self.is_copy = not child
        return [Hypothesis("" if self.is_copy else str(self.heard))]

class Waits(Forking):
    waits = True

class Leaves(Forking):
    waits = False
"""


@pytest.mark.parametrize("name", ["Waits", "Leaves"])
def test_the_answer_of_a_forked_copy_is_nobodys(tiny_corpus: MakeCorpus, tmp_path: Path, name: str) -> None:
    corpus = tiny_corpus(count=4)
    for index in range(4):
        soundfile.write(corpus / f"u{index:03d}.wav", np.zeros(1600 * (index + 1), dtype=np.float32), 16_000)
    (tmp_path / "forking.py").write_text(FORKING)
    record = run(f"{tmp_path / 'forking.py'}:{name}", corpus, tmp_path, rounds=2)
    heard = {
        (piece.key[1], piece.key[3]): (piece.status, trace_from_json(piece.data["trace"]).text)
        for piece in record.pieces
        if piece.key[0] == "stream"
    }
    assert heard == {
        (round_, f"u{index:03d}"): ("ok", str(1600 * (index + 1))) for round_ in range(2) for index in range(4)
    }
