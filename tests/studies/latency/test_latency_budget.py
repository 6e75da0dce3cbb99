"""A latency run that spends a budget: how it chooses utterances and rounds, when it stops, and how it is resumed."""

import itertools
import json
import math
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import command
from latency_runs import MakeCorpus, run
from synthetic_runs import synthetic_run

from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.report.document import Detail
from stopwav.speech.audio_file import duration_s
from stopwav.studies.budget import FEWEST_ROUNDS, Budget, spent_s, verdict_rule
from stopwav.studies.latency.pairs import engine_verdicts, more_time
from stopwav.studies.latency.schedule import LatencySchedule
from stopwav.studies.latency.selection import StreamCost, choose_utterances, cut, draw
from stopwav.studies.latency.spec import LatencySpec
from stopwav.studies.study import StudyRun, results

# A machine that is busy takes this much longer for what a run does after its budget.
GRACE_S = 3.0


class Followed:
    """Whoever waits for a run: what it is told."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.said: list[str] = []
        self.shown: list[tuple[int, float]] = []

    def __call__(self, task: str, done: int, total: int) -> None:
        assert 0 <= done <= total
        self.tasks.append(task)

    def say(self, text: str) -> None:
        self.said.append(text)

    def show(self, record: Record, upcoming: str, left_s: float) -> None:
        assert upcoming
        assert StudyRun(record).results
        self.shown.append((len(record.pieces), left_s))


def rounds_of(record: Record, name: str = "fake") -> set[int]:
    return {int(piece.key[1]) for piece in record.pieces if piece.key[0] == "stream" and piece.key[2] == name}


def test_a_budget_is_spent_and_everything_is_told(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    follower = Followed()
    start_s = time.monotonic()
    corpus = tiny_corpus(count=6)
    record = run(["fake", "fake"], corpus, tmp_path, rounds=None, budget_s=6.0, progress=follower)
    assert time.monotonic() - start_s < 6.6 + GRACE_S
    assert record.complete
    assert record.header.spec["rounds"] is None
    assert {"checking engines", "loading engines", "warming up", "first sweep"} <= set(follower.tasks)
    assert follower.shown
    assert [pieces for pieces, _ in follower.shown] == sorted(pieces for pieces, _ in follower.shown)
    assert follower.shown[0][1] > follower.shown[-1][1] >= 0
    assert 0 < spent_s(record) <= 6.0 + GRACE_S
    first, second = results(record)
    assert first.params["rounds"] == len(rounds_of(record)) >= 1
    # The process that was loaded to check the engine is the one of the first round.
    loads = [piece.key for piece in record.pieces if piece.key[0] == "load" and piece.key[1] == 0]
    assert loads == [["load", 0, "fake", 0], ["load", 0, "fake#2", 0]]
    assert second.status == "ok"
    assert verdict_rule(record) == "anytime"


def test_more_time_continues_a_finished_run_and_the_same_does_not(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = tiny_corpus(count=2)
    first = run("fake", corpus, tmp_path, rounds=None, budget_s=2.0)
    before = first.path.read_bytes()
    again = run("fake", corpus, tmp_path, rounds=None, budget_s=spent_s(first) * 0.9, resume=True)
    assert (again.path, again.path.read_bytes()) == (first.path, before)
    # A precision that no interval has: otherwise the run may end before its time is spent.
    more = run("fake", corpus, tmp_path, rounds=None, budget_s=spent_s(first) + 4.0, precision=1e-9, resume=True)
    assert more.path == first.path
    assert more.path.read_bytes().startswith(before)
    assert len(rounds_of(more)) > len(rounds_of(first))
    assert Record.read(more.path).complete


def test_a_fixed_plan_has_no_budget_and_is_read_as_before(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    record = run("fake", tiny_corpus(count=2), tmp_path, rounds=2)
    assert rounds_of(record) == {0, 1}
    assert not any(key[0] == "spent" for key in record.keys)
    assert verdict_rule(record) == "fixed"
    assert LatencySpec(engines=["fake"], thorough=True).rounds == 3


@pytest.fixture
def drawn(tiny_corpus: MakeCorpus) -> Any:
    def make(count: int, seconds: float = 1.0, **settings: Any) -> Any:
        corpus = tiny_corpus(count=count, seconds=seconds)
        spec = LatencySpec(engines=["fake"], corpus=str(corpus), words=str(corpus / "words.ctm"), **settings)
        return spec, draw(spec)

    return make


def still(total_s: float, spent: float = 0.0) -> Budget:
    """A budget whose clock stands."""
    return Budget(total_s, spent, now_s=lambda: 0.0)


def test_utterances_are_as_many_as_a_round_has_time_for(drawn: Any) -> None:
    follower = Followed()
    spec, corpus = drawn(40, progress=follower)
    # A quarter of 100 s, of which 5 went to loading; each utterance takes 1.2 s, and memory once more the longest.
    chosen = choose_utterances(spec, corpus, StreamCost(1.0, 1.0, fixed_s=5.0), still(100.0, 5.0))
    assert chosen.utterances == corpus.utterances[: math.floor(20 / 1.2) - 1]
    assert follower.said == [
        "15 of 40 utterances, 15 s of audio: as many as a budget of 2 min has time to repeat; a larger --budget takes "
        "more, --thorough all"
    ]
    assert len(choose_utterances(spec, corpus, StreamCost(0.01, 0.01, 5.0), still(100.0, 5.0)).utterances) == 40
    assert len(follower.said) == 1


def test_of_several_engines_a_round_is_shorter(drawn: Any) -> None:
    spec, corpus = drawn(40)
    several = spec.model_copy(update={"engines": ["fake", "fake"]})
    cost, budget = StreamCost(1.0, 1.0, 0.0), still(120.0)
    one, two = (len(choose_utterances(each, corpus, cost, budget).utterances) for each in (spec, several))
    assert one > two > 10


def test_one_that_is_too_long_is_passed_over_and_the_shortest_is_cut(drawn: Any) -> None:
    spec, corpus = drawn(4, seconds=2.0)
    long = replace(corpus, utterances=(replace(corpus.utterances[0], end_s=None), *corpus.utterances[1:]))
    first = replace(long.utterances[0], start_s=-98.0)  # lasts 100 s
    long = replace(long, utterances=(first, *long.utterances[1:]))
    cost, budget = StreamCost(1.0, 1.0, 0.0), still(100.0)
    assert choose_utterances(spec, long, cost, budget).utterances == corpus.utterances[1:]
    (only,) = choose_utterances(spec, corpus, StreamCost(20.0, 20.0, 0.0), still(100.0)).utterances
    assert duration_s(only) == pytest.approx(1.0)
    # The second of two words ends with the audio.
    assert (only.text, [word.text for word in only.words]) == ("one", ["one"])
    untimed = replace(corpus.utterances[0], words=())
    assert cut(untimed, 1.0).text is None
    assert cut(untimed, 5.0) == untimed


def test_a_corpus_that_is_cut_by_a_budget_keeps_the_digest_of_all_of_it(
    tiny_corpus: MakeCorpus, tmp_path: Path
) -> None:
    corpus = tiny_corpus(count=60, seconds=2.0)
    record = run("fake,service_ms=20", corpus, tmp_path, rounds=None, budget_s=2.0)
    assert len(record.header.corpus["utterances"]) == len(record.header.digests) < 60
    assert record.header.corpus["digest"] == draw(LatencySpec(**record.header.spec)).digest


HANGING = """
import time
from stopwav import EngineInfo, Hypothesis
class Hanging:
    info = EngineInfo(name="hanging", version="1")
    def open(self): time.sleep(1000)
    def push(self, samples): return []
    def finish(self): return []
