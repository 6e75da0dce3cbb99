"""`stopwav gate --race`: no false failures however often it is looked at, planted changes found, drift that cancels."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import Done, command
from noise_corpus import write_corpus
from stored_runs import DATA
from synthetic_runs import UTTERANCES, saved, synthetic_run

import stopwav
from stopwav.piece import Piece
from stopwav.record import Record
from stopwav.studies.budget import spent_s
from stopwav.studies.diff.gate import CONDITIONS, Gate
from stopwav.studies.diff.gate_document import gate_document
from stopwav.studies.diff.race import Terms, gate_race, is_decided, judge_race

ROUNDS = 12
# The machine gets slower and faster by this from round to round, as one that others use too does.
STEP = 0.03
ENGINE = """
import os
from stopwav import EngineInfo

class Offline:
    info = EngineInfo(name="offline", version="1")
    def __init__(self, die: bool = False):
        self.die = die
    def transcribe(self, batch):
        if self.die:
            os._exit(9)
        return ["red fox"] * len(batch)
"""


def raced(seed: int, *, rounds: int = ROUNDS, slowdown: float = 0.0, step: float = STEP, **changed: object) -> Record:
    """A run of `base` and `change` that took turns: what moves the machine moves both in the same round."""
    moves = np.random.default_rng(seed).normal(0, step, rounds).cumsum().tolist()
    base = synthetic_run(2 * seed, rounds=rounds, names=["base"], moves=moves)
    change = synthetic_run(2 * seed + 1, rounds=rounds, names=["change"], moves=moves, slowdown=slowdown, **changed)  # type: ignore[arg-type]
    spec = {**base.header.spec, "engines": ["base", "change"]}
    header = base.header.model_copy(update={"spec": spec})
    return Record(Path("race.jsonl"), header, [*base.pieces, *change.pieces], complete=True)


def until(record: Record, rounds: int) -> Record:
    """The run as it was after so many rounds."""
    return Record(
        record.path, record.header, [piece for piece in record.pieces if int(piece.key[1]) < rounds], complete=False
    )


def stop(record: Record, terms: Terms, rounds: Sequence[int] = range(2, ROUNDS + 1)) -> tuple[Gate, int]:
    """The gate at the first look at which it is decided, or after the last round; and the rounds until then."""
    number = next((number for number in rounds if is_decided(until(record, number), terms)), rounds[-1])
    return judge_race(until(record, number), terms), number


def terms_of(*fail_on: str, threshold: float = 0.01, precision: float = 0.0) -> Terms:
    return Terms(tuple(fail_on or CONDITIONS), threshold, precision=precision)


@pytest.mark.parametrize("races", [6, pytest.param(300, marks=pytest.mark.soak)])
def test_the_same_against_itself_fails_no_more_often_than_its_level(races: int) -> None:
    """Looked at after every round and stopped at any failure, at threshold 0, where every failure is a false one."""
    failed = 0
    for seed in range(races):
        record, terms = raced(seed), terms_of("slower", "bigger", threshold=0.0)
        failed += any(not judge_race(until(record, rounds), terms).passed for rounds in range(2, ROUNDS + 1, 2))
    print(f"A against A, {races} races looked at after every second of {ROUNDS} rounds: {failed / races:.1%} failed")
    assert failed / races <= (0.05 if races >= 300 else 0.34)


@pytest.mark.parametrize("races", [4, pytest.param(100, marks=pytest.mark.soak)])
def test_a_slowdown_of_twenty_percent_fails_after_few_rounds(races: int) -> None:
    outcomes = [stop(raced(seed, slowdown=0.2), terms_of("slower")) for seed in range(races)]
    rounds = [number for _, number in outcomes]
    print(
        f"20 % slower, {races} races: failed {sum(not gate.passed for gate, _ in outcomes)}, {np.mean(rounds)} rounds"
    )
    for gate, number in outcomes:
        assert {failure.condition for failure in gate.failures} == {"slower"}
        assert number < ROUNDS
        assert {change.rule for change in gate.diff.items[0].changes if change.by == "ratio"} == {"anytime"}


def test_drift_fails_two_runs_one_after_the_other_and_not_a_race() -> None:
    """The machine slows down by 1 % per round: the change is measured later, and is not slower."""
    moves = [0.01 * index for index in range(2 * ROUNDS)]
    earlier, later = (
        synthetic_run(side, rounds=ROUNDS, moves=moves[side * ROUNDS : (side + 1) * ROUNDS]) for side in (0, 1)
    )
    assert not stopwav.gate(earlier, later, fail_on=["slower"]).passed
    assert judge_race(raced(1, step=0.05), terms_of("slower")).passed


def test_it_stops_when_the_conditions_hold_and_not_before() -> None:
    faster = raced(3, slowdown=-0.2)
    gate, number = stop(faster, terms_of("bigger"))
    assert gate.passed
    assert 3 <= number < ROUNDS  # never from fewer rounds than have an interval
    # At 1 %, times that differ by 1.3 % from process to process are not decided in a dozen rounds.
    record = raced(3)
    gate, number = stop(record, terms_of("slower"))
    assert number == ROUNDS
    assert gate.race is not None
    assert gate.race.open == ("slower",)
    assert stop(record, terms_of("slower", threshold=0.2))[1] < ROUNDS
    assert stop(record, terms_of("slower", precision=0.2))[1] < ROUNDS


def test_what_is_open_says_how_much_time_would_decide() -> None:
    fixed = judge_race(until(raced(3), ROUNDS), terms_of("slower", threshold=0.015))
    assert fixed.race is not None
    assert fixed.race.more_s is None  # a run of a fixed plan does not say how long its rounds took
    assert f"open: slower; {fixed.race.more_rounds} more rounds should decide" in gate_document(fixed).findings
    record = raced(3)
    spent = Piece(key=["spent", 0], status="ok", data={"seconds": 120.0, "budget_s": 150.0})
    header = record.header.model_copy(update={"spec": {**record.header.spec, "rounds": None}})
    budgeted = Record(record.path, header, [*record.pieces, spent], complete=True)
    gate = judge_race(budgeted, terms_of("slower", threshold=0.015))
    assert gate.race is not None
    assert gate.race.extent == f"{ROUNDS} rounds in 2 min of 2 min 30 s"
    assert gate.race.more_rounds == fixed.race.more_rounds
    assert gate.race.more_s == pytest.approx((gate.race.more_rounds or 0) * 120 / ROUNDS)
    for more_s, total_s, text in (
        (240.0, 530.0, "about 4 min more, should decide: --resume --budget 9min"),
        (21.0, 41.0, "about 21 s more, should decide: --resume --budget 50s"),
    ):
        timed = replace(gate, race=replace(gate.race, more_rounds=1, more_s=more_s, total_s=total_s))
        assert f"open: slower; 1 more round, {text}" in gate_document(timed).findings
    hopeless = replace(gate, race=replace(gate.race, more_rounds=None))
    assert any("more rounds would not decide" in finding for finding in gate_document(hopeless).findings)


def test_a_fixed_plan_is_judged_by_its_own_rule() -> None:
    gate = judge_race(raced(1, slowdown=0.2), terms_of())
    assert gate.diff.rule == "fixed"
    change = {change.metric: change for change in gate.diff.items[0].changes}["rtf"]
    assert (change.paired, change.n, change.verdict) == (True, ROUNDS, "slower")
    # Rounds in which the machine moved by 3 % each are alike within a pair.
    assert change.value == pytest.approx(1.2, rel=0.02)


def test_each_condition_fails_on_what_it_names() -> None:
    assert {failure.condition for failure in judge_race(raced(1, growth=0.1), terms_of()).failures} == {"bigger"}
    lost = judge_race(raced(1, lost=[(0, 0)]), terms_of())
    assert {failure.condition for failure in lost.failures} == {"missing"}
    assert lost.diff.items[0].lost == ("u0",)
    nothing = judge_race(raced(1, lost=[(0, index) for index in range(UTTERANCES)]), terms_of())
    assert {(failure.condition, failure.name) for failure in nothing.failures} == {("missing", "change")}
    assert is_decided(until(raced(1, lost=[(0, index) for index in range(UTTERANCES)]), 1), terms_of())


def test_a_round_that_only_one_engine_has_finished_is_left_out() -> None:
    """Stopped at any moment: whatever is there gives the verdicts of its whole rounds, and nobody loses utterances."""
    whole = raced(5, rounds=4)
    expected = judge_race(until(whole, 3), terms_of())
    last = [piece for piece in whole.pieces if int(piece.key[1]) == 3]
    pieces = [piece for piece in whole.pieces if int(piece.key[1]) < 3]
    for count in range(0, len(last) // 2 + UTTERANCES, 3):  # the baseline's pieces, then streams of the change
        gate = judge_race(Record(whole.path, whole.header, [*pieces, *last[:count]], complete=False), terms_of())
        assert gate.passed
        assert gate.race is not None
        assert gate.race.rounds == 3
        assert gate.diff.items[0].changes == expected.diff.items[0].changes
    first = [piece for piece in whole.pieces if int(piece.key[1]) == 0]
    for count in range(0, len(first) - 2, 3):
        begun = Record(whole.path, whole.header, first[:count], complete=False)
        assert not is_decided(begun, terms_of())
        with pytest.raises(stopwav.StopwavError, match="no round is complete yet"):
            judge_race(begun, terms_of())


def test_a_baseline_that_fails_is_an_error_and_not_a_pass() -> None:
    swapped = raced(1, lost=[(0, index) for index in range(UTTERANCES)])
    spec = {**swapped.header.spec, "engines": ["change", "base"]}
    record = Record(swapped.path, swapped.header.model_copy(update={"spec": spec}), swapped.pieces, complete=True)
    with pytest.raises(stopwav.StopwavError, match="nothing was measured of the baseline change"):
        judge_race(record, terms_of())
    assert is_decided(until(record, 1), terms_of())


def test_one_round_names_nothing() -> None:
    gate = judge_race(until(raced(1, slowdown=1.0), 1), terms_of())
    assert gate.passed
    assert {change.verdict for change in gate.diff.items[0].changes if change.by == "ratio"} == {"undecided"}


def race(folder: Path, *arguments: object) -> Done:
    corpus = folder / "corpus"
    if not corpus.exists():
        write_corpus(corpus, count=2, seconds=0.4)
        (corpus / "transcripts.txt").unlink()  # nothing to align
    return command("gate", "--race", *arguments, "--corpus", corpus, "--save", folder / "runs")


def test_the_same_engine_twice_from_the_command_line(tmp_path: Path) -> None:
    done = race(tmp_path, "fake", "fake", "--rounds", 1, "--json")
    assert done.code == 0, done.stderr
    printed = json.loads(done.stdout)
    assert (printed["study"], printed["race"]["base"], printed["race"]["change"]) == ("latency", "fake", "fake#2")
    assert printed["race"]["rounds"] == 1
    assert all(change["paired"] for change in printed["results"][0]["changes"] if change["n"])
    record = Record.read(Path(printed["run"]))  # it is kept, and is a run like any other
    assert command("report", record.path).code == 0


def test_a_planted_slowdown_ends_the_race_with_code_3(tmp_path: Path) -> None:
    markdown = tmp_path / "gate.md"
    slow = "fake,service_ms=20"  # far more than what a busy machine adds
    arguments = ("--budget", "90s", "--fail-on", "slower", "--markdown", markdown, "--json")
    done = race(tmp_path, "fake,service_ms=2", slow, *arguments)
    assert done.code == 3, done.stderr
    printed = json.loads(done.stdout)
    assert ("slower", "rtf") in [(failure["condition"], failure["metric"]) for failure in printed["failures"]]
    assert {change["rule"] for change in printed["results"][0]["changes"] if change["n"]} == {"anytime"}
    record = Record.read(Path(printed["run"]))
    assert record.complete
    assert spent_s(record) < 60  # it was decided, so it did not wait for the end of the budget
    assert printed["race"]["rounds"] >= 3
    comment = markdown.read_text()
    assert "gate failed" in comment
    assert "paired by round: a and b took turns in one run" in comment
    assert record.path.name in comment  # it is kept, and named


def test_engines_that_do_not_stream_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("base", "change"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "my_engine.py").write_text(ENGINE)
    monkeypatch.chdir(tmp_path)
    plan = stopwav.Plan(min_values=2, min_values_s=0.0, max_values_s=0.1, warmup_s=0.0)
    gate = gate_race(
        "base/my_engine.py:Offline",
        "change/my_engine.py:Offline,die=true",
        corpus=write_corpus(tmp_path / "corpus", count=1),
        rounds=1,
        samples=1,
        frames=[10],
        plan=plan,
        save=tmp_path,
    )
    assert gate.diff.study == "compare"
    assert {(failure.condition, failure.name) for failure in gate.failures} == {
        ("missing", "change/my_engine.py:Offline,die=true")
    }
    assert any("does not stream" in remark for remark in gate.diff.remarks)


def test_wrong_commands_say_what_to_do_in_one_line(tmp_path: Path) -> None:
    run = saved(synthetic_run(1), tmp_path / "run.jsonl")
    for arguments, told in (
        (["--race", "fake"], "two engines with --race, got: 1"),
        (["--race", "fake", "fake", "--force"], "--force is for run files"),
        (["--race", "fake", "fake", "--study", "grid"], "use latency or compare"),
        (["--race", "fake", "fake", "--study", "compare", "--limit", 3], "unknown setting 'limit'"),
        (["--race", "fake", "fake", "--rounds", 3, "--budget", "1min"], "--rounds 3 is a fixed plan"),
        (["--race", "fake", "fake", "--budget", "soon"], "--budget 'soon'"),
        (["--race", "fake", "fake", "--fail-on", "ugly"], "no such condition"),
        (["--race", "fake", "nosuch"], "unknown engine 'nosuch'"),
        ([run, run, "--budget", "5min"], "--budget is for a race"),
    ):
        done = command("gate", *arguments)
        assert (done.code, len(done.stderr.splitlines())) == (2, 1), (arguments, done.stderr)
        assert told in done.stderr


def test_runs_of_compare_are_compared_too() -> None:
    run = DATA / "compare-rounds.jsonl"
    compared = stopwav.diff(run, run)
    engines = [item for item in compared.items if not item.part]
    assert engines
    for item in engines:
        changes = {change.metric: change for change in item.changes}
        assert changes["rtf"].value == pytest.approx(1)
        assert not changes["rtf"].paired
        assert changes["wer"].verdict == "same"