"""


def test_an_engine_that_hangs_ends_with_the_budget(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    """By --time-limit alone it would be waited for three minutes."""
    (tmp_path / "hanging.py").write_text(HANGING)
    start_s = time.monotonic()
    record = run(f"{tmp_path / 'hanging.py'}:Hanging", tiny_corpus(), tmp_path, rounds=None, budget_s=4.0)
    assert time.monotonic() - start_s < 4.4 + GRACE_S
    (result,) = results(record)
    assert (result.status, result.metrics) in (("timeout", {}), ("skipped", {}))
    assert record.complete == any(key[0] == "memory" for key in record.keys)


def scheduled(record: Record, left_s: float = 1e6, **settings: Any) -> list[str]:
    """The engines of the next round of a run that took a second for each."""
    record.header.spec.update(rounds=None)
    spec = LatencySpec(engines=list(record.header.spec["engines"]), **settings)
    schedule = LatencySchedule(spec, record, Budget(left_s, now_s=lambda: 0.0))
    schedule.note(dict.fromkeys(record.header.spec["engines"], 1.0))
    return schedule.next_engines()


def test_one_engine_has_three_rounds_and_no_more_where_it_is_precise() -> None:
    assert scheduled(synthetic_run(1, rounds=2, names=["a"])) == ["a"]
    assert scheduled(synthetic_run(1, rounds=3, names=["a"]), precision=0.5) == []
    assert scheduled(synthetic_run(1, rounds=3, names=["a"]), precision=0.0001) == ["a"]


def test_rounds_that_no_longer_narrow_an_interval_are_not_taken(tmp_path: Path) -> None:
    """Utterances differ by a third, and rounds by a hundredth."""
    pieces = synthetic_run(1, rounds=12, names=["a"]).pieces
    header = synthetic_run(1, names=["a"], spec={"rounds": None}).header
    with Record.create(tmp_path / "latency-1.jsonl", header) as record:
        schedule = LatencySchedule(LatencySpec(engines=["a"], precision=0.0001), record, Budget(1e6, now_s=lambda: 0.0))
        for taken in range(12):
            if not schedule.next_engines():
                break
            for piece in (piece for piece in pieces if piece.key[1] == taken):
                record.append(piece)
    # Two more than a first interval at least, to see how it narrows.
    assert FEWEST_ROUNDS + 2 <= taken <= 9


def test_rounds_go_to_the_pairs_that_are_undecided() -> None:
    """Of three engines, one is half as fast; the others are alike."""
    runs = [synthetic_run(seed, rounds=8, names=[name], slowdown=slowdown) for seed, name, slowdown in PLANTED]
    header = runs[0].header
    header.spec["engines"] = [name for _, name, _ in PLANTED]
    record = Record(Path("three.jsonl"), header, [piece for run in runs for piece in run.pieces], complete=False)
    record.header.spec["rounds"] = None
    compared = engine_verdicts(record)
    assert compared is not None
    assert {verdict.engine: verdict.rtf.verdict for verdict in compared.verdicts}["half"] == "slower"
    assert scheduled(record, precision=0.9) == ["base", "alike"]
    # There is no time for both, nor for any.
    assert scheduled(record, left_s=1.5, precision=0.9) == []


PLANTED = [(1, "base", 0.0), (2, "alike", 0.0), (3, "half", 1.0)]


def test_no_winner_from_one_round() -> None:
    record = synthetic_run(1, rounds=1, names=["a", "b"])
    record.header.spec["rounds"] = None
    compared = engine_verdicts(record)
    assert compared is not None
    (verdict,) = compared.verdicts
    assert (verdict.felt.verdict, verdict.rtf.verdict) == ("undecided", "undecided")
    assert verdict.felt.low is None


def test_an_open_verdict_says_how_much_more_time_would_decide_it() -> None:
    run = synthetic_run(1, rounds=4, names=["a", "b"], between=0.2)
    spent = [Piece(key=["spent", index], status="ok", data={"seconds": 60.0}) for index in range(4)]
    run.header.spec["rounds"] = None
    record = Record(run.path, run.header, [*run.pieces, *spent], complete=True)
    # A minute a round.
    assert more_time(record, 5) == ", about 5 min more: --resume --budget 9min"
    findings = StudyRun(record).document(Detail()).findings
    (open_,) = [finding for finding in findings if finding.startswith("b and a: ")]
    assert re.search(r"word latency.* undecided \(\d+ more rounds?, about .* more: --resume --budget \d+min\)", open_)
    record.header.spec["rounds"] = 4
    assert more_time(record, 5) == ""


def test_the_command_takes_a_budget_and_prints_verdicts(tiny_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = tiny_corpus(count=4)
    places = ("--corpus", corpus, "--words", corpus / "words.ctm", "--save", tmp_path)
    done = command("latency", "fake", "fake,service_ms=20", *places, "--budget", "6s", "--json")
    assert done.code == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed["verdicts"]["base"] == "fake"
    (verdict,) = printed["verdicts"]["verdicts"]
    assert verdict["rtf"]["rule"] == "anytime"
    assert verdict["rtf"]["verdict"] in ("slower", "undecided")
    assert all(result["params"]["rounds"] >= 1 for result in printed["results"])


def test_no_more_is_aligned_than_there_is_time_for(librispeech: Path) -> None:
    spec = LatencySpec(engines=["fake"], corpus=str(librispeech))
    corpus, cost = draw(spec), StreamCost(0.01, 0.01, 0.0)
    chosen = choose_utterances(spec, corpus, cost, Budget(60.0, now_s=itertools.count(0, 0.1).__next__))
    assert [utterance.id for utterance in chosen.utterances] == [utterance.id for utterance in corpus.utterances]
    assert all(utterance.words for utterance in chosen.utterances)
    # Each look at the clock takes two seconds.
    chosen = choose_utterances(spec, corpus, cost, Budget(60.0, now_s=itertools.count(0, 2).__next__))
    assert 0 < len(chosen.utterances) < len(corpus.utterances)
